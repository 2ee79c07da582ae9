// Compiler vectors, and the vector loops that the kernels share.
//
// Each file in targets/ compiles this header, and the headers that include it, for one instruction set.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "batch.hh"
#include "target.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R> using IntOf = std::conditional_t<sizeof(R) == 4, std::int32_t, std::int64_t>;
template <class R> struct VectorOf {
    typedef R type __attribute__((vector_size(BCRF_VECTOR_BYTES)));
    typedef R in_array __attribute__((vector_size(BCRF_VECTOR_BYTES), aligned(sizeof(R))));
    typedef IntOf<R> integers __attribute__((vector_size(BCRF_VECTOR_BYTES)));
    typedef typename std::make_unsigned<IntOf<R>>::type bits __attribute__((vector_size(BCRF_VECTOR_BYTES)));
};
template <class R> using Vec = typename VectorOf<R>::type;
// A vector that is part of an array of R. It aliases R alone, so compilers keep other members of a
// class in registers across a store; memcpy may change any of them.
template <class R> using InArray = typename VectorOf<R>::in_array;
template <class R> using IntVec = typename VectorOf<R>::integers;
// The bits of a Vec<R>.
template <class R> using Bits = typename VectorOf<R>::bits;

template <class R> constexpr int lanes = int(sizeof(Vec<R>) / sizeof(R));

// Return the length of a row padded to a whole number of vectors.
template <class R> inline int padded(int tags) {
    return (tags + lanes<R> - 1) / lanes<R> * lanes<R>;
}

template <class R> BCRF_INLINE Vec<R> load(const R* p) { return *reinterpret_cast<const InArray<R>*>(p); }
template <class R> BCRF_INLINE void store(R* p, Vec<R> v) { *reinterpret_cast<InArray<R>*>(p) = v; }

// Load lanes<R> numbers, converted to R.
template <class R, class In> BCRF_INLINE Vec<R> load_as(const In* p) {
    typedef In Numbers __attribute__((vector_size(sizeof(In) * lanes<R>)));
    Numbers v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Vec<R>);
}

// Copy n <= N numbers, N a power of two, in pieces of constant size.
template <int N, class R> BCRF_INLINE void copy_short(R* to, const R* from, int n) {
    if constexpr (N == 1) {
        if (n) *to = *from;
    } else if (n >= N / 2) {
        const int last = n - N / 2;
        std::memcpy(to, from, N / 2 * sizeof(R));
        std::memcpy(to + last, from + last, N / 2 * sizeof(R));
    } else {
        copy_short<N / 2>(to, from, n);
    }
}

// Store the first n numbers of a vector.
template <class R> BCRF_INLINE void store_first(R* to, Vec<R> v, int n) {
#if BCRF_VECTOR_BYTES == 64
    if constexpr (sizeof(R) == 4) __builtin_ia32_storeups512_mask(to, v, (unsigned short)((1u << n) - 1));
    else __builtin_ia32_storeupd512_mask(to, v, (unsigned char)((1u << n) - 1));
#else
    if (n == lanes<R>) return store(to, v);
    R copy[lanes<R>];
    store(copy, v);
    copy_short<lanes<R>>(to, copy, n);
#endif
}

// Load the first n numbers of a row. Others may follow, up to a whole vector, if they are before `end`.
template <class R> BCRF_INLINE Vec<R> load_first(const R* from, int n, const R* end) {
#if BCRF_VECTOR_BYTES == 64
    (void)end;
    if constexpr (sizeof(R) == 4)
        return __builtin_ia32_loadups512_mask(from, Vec<R>{}, (unsigned short)((1u << n) - 1));
    else return __builtin_ia32_loadupd512_mask(from, Vec<R>{}, (unsigned char)((1u << n) - 1));
#else
    constexpr int W = lanes<R>;
    if (n == W || std::less_equal<const R*>()(from + W, end)) return load(from);
    R copy[W] = {};
    copy_short<W>(copy, from, n);
    return load(copy);
#endif
}

// x - 0 is x, so compilers drop the subtraction. They keep an addition, because -0 + 0 is 0.
template <class R> BCRF_INLINE Vec<R> broadcast(R x) { return x - Vec<R>{}; }

template <class R> BCRF_INLINE Vec<R> max(Vec<R> a, Vec<R> b) { return a > b ? a : b; }

template <class R> BCRF_INLINE Vec<R> min(Vec<R> a, Vec<R> b) { return a < b ? a : b; }

// Return lane J of the pair (a, b) for each J; lanes of b count from the number of lanes of a.
template <class R, int... J> BCRF_INLINE Vec<R> shuffle(Vec<R> a, Vec<R> b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, J...);
#else
    return __builtin_shuffle(a, b, IntVec<R>{J...});
#endif
}

// Return lane at[k] of the table in each lane k. Bits of at[k] above the number of lanes do not matter.
template <class R> BCRF_INLINE Vec<R> permute(Vec<R> table, IntVec<R> at) {
#if defined(__clang__)
    R from[lanes<R>], to[lanes<R>];
    store(from, table);
    for (int k = 0; k < lanes<R>; ++k) to[k] = from[at[k] & (lanes<R> - 1)];
    return load(to);
#else
    return __builtin_shuffle(table, at);
#endif
}

template <class R, int N, int... J>
BCRF_INLINE Vec<R> exchange_halves(Vec<R> v, std::integer_sequence<int, J...>) {
    return shuffle<R, (J ^ N)...>(v, v);
}

// Reduce the lanes of a vector. One butterfly, whose latency is shorter than that of a chain, leaves the result in all of
// them, the same bits.
template <class R, int N = lanes<R> / 2, class Join> BCRF_INLINE Vec<R> reduce(Vec<R> v, Join join) {
    if constexpr (N == 0) {
        return v;
    } else {
        using Lanes = std::make_integer_sequence<int, lanes<R>>;
        return reduce<R, N / 2>(join(v, exchange_halves<R, N>(v, Lanes())), join);
    }
}

template <class R> BCRF_INLINE Vec<R> lane_sums(Vec<R> v) {
    return reduce<R>(v, [](Vec<R> a, Vec<R> b) BCRF_INLINE_LAMBDA { return a + b; });
}

template <class R> BCRF_INLINE Vec<R> lane_maxima(Vec<R> v) {
    return reduce<R>(v, [](Vec<R> a, Vec<R> b) BCRF_INLINE_LAMBDA { return max<R>(a, b); });
}

template <class R> BCRF_INLINE Vec<R> lane_minima(Vec<R> v) {
    return reduce<R>(v, [](Vec<R> a, Vec<R> b) BCRF_INLINE_LAMBDA { return min<R>(a, b); });
}

template <class R> BCRF_INLINE R sum(Vec<R> v) { return lane_sums<R>(v)[0]; }

template <class R> BCRF_INLINE R maximum(Vec<R> v) { return lane_maxima<R>(v)[0]; }

template <class R> BCRF_INLINE R minimum(Vec<R> v) { return lane_minima<R>(v)[0]; }

// Call run(n) for 1 <= n <= MOST as a std::integral_constant.
template <int MOST, class Run> BCRF_INLINE void with_constant(int n, Run run) {
    if constexpr (MOST > 1)
        if (n < MOST) return with_constant<MOST - 1>(n, run);
    run(std::integral_constant<int, MOST>());
}

// Call run(n, at) for blocks of n <= MOST places from `at` on; n is a std::integral_constant. The last
// two blocks have similar sizes, because a block of one place leaves execution units idle.
template <int MOST, class Run> BCRF_INLINE void for_blocks(int size, Run run) {
    for (int left = size, step; left > 0; left -= step) {
        step = left <= MOST ? left : left < 2 * MOST ? (left + 1) / 2 : MOST;
        with_constant<MOST>(step, [&](auto n) BCRF_INLINE_LAMBDA { run(n, size - left); });
    }
}

// Return 1 / sqrt(x). Some instruction sets have an approximation for floats, which one Newton step refines.
// The result for 0 is infinite or NaN.
template <class R> BCRF_INLINE Vec<R> inverse_square_root(Vec<R> x) {
#if defined(__SSE2__)
    if constexpr (sizeof(R) == 4) {
#if BCRF_VECTOR_BYTES == 64
        const Vec<R> y = __builtin_ia32_rsqrt14ps512_mask(x, Vec<R>{}, 0xFFFF);
#elif BCRF_VECTOR_BYTES == 32
        const Vec<R> y = __builtin_ia32_rsqrtps256(x);
#else
        const Vec<R> y = __builtin_ia32_rsqrtps(x);
#endif
        return y * (1.5f - 0.5f * x * y * y);
    }
#endif
    R roots[lanes<R>];
    store(roots, x);
    BCRF_VECTORIZE for (int i = 0; i < lanes<R>; ++i) roots[i] = std::sqrt(roots[i]);
    return R(1) / load(roots);
}

// Return exp(x) for x <= 0 or slightly above, accurate to about 1 ulp. Return 0 where exp(x) would
// not be a normal number.
BCRF_INLINE Vec<float> exponential(Vec<float> x) {
    const float round = 12582912.0f;  // 1.5 * 2^23 moves the integer part to the low bits
    Vec<float> shifted = x * 1.44269504f + round;
    Vec<float> n = shifted - round;
    Vec<float> r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const Bits<float> power = ((Bits<float>)shifted - 0x4B400000u + 127u) << 23;
    p *= (Vec<float>)power;
    return x > Precision<float>::LEAST_LOG ? p : Vec<float>{};
}

BCRF_INLINE Vec<double> exponential(Vec<double> x) {
    const double round = 6755399441055744.0;  // 1.5 * 2^52
    Vec<double> shifted = x * 1.4426950408889634 + round;
    Vec<double> n = shifted - round;
    Vec<double> r = x - n * 0.693145751953125 - n * 1.42860682030941723212e-6;
    Vec<double> square = r * r;
    Vec<double> p = square * 1.26177193074810590878e-4 + 3.02994407707441961300e-2;
    p = (p * square + 1.0) * r;
    Vec<double> q = square * 3.00198505138664455042e-6 + 2.52448340349684104192e-3;
    q = q * square + 2.27265548208155028766e-1;
    q = q * square + 2.0;
    p = p / (q - p) * 2.0 + 1.0;
    const Bits<double> power = ((Bits<double>)shifted - 0x4338000000000000u + 1023u) << 52;
    p *= (Vec<double>)power;
    return x > Precision<double>::LEAST_LOG ? p : Vec<double>{};
}

// Return log(x) for positive normal numbers, accurate to about 1 ulp.
BCRF_INLINE Vec<float> logarithm(Vec<float> x) {
    // x = 2^n m, where m is in [sqrt(1/2), sqrt(2)).
    const Bits<float> bits = (Bits<float>)x, exponent = (bits - 0x3F3504F3u) & ~0x7FFFFFu;
    const Vec<float> r = (Vec<float>)(bits - exponent) - 1.0f;
    const Vec<float> n = __builtin_convertvector((IntVec<float>)exponent, Vec<float>) * 1.1920928955078125e-7f;
    Vec<float> p = r * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    const Vec<float> square = r * r;
    return n * 0.693359375f + (r + (square * (r * p - 0.5f) - n * 2.12194440e-4f));
}

BCRF_INLINE Vec<double> logarithm(Vec<double> x) {
    const Bits<double> bits = (Bits<double>)x;
    // x = 2^n m, where m is in [sqrt(1/2), sqrt(2)).
    const Bits<double> power = (bits - 0x3FE6A09E667F3BCDu) & 0xFFF0000000000000u;
    const Vec<double> m = (Vec<double>)(bits - power);
    // The bits are 2^52 + 1023 + n.
    const Vec<double> biased = (Vec<double>)(((power + 0x3FF0000000000000u) >> 52) | 0x4330000000000000u);
    const Vec<double> n = biased - (4503599627370496.0 + 1023.0);
    const Vec<double> f = m - 1.0, s = f / (f + 2.0), z = s * s, w = z * z, half = f * f * 0.5;
    const Vec<double> even = w * (w * (w * 1.531383769920937332e-01 + 2.222219843214978396e-01) +
                                  3.999999999940941908e-01);
    const Vec<double> odd =
        z * (w * (w * (w * 1.479819860511658591e-01 + 1.818357216161805012e-01) +
                  2.857142874366239149e-01) + 6.666666666666735130e-01);
    const Vec<double> low = s * (half + (even + odd)) + n * 1.90821492927058770002e-10;
    return n * 6.93147180369123816490e-01 - ((half - low) - f);
}

// The smallest and the largest of some numbers, the smallest one that is not -inf, 0 if there is none, and whether all
// are less than infinity. All but the last ignore NaN.
template <class R> struct Extent {
    R low, top, least;
    bool finite;
};

template <class R> BCRF_INLINE Extent<R> extent(const R* x, size_t n) {
    constexpr size_t W = lanes<R>;
    if (!n) return {infinity<R>, -infinity<R>, 0, true};
    R few[W];  // repeating a number changes nothing
    for (size_t i = 0; n < W && i < W; ++i) few[i] = x[i < n ? i : 0];
    if (n < W) x = few, n = W;
    const Vec<R> inf = broadcast(infinity<R>);
    Vec<R> low = inf, top = -inf, least = inf, finite = inf;
    for (size_t i = 0; i < n; i += W) {
        const Vec<R> v = load(x + std::min(i, n - W));
        low = min<R>(v, low), top = max<R>(v, top);
        least = v > -inf ? min<R>(v, least) : least;
        finite = v < inf ? finite : -inf;
    }
    const R found = minimum<R>(least);
    return {minimum<R>(low), maximum<R>(top), found < infinity<R> ? found : R(0), minimum<R>(finite) > 0};
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
