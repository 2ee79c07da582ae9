// Numbers of the kernels. A recursion takes one of them as a parameter:
//   Plain<R>     numbers of R;
//   Wide<R>      m 2^e, where m is a number of R and e an integer, a number of R too: the digits of R and the range of a
//                logarithm, so sums of products need neither exp nor log;
//   Tropical<R>  scores, where the sum is the maximum and the product is the sum.
//
// Value is a vector of numbers. An array has PARTS parts, the second one `part` numbers after the first.
#pragma once

#include "../shared/precision.hh"
#include "simd.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R> BCRF_INLINE Vec<R> one_where(decltype(Vec<R>{} > Vec<R>{}) where) {
    return where ? broadcast<R>(1) : Vec<R>{};
}

// Return 2^d for integers d far below the overflow; 0 below the range of R.
template <class R> BCRF_INLINE Vec<R> power_of_two(Vec<R> d) {
    using E = Exponents<R>;
    const Vec<R> shifted = max<R>(d + (E::ROUND + E::BIAS), broadcast<R>(E::ROUND));
    return (Vec<R>)((IntVec<R>)shifted << E::MANTISSA);
}

// Return the next integer.
template <class R> BCRF_INLINE Vec<R> rounded(Vec<R> y) {
    using E = Exponents<R>;
    if constexpr (sizeof(R) == 4) return (y + E::ROUND) - E::ROUND;
    // Larger doubles are integers.
    const Vec<R> shift = y < Vec<R>{} ? broadcast<R>(-E::SHIFT) : broadcast<R>(E::SHIFT), size = y < Vec<R>{} ? -y : y;
    return size < E::SHIFT ? (y + shift) - shift : y;
}

template <class R_> struct Plain {
    using R = R_;
    using Value = Vec<R>;
    static constexpr int PARTS = 1;
    static constexpr double MAX_RANGE = infinity<double>;  // of scores around a token
    static constexpr bool IS_EXPONENTIAL = true;  // of scores

    static BCRF_INLINE Value load(const R* p, size_t) { return BCRF_TARGET::load(p); }
    static BCRF_INLINE void store(R* p, size_t, Value x) { BCRF_TARGET::store(p, x); }
    // Return the number at p in all lanes.
    static BCRF_INLINE Value single(const R* p, size_t) { return broadcast<R>(*p); }
    static BCRF_INLINE Value zero() { return Value{}; }
    static BCRF_INLINE Value one() { return broadcast<R>(1); }
    static BCRF_INLINE Value times(Value a, Vec<R> b) { return a * b; }
    // Return total + k x, where one factor may be a single number.
    template <class K, class X> static BCRF_INLINE Value add_product(Value total, K k, X x) { return total + k * x; }
    static BCRF_INLINE Value join(Value a, Value b) { return a + b; }
    static BCRF_INLINE Value inverse(Value a) { return R(1) / a; }
    static BCRF_INLINE Value inverse_root(Value a) { return inverse_square_root<R>(a); }
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
    // Return numbers of R.
    static BCRF_INLINE Value of(Vec<R> x) { return x; }
    // Return x - top, which tells whether a weight may have underflowed.
    static BCRF_INLINE Vec<R> below(Vec<R> x, Vec<R> top) { return x - top; }
    // Return whether nothing can underflow.
    static bool is_certain(R lowest, bool zeros, double range) {
        return lowest > -Precision<R>::CERTAIN_RANGE && !zeros && range < Precision<R>::CERTAIN_RANGE;
    }
    // Return 1 where the sum of the mantissas of backward weights shows a small overlap. Sums keep infinity and NaN.
    static BCRF_INLINE Vec<R> lost(Vec<R> weights) {
        return weights * Precision<R>::MIN_OVERLAP <= broadcast<R>(1) ? Vec<R>{} : broadcast<R>(1);
    }
    // Return 1 where R has kept a sum.
    static BCRF_INLINE Vec<R> valid(Value a) {
        return a > Precision<R>::MIN_NORMAL ? one_where<R>(a < infinity<R>) : Vec<R>{};
    }
    // Return 1 where both factors of a tag are in range.
    static BCRF_INLINE Vec<R> in_range(Value f, Value g) {
        const R low = 1 / Precision<R>::MAX_FACTOR, high = Precision<R>::MAX_FACTOR;
        return min<R>(f, g) > low ? one_where<R>(max<R>(f, g) < high) : Vec<R>{};
    }
    // The sum over the tags of a row. scratch: PARTS rows.
    template <class Layout> class Total {
        Value sum_{};

      public:
        explicit Total(R*) {}
        BCRF_INLINE void add(Value x) { sum_ += x; }
        BCRF_INLINE Value get() const { return Layout::sum(sum_); }
    };
};

template <class R_> struct Wide {
    using R = R_;
    using E = Exponents<R>;
    struct Value {
        Vec<R> m, e;
    };
    static constexpr int PARTS = 2;
    static constexpr double MAX_RANGE = E::MAX_RANGE;
    static constexpr bool IS_EXPONENTIAL = true;

    static BCRF_INLINE Value load(const R* p, size_t part) {
        return {BCRF_TARGET::load(p), BCRF_TARGET::load(p + part)};
    }
    static BCRF_INLINE void store(R* p, size_t part, Value x) {
        BCRF_TARGET::store(p, x.m);
        BCRF_TARGET::store(p + part, x.e);
    }
    static BCRF_INLINE Value single(const R* p, size_t part) { return {broadcast<R>(p[0]), broadcast<R>(p[part])}; }
    static BCRF_INLINE Value zero() { return {Vec<R>{}, broadcast<R>(E::ZERO)}; }
    static BCRF_INLINE Value one() { return {broadcast<R>(1), Vec<R>{}}; }
    static BCRF_INLINE Value times(Value a, Value b) { return {a.m * b.m, a.e + b.e}; }
    static BCRF_INLINE Value times(Value a, Vec<R> b) { return {a.m * b, a.e}; }
    static BCRF_INLINE Value inverse(Value a) { return normal({R(1) / a.m, -a.e}); }
    static BCRF_INLINE Value inverse_root(Value a) {
        const Vec<R> half = rounded<R>(a.e * R(0.5));
        return {inverse_square_root<R>(a.m * power_of_two<R>(a.e - half * R(2))), -half};
    }
    static BCRF_INLINE Vec<R> log_product(Value a, Value b) { return logarithm(a.m * b.m) + (a.e + b.e) * R(LOG_2); }
    static BCRF_INLINE Vec<R> log_ratio(Value a, Value b) { return logarithm(a.m / b.m) + (a.e - b.e) * R(LOG_2); }
    static BCRF_INLINE Vec<R> plain(Value a) { return a.m * power_of_two<R>(a.e); }
    static BCRF_INLINE Vec<R> exponent(Value a) { return a.e; }
    static BCRF_INLINE Vec<R> mantissa(Value a) { return a.m; }
    // Return the number with a mantissa of at least 1 and less than 2. Arrays may hold others, between 2^-22 and 2^13.
    static BCRF_INLINE Value normal(Value x) {
        const IntVec<R> bits = (IntVec<R>)x.m;
        const Vec<R> e = (Vec<R>)((bits >> E::MANTISSA) | (IntVec<R>)broadcast<R>(E::SHIFT));
        const IntOf<R> one = (IntOf<R>(1) << (sizeof(R) * 8 - 2)) - (IntOf<R>(1) << E::MANTISSA);
        const Vec<R> m = (Vec<R>)((bits & ((IntOf<R>(1) << E::MANTISSA) - 1)) | one), none{};
        return {x.m > none ? m : none, x.m > none ? x.e + (e - (E::SHIFT + E::BIAS)) : broadcast<R>(E::ZERO)};
    }
    static BCRF_INLINE Value select(Vec<R> where, Value a, Value b) {
        return {where > Vec<R>{} ? a.m : b.m, where > Vec<R>{} ? a.e : b.e};
    }
    static BCRF_INLINE Value exponential(Vec<R> x, Vec<R> top, double scale) {
        const Vec<R> none{}, zero = broadcast<R>(E::ZERO);
        if constexpr (sizeof(R) == 8) {
            // A double has the digits of both parts.
            const Vec<R> y = max<R>((x - top) * (scale / LOG_2), broadcast<R>(E::LOWEST)), n = rounded<R>(y);
            const Vec<R> m = BCRF_TARGET::exponential((y - n) * LOG_2);
            return {x > -infinity<R> ? m : none, x > -infinity<R> ? n : zero};
        } else {
            // Float32 would lose the fraction of a large score.
            constexpr double ROUND = Exponents<double>::ROUND;
            R from[lanes<R>], tops[lanes<R>], fraction[lanes<R>], whole[lanes<R>];
            BCRF_TARGET::store(from, x);
            BCRF_TARGET::store(tops, top);
            for (int i = 0; i < lanes<R>; ++i) {
                const double y = (double(from[i]) - double(tops[i])) * (scale / LOG_2), n = (y + ROUND) - ROUND;
                whole[i] = R(n), fraction[i] = R((y - n) * LOG_2);
            }
            return {x > -infinity<R> ? BCRF_TARGET::exponential(BCRF_TARGET::load(fraction)) : none,
                    x > -infinity<R> ? BCRF_TARGET::load(whole) : zero};
        }
    }
    static BCRF_INLINE Value of(Vec<R> x) { return {x, x > Vec<R>{} ? Vec<R>{} : broadcast<R>(E::ZERO)}; }
    static BCRF_INLINE Vec<R> below(Vec<R> x, Vec<R> top) {
        // 0 has an exponent, so a forbidden tag needs no range. NaN is not a forbidden tag.
        const Vec<R> finite = x > -infinity<R> ? x - top : Vec<R>{};
        return x < infinity<R> ? finite : broadcast(-infinity<R>);
    }
    static bool is_certain(R, bool, double) { return true; }
    static BCRF_INLINE Vec<R> lost(Vec<R>) { return Vec<R>{}; }
    static BCRF_INLINE Vec<R> valid(Value a) { return one_where<R>(a.m > Vec<R>{}); }
    static BCRF_INLINE Vec<R> in_range(Value f, Value g) {
        return min<R>(f.e, g.e) > -E::MOST ? one_where<R>(max<R>(f.e, g.e) < E::MOST) : Vec<R>{};
    }
    template <class Layout> class Total {
        R *const first_, *next_;
        Vec<R> top_ = broadcast<R>(2 * E::ZERO);

      public:
        explicit Total(R* scratch) : first_(scratch), next_(scratch) {}
        BCRF_INLINE void add(Value x) {
            store(next_, lanes<R>, x);
            next_ += 2 * lanes<R>;
            top_ = max<R>(top_, x.e);
        }
        BCRF_INLINE Value get() const {
            const Vec<R> top = Layout::max(top_);
            Vec<R> sum{};
            for (const R* at = first_; at < next_; at += 2 * lanes<R>) {
                const Value x = load(at, lanes<R>);
                sum += x.m * power_of_two<R>(x.e - top);
            }
            return normal({Layout::sum(sum), top});
        }
    };
};

// Scores in the max-plus semiring.
template <class R_> struct Tropical : Plain<R_> {
    using R = R_;
    using Value = Vec<R>;
    static constexpr bool IS_EXPONENTIAL = false;
    static BCRF_INLINE Value exponential(Vec<R> x, Vec<R>, double) { return x; }
    static BCRF_INLINE Value zero() { return broadcast<R>(-infinity<R>); }
    template <class K, class X> static BCRF_INLINE Value add_product(Value total, K k, X x) {
        return max<R>(total, k + x);
    }
    static BCRF_INLINE Value join(Value a, Value b) { return max<R>(a, b); }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
