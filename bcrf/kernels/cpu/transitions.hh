// Transitions of a layout and a number: their weights, products of a row with them, and sums of edge marginals.
//
// product(edge, x, step, part, transposed, visit) calls visit(v, sum) with each vector of x K, or of K x if
// `transposed`, while it is in registers. step: between the vectors of x; part: between its parts. write_product sets `to`
// to the product; it is not inlined.
#pragma once

#include "lanes.hh"
#include "plan.hh"
#include "products.hh"
#include "rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

// N::exponential of scores, padded with zeros: one matrix if transitions are shared, else one for each edge of a
// sequence. Exponentials are of the scores minus the largest one of the matrix. For a scale of 0, the weights are the
// scores, and that of a forbidden transition is 0.
template <class N> class Weights {
    using R = typename N::R;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>;

  public:
    const int tags, width;
    const double scale;
    const size_t part;  // of a matrix (tags, width), and its N::PARTS parts:

  private:
    const size_t stride_;
    const bool shared_;
    Buffer<R> rows_, columns_;
    Buffer<R> none_;  // (PARTS, width): zeros, the padding of columns
    Buffer<double> shift_;
    bool zeros_ = false;
    double range_ = 0;

    Value weight(Vec<R> x, R top) const {
        if constexpr (N::PARTS == 1 && N::IS_EXPONENTIAL)
            if (scale == 0) return x > -infinity<R> ? x : Vec<R>{};
        return N::exponential(x, broadcast(top), scale);
    }

  public:
    // edges: the room for matrices that are not shared.
    Weights(const Batch<R>& batch, int edges, double scale = 1)
        : tags(batch.tags), width(padded<R>(tags)), scale(scale), part(size_t(tags) * width), stride_(N::PARTS * part),
          shared_(batch.shared), rows_((shared_ ? 1 : edges) * stride_, Fill::NONE),
          columns_((shared_ ? 1 : edges) * stride_, Fill::NONE), none_(N::PARTS * width), shift_(shared_ ? 1 : edges) {
        for (int v = 0; v < width; v += W) N::store(none_ + v, width, N::zero());
        if (shared_) set(0, batch.transitions);
    }

    // Set matrix i from scores.
    BCRF_NOINLINE void set(int i, const R* w) {
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        R top = 0;
        if (N::IS_EXPONENTIAL && scale > 0) {
            const Extent<R> found = extent(w, size_t(tags) * tags);
            top = found.top > -infinity<R> ? found.top : R(0);
            shift_[i] = top * scale;
            range_ = std::max(range_, found.finite ? (double(top) - found.least) * scale : infinity<double>);
            zeros_ |= !(N::mantissa(weight(broadcast(found.low), top))[0] > 0);
        }
        for (int u = 0; u < tags; ++u, w += tags) {
            R* row = rows + size_t(u) * width;
            for (int v = 0; v < width; v += W) {
                R few[W];
                for (int k = 0; k < W && v + W > tags; ++k) few[k] = v + k < tags ? w[v + k] : -infinity<R>;
                const Vec<R> x = load(v + W > tags ? few : w + v);
                N::store(row + v, part, weight(x, top));
            }
        }
        for (int p = 0; p < N::PARTS; ++p)
            for (int u = 0; u < width; u += W) {
                const R* from[W];
                for (int k = 0; k < W; ++k)
                    from[k] = u + k < tags ? rows + p * part + size_t(u + k) * width : none_ + p * width;
                pack(columns + p * part + u, width, from, rows + stride_, tags);
            }
    }

    // Prepare for the edges of a sequence.
    void prepare(const Sequence<R>& s) {
        if (shared_) return;
        zeros_ = false;
        range_ = 0;
        for (int i = 0; i + 1 < s.length; ++i) set(i, s.edge(i));
    }

    // The weights of an edge, (PARTS, tags, width), or their transposes.
    const R* matrix(int edge, bool transposed) {
        return (transposed ? columns_ : rows_) + (shared_ ? 0 : edge * stride_);
    }
    double shift(int edge) { return shift_[shared_ ? 0 : edge]; }

    // Return the sum of the shifts of the first edges.
    double shifts(int edges) {
        if (shared_) return edges * shift_[0];
        double total = 0;
        for (int i = 0; i < edges; ++i) total += shift_[i];
        return total;
    }

    bool zeros() const { return zeros_; }    // whether an entry is 0
    double range() const { return range_; }  // largest minus smallest finite score; infinity for NaN and infinity
};

template <class Layout, class N> class Transitions;

// Rows of plain numbers.
template <class R, template <class> class Number>
class Transitions<Rows<R>, Number<R>> : public Weights<Number<R>> {
    using N = Number<R>;
    RowPairSums<R> pairs_;

    // The factors of sums of pairs.
    const R* factors() { return this->scale > 0 ? this->matrix(0, false) : nullptr; }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, const Shape&, int longest, double scale = 1)
        : Weights<N>(batch, longest, scale), pairs_(batch.tags) {}

    template <class Visit>
    BCRF_INLINE void product(int edge, const R* x, size_t, size_t, bool transposed, Visit visit) {
        row_products<N, 1>(&x, 1, this->matrix(edge, transposed), this->tags, this->width,
                           [&](int, int v, Vec<R> sum) BCRF_INLINE_LAMBDA { visit(v, sum); });
    }
    BCRF_NOINLINE void write_product(int edge, const R* x, size_t, size_t, bool transposed, R* to, size_t) {
        product(edge, x, 1, 0, transposed, [&](int v, Vec<R> sum) BCRF_INLINE_LAMBDA { store(to + v * lanes<R>, sum); });
    }
    // Call visit(r, v, sum) for the products of 1 to 4 rows with shared transitions, loaded once for all.
    template <class Visit> BCRF_INLINE void products(int rows, const R* const* x, bool transposed, Visit visit) {
        const R* k = this->matrix(0, transposed);
        with_constant<4>(rows, [&](auto n) BCRF_INLINE_LAMBDA {
            row_products<N, n.value>(x, 1, k, this->tags, this->width, visit);
        });
    }
    // Add the sums of `edges` pairs of rows a and b, `step` numbers apart. Shared transitions.
    void add_edges(const R* a, const R* b, int edges, size_t, size_t, double* sum) {
        pairs_.add(a, b, edges, factors(), sum);
    }
    void flush(double* sum) { pairs_.flush(factors(), sum); }
};

// Lanes. Weights are plain in wide numbers too, see plan.hh: a product over a block of allowed transitions then needs
// only the numbers near the largest one. The blocks of plain numbers leave out forbidden transitions if that is faster.
template <class N>
using LaneWeights = Weights<std::conditional_t<N::PARTS == 2, Plain<typename N::R>, N>>;
template <class R, template <class> class Number>
class Transitions<Lanes<R>, Number<R>> : public LaneWeights<Number<R>> {
    using N = Number<R>;
    using E = Exponents<R>;
    static constexpr bool WIDE = N::PARTS == 2;
    static constexpr int W = lanes<R>;
    static constexpr int STEPS = 8;  // edges that are scaled at once
    const size_t row_;               // numbers of all tags
    std::vector<TransitionBlock<R>> blocks_[2];
    std::vector<LanePairSums<R>> pairs_;
    Buffer<R> out_;        // (PARTS, tags, W): of a product
    Buffer<R> from_, to_;  // (STEPS, tags, W): of wide numbers, for one exponent

    // Return the group of each tag, see transition_blocks.
    static std::vector<int> groups(const Batch<R>& batch, bool transposed) {
        std::vector<int> found = group_tags(batch, transposed);
        if (WIDE && found.empty()) {
            found.resize(batch.tags);
            std::iota(found.begin(), found.end(), 0);
        }
        return found;
    }
    // Return the largest exponents of some tags of x.
    static Vec<R> largest_exponents(const std::vector<int>& tags, const R* exponents, size_t step) {
        Vec<R> top = broadcast<R>(2 * E::ZERO);
        for (int u : tags) top = max<R>(top, load(exponents + u * step));
        return top;
    }
    // Set `to` (tags, W) to the numbers of some tags of x times 2^by.
    static void scale(const std::vector<int>& tags, const R* x, size_t step, size_t part, Vec<R> by, R* to) {
        for (int u : tags) store(to + u * W, load(x + u * step) * power_of_two<R>(load(x + part + u * step) + by));
    }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, const Shape& shape, int, double scale = 1)
        : LaneWeights<N>(batch, 1, scale), row_(size_t(batch.tags) * W), out_(N::PARTS * row_), from_(WIDE ? STEPS * row_ : 0), to_(WIDE ? STEPS * row_ : 0) {
        const bool split = WIDE || shape.blocks;
        for (bool transposed : {false, true}) {
            // Viterbi goes forward only.
            if (transposed && std::is_same_v<N, Tropical<R>>) break;
            blocks_[transposed] =
                transition_blocks<R>(batch, transposed, split ? groups(batch, transposed) : std::vector<int>(),
                                     this->matrix(0, transposed));
        }
        for (const TransitionBlock<R>& block : blocks_[0]) pairs_.emplace_back(block, batch.tags, scale > 0);
    }

    BCRF_NOINLINE void write_product(int, const R* x, size_t step, size_t part, bool transposed, R* to, size_t to_part) {
        for (const TransitionBlock<R>& block : blocks_[transposed])
            if constexpr (WIDE) {
                const Vec<R> top = largest_exponents(block.from, x + part, step);
                scale(block.from, x, step, part, -top, from_);
                lane_product<Plain<R>, false>(from_.data(), W, block, [&](int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
                    N::store(to + v * W, to_part, N::normal({sum, top}));
                });
            } else {
                const auto keep = [&](int v, Vec<R> sum) BCRF_INLINE_LAMBDA { store(to + v * W, sum); };
                if (block.is_all()) lane_product<N, true>(x, step, block, keep);
                else lane_product<N, false>(x, step, block, keep);
            }
    }
    template <class Visit>
    BCRF_INLINE void product(int, const R* x, size_t step, size_t part, bool transposed, Visit visit) {
        const TransitionBlock<R>& first = blocks_[transposed][0];
        if constexpr (!WIDE)
            if (first.is_all()) return lane_product<N, true>(x, step, first, visit);
        // Inlined, it would slow down products without blocks.
        write_product(0, x, step, part, transposed, out_, row_);
        for (int v = 0; v < this->tags; ++v) visit(v, N::load(out_ + v * W, row_));
    }
    // stride: between the numbers of a row. The wide arcs of an edge sum to 1. So no product of the largest numbers of a
    // block exceeds the inverse of the smallest weight, and one power of 2 an edge brings both numbers into the range of
    // R.
    void add_edges(const R* a, const R* b, int edges, size_t step, size_t part, double* sum, size_t stride = W) {
        for (size_t j = 0; j < pairs_.size(); ++j) {
            const TransitionBlock<R>& block = blocks_[0][j];
            if (!WIDE) pairs_[j].add(a, b, stride, edges, step, sum);
            for (int first = 0; WIDE && first < edges; first += STEPS) {
                const int steps = std::min(STEPS, edges - first);
                for (int i = 0; i < steps; ++i) {
                    const R *x = a + (first + i) * step, *y = b + (first + i) * step;
                    const Vec<R> top = largest_exponents(block.from, x + part, stride);
                    scale(block.from, x, stride, part, -top, from_ + i * row_);
                    scale(block.to, y, stride, part, top, to_ + i * row_);
                }
                pairs_[j].add(from_, to_, W, steps, row_, sum);
            }
        }
    }
    void flush(double* sum) {
        for (LanePairSums<R>& pairs : pairs_) pairs.flush(sum);
    }
};

// Rows of wide numbers. Few tags have a weight near the largest one, so after a pass over the exponents, sums need only
// these.
template <class R> class Transitions<Rows<R>, Wide<R>> : public Weights<Wide<R>> {
    using N = Wide<R>;
    using E = Exponents<R>;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>;
    Buffer<int> near_;
    Buffer<R> out_;  // (2, width): of a product, whose sums take more time than a store
    PendingSums<R> sums_;

    // Set near_ to the tags whose exponent in a row is at least `least`. Return their number. Those of transitions are
    // at most 0.
    BCRF_INLINE int find_near(const R* e, R least) {
        int n = 0;
        int* near = near_;
        for (int u = 0; u < this->tags; ++u) {
            near[n] = u;
            n += e[u] >= least;
        }
        return n;
    }

    // Set out_ to unnormalized sums.
    template <int COLUMNS> BCRF_INLINE void block(const R* x, size_t part, const R* k, int first) {
        const size_t width = this->width;
        const R *e = x + part, *km = k + first * W, *ke = km + this->part;
        Vec<R> top[COLUMNS], total[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) top[c] = broadcast<R>(2 * E::ZERO), total[c] = Vec<R>{};
        for (int u = 0; u < this->tags; ++u)
            for (int c = 0; c < COLUMNS; ++c) top[c] = max<R>(top[c], load(ke + u * width + c * W) + e[u]);
        Vec<R> low = broadcast<R>(-E::ZERO);
        for (int c = 0; c < COLUMNS; ++c) low = min<R>(low, top[c] > E::NOTHING ? top[c] : low);
        const int n = find_near(e, minimum<R>(low) - Precision<R>::NEGLIGIBLE);
        for (int j = 0; j < n; ++j) {
            const size_t u = near_[j];
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<R> d = load(ke + u * width + c * W) + e[u] - top[c];
                total[c] += (load(km + u * width + c * W) * x[u]) * power_of_two<R>(d);
            }
        }
        for (int c = 0; c < COLUMNS; ++c) N::store(out_ + (first + c) * W, width, {total[c], top[c]});
    }
    BCRF_NOINLINE void multiply(const R* x, size_t part, const R* k) {
        for_blocks<4>(this->width / W, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
            block<columns.value>(x, part, k, v);
        });
    }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, const Shape&, int longest, double scale = 1)
        : Weights<N>(batch, longest, scale), near_(batch.tags + 1), out_(2 * size_t(this->width)),
          sums_(batch.tags) {}

    // Call visit(v, sum) with sums that are not normalized: their exponents are exactly the largest sum of exponents.
    template <class Visit>
    BCRF_INLINE void raw_product(int edge, const R* x, size_t part, bool transposed, Visit visit) {
        multiply(x, part, this->matrix(edge, transposed));
        for (int v = 0; v < this->width / W; ++v) visit(v, N::load(out_ + v * W, this->width));
    }
    template <class Visit>
    BCRF_INLINE void product(int edge, const R* x, size_t, size_t part, bool transposed, Visit visit) {
        raw_product(edge, x, part, transposed, [&](int v, Value sum) BCRF_INLINE_LAMBDA { visit(v, N::normal(sum)); });
    }
    void write_product(int edge, const R* x, size_t, size_t part, bool transposed, R* to, size_t to_part) {
        product(edge, x, W, part, transposed, [&](int v, Value y) BCRF_INLINE_LAMBDA { N::store(to + v * W, to_part, y); });
    }

    void add_edges(const R* a, const R* b, int edges, size_t step, size_t part, double* sum) {
        const size_t width = this->width;
        const R *km = this->matrix(0, false), *ke = km + this->part;
        for (; edges > 0; --edges, a += step, b += step) {
            R* sums = sums_.get();
            Vec<R> tops = broadcast<R>(2 * E::ZERO);
            for (size_t t = 0; t < width; t += W) tops = max<R>(tops, load(b + part + t));
            const int n = find_near(a + part, -maximum<R>(tops) - E::BIAS);
            for (int j = 0; j < n; ++j) {
                const size_t u = near_[j], at = u * width;
                for (size_t v = 0; v < width; v += W) {
                    const Vec<R> e = (load(ke + at + v) + a[part + u]) + load(b + part + v);
                    const Vec<R> m = (load(km + at + v) * a[u]) * load(b + v);
                    store(sums + at + v, load(sums + at + v) + m * power_of_two<R>(e));
                }
            }
            sums_.count(1, nullptr, sum);
        }
    }
    void flush(double* sum) { sums_.flush(nullptr, sum); }
};

// Return the weights of tag u at an edge: of all tags of vector v in rows, of tag v in lanes.
template <class L, class N> BCRF_INLINE typename N::Value edge_weight(Transitions<L, N>& k, int edge, int u, int v) {
    const auto* row = k.matrix(edge, false) + size_t(u) * k.width;
    if constexpr (L::IN_LANES) return N::of(broadcast(row[v]));
    else return N::load(row + v * lanes<typename N::R>, k.part);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
