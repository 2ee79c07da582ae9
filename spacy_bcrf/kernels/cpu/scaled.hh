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

// Return whether R holds all of exp(transitions - shift), with many digits to spare. A product with a
// vector of Scaled numbers then needs only the numbers near the largest one.
template <class R, class In> bool is_dense(const Batch<In>& batch, double scale) {
    const size_t n = size_t(batch.tags) * batch.tags;
    const double top = largest(batch.transitions, n), low = smallest(batch.transitions, int(n));
    return (top - low) * scale <= (sizeof(R) == 4 ? 66 : 650);
}

#if defined(__GNUC__)

template <class R> struct Scaled { Vec<R> m, e; };

template <class R> struct Exponents {
    static constexpr bool SINGLE = sizeof(R) == 4;
    static constexpr int MANTISSA = SINGLE ? 23 : 52;
    static constexpr R BIAS = SINGLE ? 127 : 1023;
    static constexpr R ROUND = SINGLE ? R(12582912.0) : R(6755399441055744.0);  // 1.5 * 2^MANTISSA
    static constexpr R SHIFT = SINGLE ? R(8388608.0) : R(4503599627370496.0);   // 2^MANTISSA
    static constexpr IntOf<R> ONE = (IntOf<R>(1) << (sizeof(R) * 8 - 2)) - (IntOf<R>(1) << MANTISSA);
    static constexpr R ZERO = R(-67108864.0);  // the exponent of 0, below that of any other number
    // The largest exponents of which R represents all sums that the kernels need.
    static constexpr R MOST = R(4194304.0);
};

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
    const Vec<R> m = from_bits<R>((bits & ((IntOf<R>(1) << E::MANTISSA) - 1)) | E::ONE);
    const Vec<R> none{};
    return {x.m > none ? m : none, x.m > none ? x.e + (e - (E::SHIFT + E::BIAS)) : broadcast<R>(E::ZERO)};
}

template <class R> BCRF_INLINE Scaled<R> times(Scaled<R> a, Scaled<R> b) { return {a.m * b.m, a.e + b.e}; }
template <class R> BCRF_INLINE Scaled<R> times(Scaled<R> a, Vec<R> b) { return {a.m * b, a.e}; }
template <class R> BCRF_INLINE Scaled<R> plus(Scaled<R> a, Scaled<R> b) {
    const Vec<R> e = max<R>(a.e, b.e);
    return {a.m * power_of_two<R>(a.e - e) + b.m * power_of_two<R>(b.e - e), e};
}

// The arithmetic of R. Value is a vector of numbers; an array has PARTS parts.
template <class R_> struct Plain {
    using R = R_;
    using Value = Vec<R>;
    static constexpr int PARTS = 1;
    static constexpr double MAX_RANGE = Precision<R>::MAX_RANGE;
    template <class In> using Kernel = Matrices<R, In>;

    static BCRF_INLINE Value load(const R* p, size_t) { return BCRF_TARGET::load(p); }
    static BCRF_INLINE void store(R* p, size_t, Value x) { BCRF_TARGET::store(p, x); }
    static BCRF_INLINE void clear(R* p, size_t) { *p = 0; }
    static BCRF_INLINE Value zero() { return Value{}; }
    static BCRF_INLINE Value one() { return broadcast<R>(1); }
    static BCRF_INLINE Value times(Value a, Vec<R> b) { return a * b; }
    static BCRF_INLINE Value plus(Value a, Value b) { return a + b; }
    static BCRF_INLINE Value inverse(Value a) { return R(1) / a; }
    static BCRF_INLINE Value inverse_root(Value a) { return inverse_square_root(a); }
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
                        Matrices<R, In>& k, bool transposed) {
        lane_product<SumProduct>(out, to, x, from, transposed ? k.columns(0) : k.rows(0), k.tags(),
                                 k.width());
    }
};

// exp(transitions - shift) and its transpose, as Scaled numbers.
template <class R, class In> class ScaledMatrices {
    int tags_;
    size_t part_;
    Buffer<R> rows_, columns_;
    double shift_ = 0, range_ = 0;
    bool zeros_ = false;
    std::unique_ptr<Matrices<R, In>> plain_;  // if it is dense
    Buffer<R> scratch_;

  public:
    ScaledMatrices(const Batch<In>& batch, int, double scale = 1)
        : tags_(batch.tags), part_(size_t(tags_) * tags_), rows_(2 * part_), columns_(2 * part_) {
        const In* w = batch.transitions;
        double top = largest(w, part_);
        if (top == -infinity<double>) top = 0;
        shift_ = top * scale;
        range_ = (top - double(smallest_finite(w, part_))) * scale;
        if (is_dense<R>(batch, scale)) {
            plain_.reset(new Matrices<R, In>(batch, 1, scale));
            scratch_ = Buffer<R>(size_t(tags_) * lanes<R>);
        }
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v) {
                const double x = (double(w[size_t(u) * tags_ + v]) - top) * scale * 1.4426950408889634;
                R m = 0, e = Exponents<R>::ZERO;
                if (x > -infinity<double>) {
                    e = R(std::floor(x));
                    m = R(std::exp2(x - std::floor(x)));
                }
                zeros_ = zeros_ || m == 0;
                const size_t i = size_t(u) * tags_ + v, j = size_t(v) * tags_ + u;
                rows_[i] = columns_[j] = m;
                rows_[part_ + i] = columns_[part_ + j] = e;
            }
    }

    int tags() const { return tags_; }
    int width() const { return tags_; }
    size_t part() const { return part_; }
    Matrices<R, In>* plain() { return plain_.get(); }
    R* scratch() { return scratch_; }
    const R* rows(int) { return rows_; }
    const R* columns(int) { return columns_; }
    double shift(int) const { return shift_; }
    bool zeros() const { return zeros_; }
    double range() const { return range_; }
};

// Set out[v] = x K[:, v] for COLUMNS numbers v. The arrays' exponents are in their second parts.
template <int COLUMNS, class R>
BCRF_INLINE void scaled_product_block(R* out, size_t to, size_t out_part, const R* x, size_t from,
                                      size_t x_part, const R* k, size_t k_part, int tags) {
    using E = Exponents<R>;
    Vec<R> top[COLUMNS], total[COLUMNS];
    for (int v = 0; v < COLUMNS; ++v) top[v] = broadcast<R>(2 * E::ZERO);
    for (int u = 0; u < tags; ++u) {
        const Vec<R> e = load(x + x_part + u * from);
        const R* ek = k + k_part + size_t(u) * tags;
        for (int v = 0; v < COLUMNS; ++v) top[v] = max<R>(top[v], e + ek[v]);
    }
    for (int v = 0; v < COLUMNS; ++v) {
        store(out + out_part + v * to, top[v]);
        top[v] -= E::ROUND + E::BIAS;
        total[v] = Vec<R>{};
    }
    for (int u = 0; u < tags; ++u) {
        const Vec<R> m = load(x + u * from), e = load(x + x_part + u * from);
        const R *mk = k + size_t(u) * tags, *ek = mk + k_part;
        for (int v = 0; v < COLUMNS; ++v) {
            // 2^(e + ek - top), as in power_of_two.
            const Vec<R> shifted = max<R>((e + ek[v]) - top[v], broadcast<R>(E::ROUND));
            total[v] += (m * mk[v]) * from_bits<R>(bits_of<R>(shifted) << E::MANTISSA);
        }
    }
    for (int v = 0; v < COLUMNS; ++v) {
        const Scaled<R> x_v = normalized<R>({total[v], load(out + out_part + v * to)});
        store(out + v * to, x_v.m);
        store(out + out_part + v * to, x_v.e);
    }
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
    static BCRF_INLINE Value plus(Value a, Value b) { return BCRF_TARGET::plus<R>(a, b); }
    static BCRF_INLINE Value inverse(Value a) { return normalized<R>({R(1) / a.m, -a.e}); }
    static BCRF_INLINE Value inverse_root(Value a) {
        a = normalized<R>(a);
        const R round = Exponents<R>::ROUND;
        const Vec<R> half = (a.e * R(0.5) + round) - round;
        return {inverse_square_root(a.m * power_of_two<R>(a.e - half * R(2))), -half};
    }
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
                                  (scale * 1.4426950408889634);
            const Vec<double> n = (y + round) - round, r = (y - n) * 0.69314718055994530942;
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
    template <class In>
    static void dense_product(R* out, size_t to, size_t out_part, const R* x, size_t from,
                              size_t x_part, ScaledMatrices<R, In>& matrices, bool transposed) {
        constexpr int W = lanes<R>;
        const int tags = matrices.tags();
        R* scratch = matrices.scratch();
        Vec<R> top = broadcast<R>(2 * Exponents<R>::ZERO);
        for (int t = 0; t < tags; ++t) top = max<R>(top, BCRF_TARGET::load(x + x_part + t * from));
        for (int t = 0; t < tags; ++t) {
            const Value v = load(x + t * from, x_part);
            BCRF_TARGET::store(scratch + t * W, v.m * power_of_two<R>(v.e - top));
        }
        Plain<R>::product(out, to, 0, scratch, W, 0, *matrices.plain(), transposed);
        for (int t = 0; t < tags; ++t) {
            R* at = out + t * to;
            store(at, out_part, normalized<R>({BCRF_TARGET::load(at), top}));
        }
    }
    template <class In>
    static void product(R* out, size_t to, size_t out_part, const R* x, size_t from, size_t x_part,
                        ScaledMatrices<R, In>& matrices, bool transposed) {
        constexpr int MOST = BCRF_VECTOR_BYTES == 64 ? 8 : 4;
        const int tags = matrices.tags();
        if (matrices.plain()) return dense_product(out, to, out_part, x, from, x_part, matrices, transposed);
        const R* k = transposed ? matrices.columns(0) : matrices.rows(0);
        for (int v = 0; v < tags;) {
            R* at = out + v * to;
            const int left = tags - v;
            if (left >= MOST) {
                scaled_product_block<MOST, R>(at, to, out_part, x, from, x_part, k + v, matrices.part(), tags);
                v += MOST;
            } else if (left >= MOST / 2) {
                scaled_product_block<MOST / 2, R>(at, to, out_part, x, from, x_part, k + v, matrices.part(), tags);
                v += MOST / 2;
            } else if (left >= 2) {
                scaled_product_block<2, R>(at, to, out_part, x, from, x_part, k + v, matrices.part(), tags);
                v += 2;
            } else {
                scaled_product_block<1, R>(at, to, out_part, x, from, x_part, k + v, matrices.part(), tags);
                v += 1;
            }
        }
    }
};

// Sums of edge marginals of an arithmetic, like LanePairSums.
template <class N> class PairSumsOf;

template <class R> class PairSumsOf<Plain<R>> : public LanePairSums<R> {
  public:
    template <class Kernel> explicit PairSumsOf(Kernel& k) : LanePairSums<R>(k.tags(), k.width()) {}

    template <class Kernel>
    void add(const R* a, const R* b, size_t, int edges, size_t step, Kernel& k, double* sum) {
        LanePairSums<R>::add(a, b, edges, step, k.rows(0), sum);
    }
    template <class Kernel> void flush(Kernel& k, double* sum) { LanePairSums<R>::flush(k.rows(0), sum); }
};

template <class R> class PairSumsOf<Wide<R>> {
    static constexpr int W = lanes<R>;
    int tags_, pending_ = 0;
    Buffer<R> sums_;  // (tags, tags, W)

  public:
    template <class Kernel> explicit PairSumsOf(Kernel& k) : tags_(k.tags()), sums_(k.part() * W) {}

    // The exponents of a and b are `part` after their mantissas.
    template <class Kernel>
    void add(const R* a, const R* b, size_t part, int edges, size_t step, Kernel& k, double* sum) {
        const R *mk = k.rows(0), *ek = mk + k.part();
        for (int i = 0; i < edges; ++i, a += step, b += step) {
            R* sums = sums_;
            for (int u = 0; u < tags_; ++u) {
                const Vec<R> m = load(a + u * W), e = load(a + part + u * W);
                for (int v = 0; v < tags_; ++v, sums += W) {
                    const size_t at = size_t(u) * tags_ + v;
                    const Vec<R> exponent = (e + ek[at]) + load(b + part + v * W);
                    store(sums, load(sums) +
                                    (m * mk[at]) * load(b + v * W) * power_of_two<R>(exponent));
                }
            }
        }
        pending_ += edges;
        if (pending_ >= 256) flush(k, sum);
    }

    template <class Kernel> void flush(Kernel&, double* sum) {
        if (!pending_) return;
        for (size_t i = 0; i < size_t(tags_) * tags_; ++i) {
            sum[i] += double(BCRF_TARGET::sum<R>(load(sums_ + i * W)));
            store(sums_ + i * W, Vec<R>{});
        }
        pending_ = 0;
    }
};

#else

// Without vectors of the compiler, all sequences are in rows.
template <class R> struct Plain {};
template <class R> struct Wide {};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
