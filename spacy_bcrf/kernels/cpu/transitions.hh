// Transitions of a layout and a number: products of a row with them, and sums of edge marginals.
//
// product(edge, x, step, part, transposed, visit) calls visit(v, sum) with each vector of x K, or of K x if
// `transposed`, while it is in registers. step: between the vectors of x; part: between its parts.
#pragma once

#include "lanes.hh"
#include "pair_sums.hh"
#include "plan.hh"
#include "products.hh"
#include "rows.hh"
#include "weights.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class Layout, class N> class Transitions;

// Rows of plain numbers.
template <class R> class Transitions<Rows<R>, Plain<R>> : public DenseWeights<R> {
    using N = Plain<R>;
    const bool scores_;
    RowPairSums<R> pairs_;

    // The factor of sums of pairs.
    const R* factors() { return scores_ ? nullptr : this->matrix(0, false); }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, int longest, double scale = 1, Weights kind = Weights::EXPONENTIALS)
        : DenseWeights<R>(batch, longest, scale, kind), scores_(kind == Weights::SCORES), pairs_(batch.tags) {}

    // Prepare for the edges of a tile.
    void prepare(const typename Rows<R>::Tile& tile) { this->load_edges(tile.sequence[0]); }

    template <class Visit>
    BCRF_INLINE void product(int edge, const R* x, size_t, size_t, bool transposed, Visit visit) {
        row_products<N, 1>(&x, this->matrix(edge, transposed), this->tags(), this->width(),
                           [&](int, int v, Vec<R> sum) BCRF_INLINE_LAMBDA { visit(v, sum); });
    }
    // Call visit(r, v, sum) for the products of 1 to 4 rows with the transitions of an edge, loaded once for all.
    template <class Visit>
    BCRF_INLINE void products(int rows, const R* const* x, bool transposed, Visit visit, int edge = 0) {
        const R* k = this->matrix(edge, transposed);
        switch (rows) {
            case 1: row_products<N, 1>(x, k, this->tags(), this->width(), visit); break;
            case 2: row_products<N, 2>(x, k, this->tags(), this->width(), visit); break;
            case 3: row_products<N, 3>(x, k, this->tags(), this->width(), visit); break;
            default: row_products<N, 4>(x, k, this->tags(), this->width(), visit);
        }
    }
    // Add the sums of `edges` pairs of rows a and b, `step` numbers apart. Shared transitions.
    void add_edges(const R* a, const R* b, int edges, size_t, size_t, double* sum) {
        pairs_.add(a, b, edges, factors(), sum);
    }
    void flush(double* sum) { pairs_.flush(factors(), sum); }
};

// The blocks of shared weights of R, see transition_blocks.hh.
template <class R, class Weights>
std::vector<TransitionBlock<R>> blocks_of(const Batch<R>& batch, Weights& weights, bool transposed) {
    return transition_blocks<R>(batch, transposed, [&](size_t u, size_t v) {
        return weights.matrix(0, false)[u * weights.width() + v];
    });
}

// Lanes of plain numbers: dense, or in blocks of transitions if they are much smaller. Scores are dense, because the
// sums over blocks have weights as factors.
template <class R> class Transitions<Lanes<R>, Plain<R>> : public DenseWeights<R> {
    using N = Plain<R>;
    static constexpr int W = lanes<R>;
    const bool scores_, dense_;
    std::vector<TransitionBlock<R>> blocks_[2];
    LanePairSums<R> pairs_;
    BlockPairSums<R> block_pairs_;
    Buffer<R> out_;  // (tags, W): of a product in blocks

    std::vector<TransitionBlock<R>> find_blocks(const Batch<R>& batch, bool transposed) {
        return dense_ ? std::vector<TransitionBlock<R>>() : blocks_of(batch, *this, transposed);
    }
    const R* factors() { return scores_ ? nullptr : this->matrix(0, false); }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, int, double scale = 1, Weights kind = Weights::EXPONENTIALS)
        : DenseWeights<R>(batch, 1, scale, kind), scores_(kind == Weights::SCORES),
          dense_(scores_ || !are_blocks_faster(batch)), blocks_{find_blocks(batch, false), find_blocks(batch, true)},
          pairs_(dense_ ? batch.tags : 0, batch.tags, this->width()), block_pairs_(blocks_[0], batch.tags),
          out_(dense_ ? 0 : size_t(batch.tags) * W) {}

    void prepare(const typename Lanes<R>::Tile&) {}

    template <class Visit>
    BCRF_INLINE void product(int, const R* x, size_t step, size_t, bool transposed, Visit visit) {
        if (dense_) {
            const R* k = this->matrix(0, transposed);
            return lane_product<N>(x, step, k, this->tags(), this->tags(), this->width(), visit);
        }
        lane_block_products<N>(out_.data(), x, step, blocks_[transposed]);
        for (int v = 0; v < this->tags(); ++v) visit(v, load(out_ + v * W));
    }
    // Set `to` (tags, W) to a product.
    BCRF_NOINLINE void write_product(const R* x, size_t step, size_t part, bool transposed, R* to, size_t) {
        if (!dense_) return lane_block_products<N>(to, x, step, blocks_[transposed]);
        product(0, x, step, part, transposed, [&](int v, Vec<R> sum) BCRF_INLINE_LAMBDA { store(to + v * W, sum); });
    }
    // stride: between the numbers of a row.
    void add_edges(const R* a, const R* b, int edges, size_t step, size_t, double* sum, size_t stride = W) {
        if (dense_) return pairs_.add(a, b, stride, edges, step, factors(), sum);
        block_pairs_.add(edges, [&](const TransitionBlock<R>& block, int i, R* from, R* to) BCRF_INLINE_LAMBDA {
            for (int u : block.from) store(from, load(a + i * step + u * stride)), from += W;
            for (int v : block.to) store(to, load(b + i * step + v * stride)), to += W;
        });
    }
    void flush(double* sum) {
        if (dense_) pairs_.flush(factors(), sum);
        else block_pairs_.flush(sum);
    }
};

// Lanes of wide numbers. Weights are plain, see plan.hh: a product over a block then needs only the numbers near the
// largest one. If tags share no predecessors, each is a block of its own.
template <class R> class Transitions<Lanes<R>, Wide<R>> : public WideWeights<R> {
    using N = Wide<R>;
    using E = Exponents<R>;
    static constexpr int W = lanes<R>;
    std::vector<TransitionBlock<R>> blocks_[2];
    BlockPairSums<R> pairs_;
    const size_t out_part_;
    Buffer<R> scratch_;  // (tags, W)
    Buffer<R> out_;      // (2, tags, W): of a product, whose sums take more time than a store

    BCRF_NOINLINE void multiply(const R* x, size_t step, size_t part, const TransitionBlock<R>& block, R* to,
                                size_t to_part) {
        Vec<R> top = broadcast<R>(2 * E::ZERO);
        for (int u : block.from) top = max<R>(top, load(x + part + u * step));
        if (block.columns() == 1) {
            // The sum needs each number once.
            Vec<R> sum{};
            for (int i = 0; i < block.rows(); ++i) {
                const auto y = N::load(x + block.from[i] * step, part);
                sum += (y.m * block.weights[i * block.width]) * power_of_two<R>(y.e - top);
            }
            return N::store(to + block.to[0] * W, to_part, N::normal({sum, top}));
        }
        for (int i = 0; i < block.rows(); ++i) {
            const auto y = N::load(x + block.from[i] * step, part);
            store(scratch_ + i * W, y.m * power_of_two<R>(y.e - top));
        }
        lane_product<Plain<R>>((const R*)scratch_, W, block.weights.data(), block.rows(), block.columns(), block.width,
                               [&](int j, Vec<R> sum) BCRF_INLINE_LAMBDA {
                                   N::store(to + block.to[j] * W, to_part, N::normal({sum, top}));
                               });
    }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, int, double scale = 1)
        : WideWeights<R>(batch.tags, scale, true),
          blocks_{(this->set(batch.transitions), blocks_of(batch, *this, false)), blocks_of(batch, *this, true)},
          pairs_(blocks_[0], batch.tags), out_part_(size_t(batch.tags) * W), scratch_(out_part_), out_(2 * out_part_) {}

    void prepare(const typename Lanes<R>::Tile&) {}

    // Set `to` (2, tags, W) to a product.
    void write_product(const R* x, size_t step, size_t part, bool transposed, R* to, size_t to_part) {
        for (const TransitionBlock<R>& block : blocks_[transposed]) multiply(x, step, part, block, to, to_part);
    }
    template <class Visit>
    BCRF_INLINE void product(int, const R* x, size_t step, size_t part, bool transposed, Visit visit) {
        write_product(x, step, part, transposed, out_, out_part_);
        for (int v = 0; v < this->tags(); ++v) visit(v, N::load(out_ + v * W, out_part_));
    }
    // The arcs of an edge sum to 1. So no product of the largest numbers of a block exceeds the inverse of the smallest
    // weight, and one power of 2 an edge brings both numbers into the range of R.
    void add_edges(const R* a, const R* b, int edges, size_t step, size_t part, double*, size_t stride = W) {
        pairs_.add(edges, [&](const TransitionBlock<R>& block, int i, R* from, R* to) BCRF_INLINE_LAMBDA {
            const R *x = a + i * step, *y = b + i * step;
            Vec<R> top = broadcast<R>(2 * E::ZERO);
            for (int u : block.from) top = max<R>(top, load(x + part + u * stride));
            for (int u : block.from) {
                store(from, load(x + u * stride) * power_of_two<R>(load(x + part + u * stride) - top));
                from += W;
            }
            for (int v : block.to) {
                store(to, load(y + v * stride) * power_of_two<R>(load(y + part + v * stride) + top));
                to += W;
            }
        });
    }
    void flush(double* sum) { pairs_.flush(sum); }
};

// Rows of wide numbers. Few tags have a weight near the largest one, so after a pass over the exponents, sums need only
// these.
template <class R> class Transitions<Rows<R>, Wide<R>> {
    using N = Wide<R>;
    using E = Exponents<R>;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>;
    const int tags_, width_;
    const bool shared_;
    Sequence<R> s_{};
    WideWeights<R> k_;           // of shared transitions, or of `loaded_`
    int loaded_ = -1;            // an edge
    double range_ = 0, shifts_ = 0;
    bool zeros_ = false;
    Buffer<R> most_[2];          // (tags): the largest exponent of a row of K, and of its transpose
    Buffer<int> near_;
    Buffer<R> out_;              // (2, width): of a product, whose sums take more time than a store
    Buffer<R> sums_;             // (tags, width): of edge marginals
    int pending_ = 0;

    void set(const R* w) {
        k_.set(w);
        for (int transposed = 0; transposed < 2; ++transposed)
            for (int u = 0; u < tags_; ++u) {
                const R* e = k_.matrix(0, transposed) + k_.part() + size_t(u) * width_;
                most_[transposed][u] = largest(e, tags_);
            }
    }
    void load_edge(int edge) {
        if (shared_ || edge == loaded_) return;
        loaded_ = edge;
        set(s_.edge(edge));
    }

    // Set near_ to the tags whose exponent in a row, with that of the transitions, is at least `least`. Return their
    // number.
    BCRF_INLINE int find_near(const R* e, bool transposed, R least) {
        int n = 0;
        int* near = near_;
        const R* most = most_[transposed].data();
        for (int u = 0; u < tags_; ++u) {
            near[n] = u;
            n += e[u] + most[u] >= least;
        }
        return n;
    }

    // Set out_ to unnormalized sums.
    template <int COLUMNS> BCRF_INLINE void block(const R* x, size_t part, bool transposed, int first) {
        const size_t width = width_;
        const R *e = x + part, *km = k_.matrix(0, transposed) + first * W, *ke = km + k_.part();
        Vec<R> top[COLUMNS], total[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) top[c] = broadcast<R>(2 * E::ZERO), total[c] = Vec<R>{};
        for (int u = 0; u < tags_; ++u)
            for (int c = 0; c < COLUMNS; ++c) top[c] = max<R>(top[c], load(ke + u * width + c * W) + e[u]);
        Vec<R> low = broadcast<R>(-E::ZERO);
        for (int c = 0; c < COLUMNS; ++c) low = min<R>(low, top[c] > E::NOTHING ? top[c] : low);
        const int n = find_near(e, transposed, -maximum<R>(-low) - Precision<R>::NEGLIGIBLE);
        for (int j = 0; j < n; ++j) {
            const size_t u = near_[j];
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<R> d = load(ke + u * width + c * W) + e[u] - top[c];
                total[c] += (load(km + u * width + c * W) * x[u]) * power_of_two<R>(d);
            }
        }
        for (int c = 0; c < COLUMNS; ++c) N::store(out_ + (first + c) * W, width, {total[c], top[c]});
    }
    BCRF_NOINLINE void multiply(const R* x, size_t part, bool transposed) {
        for_vectors<4>(width_ / W, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
            block<columns.value>(x, part, transposed, v);
        });
    }

  public:
    BCRF_NOINLINE Transitions(const Batch<R>& batch, int, double scale = 1)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared),
          k_(tags_, scale, false),
          most_{Buffer<R>(tags_), Buffer<R>(tags_)}, near_(tags_ + 1), out_(2 * size_t(width_)),
          sums_(size_t(tags_) * width_) {
        if (shared_) {
            set(batch.transitions);
            range_ = k_.range(), zeros_ = k_.zeros();
        }
    }

    void prepare(const typename Rows<R>::Tile& tile) {
        if (shared_) return;
        s_ = tile.sequence[0];
        loaded_ = -1;
        range_ = shifts_ = 0;
        zeros_ = false;
        // From the last to the first edge, because the first one is next.
        for (int i = s_.length - 2; i >= 0; --i) {
            load_edge(i);
            range_ = std::max(range_, k_.range());
            shifts_ += k_.shift(i);
            zeros_ |= k_.zeros();
        }
    }
    double shifts(int edges) const { return shared_ ? k_.shifts(edges) : shifts_; }
    double shift(int edge) { return load_edge(edge), k_.shift(edge); }
    double range() const { return range_; }
    bool zeros() const { return zeros_; }

    // Call visit(v, sum) with sums that are not normalized: their exponents are exactly the largest sum of exponents.
    template <class Visit>
    BCRF_INLINE void raw_product(int edge, const R* x, size_t part, bool transposed, Visit visit) {
        load_edge(edge);
        multiply(x, part, transposed);
        for (int v = 0; v < width_ / W; ++v) visit(v, N::load(out_ + v * W, width_));
    }
    template <class Visit>
    BCRF_INLINE void product(int edge, const R* x, size_t, size_t part, bool transposed, Visit visit) {
        raw_product(edge, x, part, transposed, [&](int v, Value sum) BCRF_INLINE_LAMBDA { visit(v, N::normal(sum)); });
    }
    const R* matrix(int edge, bool transposed) { return load_edge(edge), k_.matrix(edge, transposed); }
    size_t part() const { return k_.part(); }
    int width() const { return width_; }

    void add_edges(const R* a, const R* b, int edges, size_t step, size_t part, double* sum) {
        const size_t width = width_;
        const R *km = k_.matrix(0, false), *ke = km + k_.part();
        for (; edges > 0; --edges, a += step, b += step) {
            Vec<R> tops = broadcast<R>(2 * E::ZERO);
            for (size_t t = 0; t < width; t += W) tops = max<R>(tops, load(b + part + t));
            const int n = find_near(a + part, false, -maximum<R>(tops) - E::BIAS);
            for (int j = 0; j < n; ++j) {
                const size_t u = near_[j], at = u * width;
                for (size_t v = 0; v < width; v += W) {
                    const Vec<R> e = (load(ke + at + v) + a[part + u]) + load(b + part + v);
                    const Vec<R> m = (load(km + at + v) * a[u]) * load(b + v);
                    store(sums_ + at + v, load(sums_ + at + v) + m * power_of_two<R>(e));
                }
            }
            if (++pending_ == Precision<R>::MOST_SUMMED) flush(sum);
        }
    }
    void flush(double* sum) {
        if (!pending_) return;
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v) {
                R& x = sums_[size_t(u) * width_ + v];
                sum[size_t(u) * tags_ + v] += double(x);
                x = 0;
            }
        pending_ = 0;
    }
};

// Return the weights of an edge from tag u to the tags of vector v of a row.
template <class L, class N> BCRF_INLINE typename N::Value weight(Transitions<L, N>& k, int edge, int u, int v) {
    const auto* row = k.matrix(edge, false) + size_t(u) * k.width();
    return L::IN_LANES ? N::single(row + v, k.part()) : N::load(row + v * lanes<typename N::R>, k.part());
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
