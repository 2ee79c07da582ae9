// Arithmetic of the lanes: plain numbers, and numbers with exponents of their own.
//
// A Scaled number is m 2^e, where m is a number of R and e is an integer, a number of R too. It has the
// digits of R and the range of a logarithm, so sums of products need neither exp nor log.
#pragma once

#include "../shared/precision.hh"
#include "lanes.hh"
#include "matrices.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The largest range of scores with plain weights. A number that is lost beside the largest one is lost in their
// products with the weights too.
template <class R> constexpr double MAX_PLAIN_RANGE = sizeof(R) == 4 ? 66 : 650;

// Return whether exp(transitions - shift) are numbers of R.
template <class R, class In> bool are_plain(const Batch<In>& batch, double scale) {
    const size_t n = size_t(batch.tags) * batch.tags;
    const double top = largest(batch.transitions, n), low = smallest_finite(batch.transitions, n);
    return (top - low) * scale <= MAX_PLAIN_RANGE<R>;
}

// Blocks of exp(transitions - shift), or none if they are not plain. A product with a vector of Scaled numbers
// then needs only the numbers near the largest one of a block. So blocks are faster with few tags too, and if all
// transitions are allowed, in a single block.
template <class R, class In>
std::vector<TransitionBlock<R>> plain_blocks(const Batch<In>& batch, double scale, bool transposed) {
    if (!batch.shared || !are_plain<R>(batch, scale)) return {};
    const size_t tags = batch.tags;
    const double top = largest(batch.transitions, tags * tags);
    return transition_blocks<R>(batch, transposed, [&](size_t u, size_t v) {
        return R(std::exp((double(batch.transitions[u * tags + v]) - top) * scale));
    });
}

// Return whether lanes of Scaled floats are faster than doubles, which have half as many lanes. Few tokens do not pay
// for finding blocks (benchmarks.kernels with batches of 1 to 64).
template <class In> bool are_scaled_floats_faster(const Batch<In>& batch, double scale) {
    if (sizeof(In) == 8 || !batch.shared || batch.tokens() < 16 * size_t(lanes<In>)) return false;
    return are_plain<In>(batch, scale) && !group_tags(batch, false).empty();
}

// The least share of lanes to fill for that: empty lanes cost as much as doubles.
constexpr double SCALED_FLOATS_SHARE = 0.85;

template <class R> struct Scaled { Vec<R> m, e; };

template <class R> struct Exponents {
    static constexpr bool SINGLE = sizeof(R) == 4;
    static constexpr int MANTISSA = SINGLE ? 23 : 52;
    static constexpr R BIAS = SINGLE ? 127 : 1023;
    static constexpr R ROUND = SINGLE ? R(12582912.0) : R(6755399441055744.0);  // 1.5 * 2^MANTISSA
    static constexpr R SHIFT = SINGLE ? R(8388608.0) : R(4503599627370496.0);   // 2^MANTISSA
    // The exponent of 0, below that of any other number. R holds the sum of a few.
    static constexpr R ZERO = SINGLE ? R(-67108864.0) : R(-2e307);
    // The largest exponents of which R represents all sums that the kernels need.
    static constexpr R MOST = R(4194304.0);
};

#if defined(__GNUC__)

template <class R> BCRF_INLINE IntVec<R> bits_of(Vec<R> x) {
    IntVec<R> bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

template <class R> BCRF_INLINE Vec<R> from_bits(IntVec<R> bits) {
    Vec<R> x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// Return 2^d for integers d far below the overflow; 0 below the range of R.
template <class R> BCRF_INLINE Vec<R> power_of_two(Vec<R> d) {
    using E = Exponents<R>;
    const Vec<R> shifted = max<R>(d + (E::ROUND + E::BIAS), broadcast<R>(E::ROUND));
    return from_bits<R>(bits_of<R>(shifted) << E::MANTISSA);
}

template <class R> BCRF_INLINE Scaled<R> normalized(Scaled<R> x) {
    using E = Exponents<R>;
    const IntVec<R> bits = bits_of<R>(x.m);
    const Vec<R> e = from_bits<R>((bits >> E::MANTISSA) | bits_of<R>(broadcast<R>(E::SHIFT)));
    const IntOf<R> one = (IntOf<R>(1) << (sizeof(R) * 8 - 2)) - (IntOf<R>(1) << E::MANTISSA);
    const Vec<R> m = from_bits<R>((bits & ((IntOf<R>(1) << E::MANTISSA) - 1)) | one);
    const Vec<R> none{};
    return {x.m > none ? m : none, x.m > none ? x.e + (e - (E::SHIFT + E::BIAS)) : broadcast<R>(E::ZERO)};
}

// exp(transitions - shift) in R, and its blocks if they are much smaller.
template <class R, class In> class LaneMatrices : public Matrices<R, In> {
    std::vector<TransitionBlock<R>> blocks_, transposed_;

  public:
    LaneMatrices(const Batch<In>& batch, int longest, double scale = 1) : Matrices<R, In>(batch, longest, scale) {
        if (!are_blocks_faster(batch)) return;
        const auto weight = [&](size_t u, size_t v) { return this->rows(0)[u * this->width() + v]; };
        blocks_ = transition_blocks<R>(batch, false, weight);
        transposed_ = transition_blocks<R>(batch, true, weight);
    }
    const std::vector<TransitionBlock<R>>& blocks(bool transposed) const { return transposed ? transposed_ : blocks_; }
};

// The arithmetic of R. Value is a vector of numbers; an array has PARTS parts. `normal` makes the
// mantissa of a Scaled number at least 1 and less than 2. Arrays may hold others, between 2^-22 and 2^13.
// `inverse_root` takes any mantissa far from the limits of R.
template <class R_> struct Plain {
    using R = R_;
    using Value = Vec<R>;
    static constexpr int PARTS = 1;
    static constexpr double MAX_RANGE = Precision<R>::MAX_RANGE;
    template <class In> using Kernel = LaneMatrices<R, In>;

    static BCRF_INLINE Value load(const R* p, size_t) { return BCRF_TARGET::load(p); }
    static BCRF_INLINE void store(R* p, size_t, Value x) { BCRF_TARGET::store(p, x); }
    static BCRF_INLINE void clear(R* p, size_t) { *p = 0; }
    static BCRF_INLINE Value zero() { return Value{}; }
    static BCRF_INLINE Value one() { return broadcast<R>(1); }
    static BCRF_INLINE Value times(Value a, Vec<R> b) { return a * b; }
    static BCRF_INLINE Value inverse(Value a) { return R(1) / a; }
    static BCRF_INLINE Value inverse_root(Value a) { return inverse_square_root(a); }
    // The logarithms of a b and a / b. The product and the quotient may be out of range.
    static BCRF_INLINE Vec<R> log_product(Value a, Value b) { return logarithm(a) + logarithm(b); }
    static BCRF_INLINE Vec<R> log_ratio(Value a, Value b) { return logarithm(a) - logarithm(b); }
    static BCRF_INLINE Vec<R> plain(Value a) { return a; }
    static BCRF_INLINE Vec<R> exponent(Value) { return Vec<R>{}; }
    static BCRF_INLINE Vec<R> mantissa(Value a) { return a; }
    static BCRF_INLINE Value normal(Value a) { return a; }
    // Return the first where `where` is positive.
    static BCRF_INLINE Value select(Vec<R> where, Value a, Value b) { return where > Vec<R>{} ? a : b; }
    // Return exp((x - top) scale).
    static BCRF_INLINE Value exponential(Vec<R> x, Vec<R> top, double scale) {
        return BCRF_TARGET::exponential((x - top) * R(scale));
    }
    // A sum of as many values as the scratch array (PARTS, values, W) holds.
    class Total {
        Value sum_{};

      public:
        explicit Total(R*) {}
        BCRF_INLINE void add(Value x) { sum_ += x; }
        BCRF_INLINE Value get() const { return sum_; }
    };
    // The ratio of x and f g, which many tags share. R may have lost a number of a small mass. scratch: of two totals.
    class Ratio {
        Value x_{}, f_{}, g_{};
        Vec<R> most_{};

      public:
        explicit Ratio(R*, R*) {}
        BCRF_INLINE void add(Value x, Value f, Value g, Vec<R> mass) {
            x_ = mass > most_ ? x : x_;
            f_ = mass > most_ ? f : f_;
            g_ = mass > most_ ? g : g_;
            most_ = max<R>(mass, most_);
        }
        // The product of two factors may be out of range.
        BCRF_INLINE Scaled<R> get() const {
            const Scaled<R> f = normalized<R>({f_, Vec<R>{}}), g = normalized<R>({g_, Vec<R>{}});
            return {x_ / (f.m * g.m), -(f.e + g.e)};
        }
    };
    // Return 1 where R has kept a sum.
    static BCRF_INLINE Vec<R> valid(Value a) {
        const Vec<R> least = broadcast<R>(std::numeric_limits<R>::min()), one = broadcast<R>(1);
        return a > least ? (a < infinity<R> ? one : Vec<R>{}) : Vec<R>{};
    }
    // Return 1 where both factors of a tag are in range.
    static BCRF_INLINE Vec<R> held(Value f, Value g) {
        const Vec<R> least = min<R>(f, g), most = max<R>(f, g), one = broadcast<R>(1);
        const R low = 1 / Precision<R>::MAX_FACTOR, high = Precision<R>::MAX_FACTOR;
        return least > low ? (most < high ? one : Vec<R>{}) : Vec<R>{};
    }
    template <class In>
    static void product(R* out, size_t to, size_t, const R* x, size_t from, size_t,
                        LaneMatrices<R, In>& k, bool transposed) {
        if (!k.blocks(transposed).empty())
            return lane_block_products<SumProduct>(out, to, x, from, k.blocks(transposed));
        lane_product<SumProduct>(out, to, x, from, transposed ? k.columns(0) : k.rows(0), k.tags(), k.tags(),
                                 k.width());
    }
};

// The positive entries of a matrix of Scaled numbers, column by column.
template <class R> struct ScaledColumns {
    struct Entry {
        R m, e;
        int row;
    };
    std::vector<int> start{0};  // (tags + 1)
    std::vector<Entry> entries;
};

// exp(transitions - shift) and its transpose, as Scaled numbers.
template <class R, class In> class ScaledMatrices {
    int tags_;
    size_t part_;
    ScaledColumns<R> columns_, transposed_;  // without blocks
    double shift_ = 0, range_ = 0;
    bool zeros_ = false, plain_ = false;
    std::vector<TransitionBlock<R>> blocks_, transposed_blocks_;
    Buffer<R> scratch_;  // (2, tags, W)

  public:
    ScaledMatrices(const Batch<In>& batch, int, double scale = 1)
        : tags_(batch.tags), part_(size_t(tags_) * tags_), plain_(are_plain<R>(batch, scale)) {
        const In* w = batch.transitions;
        double top = largest(w, part_);
        if (top == -infinity<double>) top = 0;
        shift_ = top * scale;
        range_ = (top - double(smallest_finite(w, part_))) * scale;
        blocks_ = plain_blocks<R>(batch, scale, false);
        transposed_blocks_ = plain_blocks<R>(batch, scale, true);
        scratch_ = Buffer<R>(2 * size_t(tags_) * lanes<R>);
        const auto add = [&](ScaledColumns<R>& columns, int from, int u, int v) {
            const In score = w[size_t(u) * tags_ + v];
            // NaN is not a forbidden transition.
            if (!(score < infinity<In>)) range_ = infinity<double>;
            if (!(score > -infinity<In>) || !blocks(&columns == &transposed_).empty()) return;
            columns.entries.push_back(entry(from, score, scale));
        };
        for (int i = 0; i < tags_; ++i) {
            for (int j = 0; j < tags_; ++j) {
                add(columns_, j, j, i);
                add(transposed_, j, i, j);
            }
            columns_.start.push_back(int(columns_.entries.size()));
            transposed_.start.push_back(int(transposed_.entries.size()));
        }
        zeros_ = count_allowed(batch) < part_;
    }

    // Return exp(score - shift) of a transition from the tag `row`, or to it.
    typename ScaledColumns<R>::Entry entry(int row, In score, double scale) const {
        const double x = (double(score) * scale - shift_) / LOG_2, e = plain_ ? 0 : std::floor(x);
        return {R(std::exp2(x - e)), R(e), row};
    }

    int tags() const { return tags_; }
    int width() const { return tags_; }
    size_t part() const { return part_; }
    // Whether the weights are numbers of R: all exponents are 0.
    bool plain() const { return plain_; }
    const std::vector<TransitionBlock<R>>& blocks(bool transposed) const {
        return transposed ? transposed_blocks_ : blocks_;
    }
    R* scratch() { return scratch_; }
    const ScaledColumns<R>& columns(bool transposed) const { return transposed ? transposed_ : columns_; }
    double shift(int) const { return shift_; }
    bool zeros() const { return zeros_; }
    double range() const { return range_; }
};

// Set out[v] = x K[:, v] for a column of K. The arrays' exponents are `part` after their mantissas. PLAIN:
// all exponents of K are 0.
template <bool PLAIN, class R>
BCRF_INLINE void scaled_column(R* out, size_t out_part, const R* x, size_t from, size_t x_part,
                               const typename ScaledColumns<R>::Entry* first,
                               const typename ScaledColumns<R>::Entry* last) {
    using E = Exponents<R>;
    Vec<R> top = broadcast<R>(2 * E::ZERO), total{};
    const auto exponent = [=](const auto* k) BCRF_INLINE_LAMBDA {
        const Vec<R> e = load(x + x_part + k->row * from);
        return PLAIN ? e : e + k->e;
    };
    for (const auto* k = first; k < last; ++k) top = max<R>(top, exponent(k));
    const Vec<R> base = top - (E::ROUND + E::BIAS);
    for (const auto* k = first; k < last; ++k) {
        const R* at = x + k->row * from;
        // 2^(e + ek - top), as in power_of_two.
        const Vec<R> shifted = max<R>(exponent(k) - base, broadcast<R>(E::ROUND));
        total += (load(at) * k->m) * from_bits<R>(bits_of<R>(shifted) << E::MANTISSA);
    }
    const Scaled<R> sum = normalized<R>({total, top});
    store(out, sum.m);
    store(out + out_part, sum.e);
}

// The arithmetic of Scaled numbers.
template <class R_> struct Wide {
    using R = R_;
    using Value = Scaled<R>;
    static constexpr int PARTS = 2;
    static constexpr double MAX_RANGE = Exponents<R>::MOST / 4;
    template <class In> using Kernel = ScaledMatrices<R, In>;

    static BCRF_INLINE Value load(const R* p, size_t part) {
        return {BCRF_TARGET::load(p), BCRF_TARGET::load(p + part)};
    }
    static BCRF_INLINE void store(R* p, size_t part, Value x) {
        BCRF_TARGET::store(p, x.m);
        BCRF_TARGET::store(p + part, x.e);
    }
    static BCRF_INLINE void clear(R* p, size_t part) { p[0] = 0, p[part] = Exponents<R>::ZERO; }
    static BCRF_INLINE Value zero() { return {Vec<R>{}, broadcast<R>(Exponents<R>::ZERO)}; }
    static BCRF_INLINE Value one() { return {broadcast<R>(1), Vec<R>{}}; }
    static BCRF_INLINE Value times(Value a, Value b) { return {a.m * b.m, a.e + b.e}; }
    static BCRF_INLINE Value times(Value a, Vec<R> b) { return {a.m * b, a.e}; }
    class Total {
        R *const first_, *next_;
        Vec<R> top_ = broadcast<R>(2 * Exponents<R>::ZERO);

      public:
        explicit Total(R* scratch) : first_(scratch), next_(scratch) {}
        BCRF_INLINE void add(Value x) {
            BCRF_TARGET::store(next_, x.m);
            BCRF_TARGET::store(next_ + lanes<R>, x.e);
            next_ += 2 * lanes<R>;
            top_ = max<R>(top_, x.e);
        }
        BCRF_INLINE Value get() const {
            Vec<R> sum{};
            for (const R* at = first_; at < next_; at += 2 * lanes<R>)
                sum += BCRF_TARGET::load(at) * power_of_two<R>(BCRF_TARGET::load(at + lanes<R>) - top_);
            return normalized<R>({sum, top_});
        }
    };
    class Ratio {
        Total x_, y_;

      public:
        explicit Ratio(R* scratch, R* other) : x_(scratch), y_(other) {}
        BCRF_INLINE void add(Value x, Value f, Value g, Vec<R>) { x_.add(x), y_.add(times(f, g)); }
        BCRF_INLINE Value get() const { return times(x_.get(), inverse(y_.get())); }
    };
    static BCRF_INLINE Value inverse(Value a) { return normalized<R>({R(1) / a.m, -a.e}); }
    static BCRF_INLINE Value inverse_root(Value a) {
        const R round = Exponents<R>::ROUND;
        const Vec<R> half = (a.e * R(0.5) + round) - round;
        return {inverse_square_root(a.m * power_of_two<R>(a.e - half * R(2))), -half};
    }
    static BCRF_INLINE Vec<R> log_product(Value a, Value b) { return logarithm(a.m * b.m) + (a.e + b.e) * R(LOG_2); }
    static BCRF_INLINE Vec<R> log_ratio(Value a, Value b) { return logarithm(a.m / b.m) + (a.e - b.e) * R(LOG_2); }
    static BCRF_INLINE Vec<R> plain(Value a) { return a.m * power_of_two<R>(a.e); }
    static BCRF_INLINE Vec<R> exponent(Value a) { return a.e; }
    static BCRF_INLINE Vec<R> mantissa(Value a) { return a.m; }
    static BCRF_INLINE Value normal(Value a) { return normalized<R>(a); }
    static BCRF_INLINE Value select(Vec<R> where, Value a, Value b) {
        return {where > Vec<R>{} ? a.m : b.m, where > Vec<R>{} ? a.e : b.e};
    }
    static BCRF_INLINE Value exponential(Vec<R> x, Vec<R> top, double scale) {
        constexpr int W = lanes<R>, V = lanes<double>;
        R from[W], tops[W], fraction[W], whole[W];
        BCRF_TARGET::store(from, x);
        BCRF_TARGET::store(tops, top);
        const double round = Exponents<double>::ROUND;
        for (int p = 0; p < W; p += V) {
            // Float32 would lose the fraction of a large score.
            const Vec<double> y = (load_as<double>(from + p) - load_as<double>(tops + p)) *
                                  (scale / LOG_2);
            const Vec<double> n = (y + round) - round, r = (y - n) * LOG_2;
            double ns[V], rs[V];
            BCRF_TARGET::store(ns, n);
            BCRF_TARGET::store(rs, r);
            for (int i = 0; i < V; ++i) whole[p + i] = R(ns[i]), fraction[p + i] = R(rs[i]);
        }
        const Vec<R> lowest = broadcast<R>(-infinity<R>), none{};
        return {x > lowest ? BCRF_TARGET::exponential(BCRF_TARGET::load(fraction)) : none,
                x > lowest ? BCRF_TARGET::load(whole) : broadcast<R>(Exponents<R>::ZERO)};
    }
    static BCRF_INLINE Vec<R> valid(Value a) { return a.m > Vec<R>{} ? broadcast<R>(1) : Vec<R>{}; }
    static BCRF_INLINE Vec<R> held(Value f, Value g) {
        const Vec<R> least = min<R>(f.e, g.e), most = max<R>(f.e, g.e), one = broadcast<R>(1);
        const R limit = Exponents<R>::MOST;
        return least > -limit ? (most < limit ? one : Vec<R>{}) : Vec<R>{};
    }
    static BCRF_INLINE void block_product(R* out, size_t to, size_t out_part, const R* x, size_t from,
                                          size_t x_part, const TransitionBlock<R>& block, R* scratch) {
        constexpr int W = lanes<R>;
        const int rows = block.rows(), columns = block.columns();
        R* sums = scratch + rows * W;
        Vec<R> top = broadcast<R>(2 * Exponents<R>::ZERO);
        for (int u : block.from) top = max<R>(top, BCRF_TARGET::load(x + x_part + u * from));
        for (int i = 0; i < rows; ++i) {
            const Value v = load(x + block.from[i] * from, x_part);
            BCRF_TARGET::store(scratch + i * W, v.m * power_of_two<R>(v.e - top));
        }
        lane_product<SumProduct, R>(sums, W, scratch, W, block.weights.data(), rows, columns,
                                    block.width);
        for (int i = 0; i < columns; ++i)
            store(out + block.to[i] * to, out_part, normalized<R>({BCRF_TARGET::load(sums + i * W), top}));
    }
    template <class In>
    static void product(R* out, size_t to, size_t out_part, const R* x, size_t from, size_t x_part,
                        ScaledMatrices<R, In>& matrices, bool transposed) {
        for (const TransitionBlock<R>& block : matrices.blocks(transposed))
            block_product(out, to, out_part, x, from, x_part, block, matrices.scratch());
        if (!matrices.blocks(transposed).empty()) return;
        const ScaledColumns<R>& k = matrices.columns(transposed);
        for (int v = 0; v < matrices.tags(); ++v) {
            const auto *first = k.entries.data() + k.start[v], *last = k.entries.data() + k.start[v + 1];
            if (matrices.plain()) scaled_column<true, R>(out + v * to, out_part, x, from, x_part, first, last);
            else scaled_column<false, R>(out + v * to, out_part, x, from, x_part, first, last);
        }
    }
};

// Sums of edge marginals over blocks of transitions, like LanePairSums.
template <class R> class BlockPairSums {
    static constexpr int W = lanes<R>, STEPS = 8;
    struct Block {
        LanePairSums<R> pairs;
        std::vector<double> sums;  // (from, to)
    };
    const std::vector<TransitionBlock<R>>& blocks_;
    size_t tags_;
    std::vector<Block> sums_;
    Buffer<R> from_, to_;  // (STEPS, tags, W): the numbers of a block

  public:
    BlockPairSums(const std::vector<TransitionBlock<R>>& blocks, int tags)
        : blocks_(blocks), tags_(tags), from_(blocks.empty() ? 0 : STEPS * tags_ * W),
          to_(blocks.empty() ? 0 : STEPS * tags_ * W) {
        for (const auto& block : blocks)
            sums_.push_back({LanePairSums<R>(block.rows(), block.columns(), block.width),
                             std::vector<double>(block.from.size() * block.to.size())});
    }

    // Add the products of some edges. copy(block, i, from, to) copies the numbers of edge i.
    template <class Copy> __attribute__((noinline)) void add(int edges, Copy copy) {
        const size_t row = tags_ * W;
        for (int first = 0; first < edges; first += STEPS) {
            const int steps = std::min(STEPS, edges - first);
            for (size_t j = 0; j < blocks_.size(); ++j) {
                for (int i = 0; i < steps; ++i) copy(blocks_[j], first + i, from_ + i * row, to_ + i * row);
                sums_[j].pairs.add(from_, to_, W, steps, row, blocks_[j].weights.data(), sums_[j].sums.data());
            }
        }
    }

    void flush(double* sum) {
        for (size_t j = 0; j < blocks_.size(); ++j) {
            double* sums = sums_[j].sums.data();
            sums_[j].pairs.flush(blocks_[j].weights.data(), sums);
            for (int u : blocks_[j].from)
                for (int v : blocks_[j].to) {
                    sum[u * tags_ + v] += *sums;
                    *sums++ = 0;
                }
        }
    }
};

// Sums of edge marginals of an arithmetic.
template <class N> class PairSumsOf;

template <class R> class PairSumsOf<Plain<R>> {
    static constexpr int W = lanes<R>;
    bool dense_;
    LanePairSums<R> pairs_;
    BlockPairSums<R> blocks_;

  public:
    template <class Kernel>
    explicit PairSumsOf(Kernel& k)
        : dense_(k.blocks(false).empty()), pairs_(dense_ ? k.tags() : 0, k.tags(), k.width()),
          blocks_(k.blocks(false), k.tags()) {}

    template <class Kernel>
    void add(const R* a, const R* b, size_t, int edges, size_t step, Kernel& k, double* sum) {
        if (dense_) return pairs_.add(a, b, W, edges, step, k.rows(0), sum);
        blocks_.add(edges, [&](const TransitionBlock<R>& block, int i, R* from, R* to) BCRF_INLINE_LAMBDA {
            for (int u : block.from) store(from, load(a + i * step + u * W)), from += W;
            for (int v : block.to) store(to, load(b + i * step + v * W)), to += W;
        });
    }
    template <class Kernel> void flush(Kernel& k, double* sum) {
        if (dense_) pairs_.flush(k.rows(0), sum);
        else blocks_.flush(sum);
    }
};

template <class R> class PairSumsOf<Wide<R>> {
    static constexpr int W = lanes<R>;
    int tags_, pending_ = 0;
    Buffer<R> sums_;  // (to, from, W), without blocks
    BlockPairSums<R> blocks_;

  public:
    template <class Kernel>
    explicit PairSumsOf(Kernel& k)
        : tags_(k.tags()), sums_(k.blocks(false).empty() ? k.part() * W : 0), blocks_(k.blocks(false), k.tags()) {}

    // The exponents of a and b are `part` after their mantissas.
    template <class Kernel>
    void add(const R* a, const R* b, size_t part, int edges, size_t step, Kernel& k, double* sum) {
        if (!k.blocks(false).empty())
            // The arcs of an edge sum to 1. So no product of the largest numbers of a block exceeds the inverse of
            // the smallest weight, and one power of 2 an edge brings both numbers into the range of R.
            return blocks_.add(edges, [&](const TransitionBlock<R>& block, int i, R* from, R* to) BCRF_INLINE_LAMBDA {
                const R *x = a + i * step, *y = b + i * step;
                Vec<R> top = broadcast<R>(2 * Exponents<R>::ZERO);
                for (int u : block.from) top = max<R>(top, load(x + part + u * W));
                for (int u : block.from) {
                    store(from, load(x + u * W) * power_of_two<R>(load(x + part + u * W) - top));
                    from += W;
                }
                for (int v : block.to) {
                    store(to, load(y + v * W) * power_of_two<R>(load(y + part + v * W) + top));
                    to += W;
                }
            });
        const ScaledColumns<R>& columns = k.columns(false);
        for (int i = 0; i < edges; ++i, a += step, b += step)
            for (int v = 0; v < tags_; ++v) {
                const Vec<R> m = load(b + v * W), e = load(b + part + v * W);
                for (int j = columns.start[v]; j < columns.start[v + 1]; ++j) {
                    const auto& entry = columns.entries[j];
                    const R* from = a + entry.row * W;
                    R* sums = sums_ + (size_t(v) * tags_ + entry.row) * W;
                    const Vec<R> exponent = (e + entry.e) + load(from + part);
                    store(sums, load(sums) + (m * entry.m) * load(from) * power_of_two<R>(exponent));
                }
            }
        pending_ += edges;
        if (pending_ >= 256) flush(k, sum);
    }

    template <class Kernel> void flush(Kernel& k, double* sum) {
        if (!k.blocks(false).empty()) return blocks_.flush(sum);
        if (!pending_) return;
        for (int v = 0; v < tags_; ++v)
            for (int u = 0; u < tags_; ++u) {
                R* sums = sums_ + (size_t(v) * tags_ + u) * W;
                sum[size_t(u) * tags_ + v] += double(BCRF_TARGET::sum<R>(load(sums)));
                store(sums, Vec<R>{});
            }
        pending_ = 0;
    }
};

#else

template <class R> inline R power_of_two(R d) { return d < -4000 ? R(0) : std::ldexp(R(1), int(d)); }

template <class R> inline Scaled<R> normalized(Scaled<R> x) {
    if (!(x.m > 0)) return {0, Exponents<R>::ZERO};
    int e;
    x.m = std::frexp(x.m, &e) * 2;
    return {x.m, x.e + R(e - 1)};
}

// Without vectors of the compiler, all sequences are in rows.
template <class R> struct Plain {};
template <class R> struct Wide {};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
