// Numeric limits of the kernels, for each floating-point type. The CPU and the CUDA kernels share this file. NVRTC
// compiles it without an include path, so it needs no header there.
//
// A kernel that meets a value outside these limits computes the sequence again with more range. tests/kernels/
// test_precision.py has a problem on each side of each limit.
#ifndef BCRF_SHARED_PRECISION_HH
#define BCRF_SHARED_PRECISION_HH

#if defined(__CUDACC__)
#define BCRF_SHARED __device__ inline
#else
#include <cmath>
// Only an inlined body gets the instruction set of its caller.
#define BCRF_SHARED inline __attribute__((always_inline))
#endif

namespace bcrf {

template <class R> struct Precision {
    static constexpr bool SINGLE = sizeof(R) == 4;

    // Bregman projections: the largest range of the finite scores around a token. Three scores, two factors and a
    // square root then stay above exp(-87), the smallest normal float, with a margin for the sums.
    static constexpr double MAX_RANGE = SINGLE ? 60 : 600;

    // Bregman projections: the largest factor. R then holds every product of a score and a factor.
    static constexpr R MAX_FACTOR = SINGLE ? R(1e30) : R(1e280);

    // Forward-backward: the smallest scalar product of a token's forward and backward weights, both normalized, and
    // the smallest sum of weights before it is normalized. A number that R has lost is below 1e-38 (1e-308); beside
    // 1e-24 (1e-200) it is smaller than the rounding error, for up to 1e6 tags.
    static constexpr R MIN_OVERLAP = SINGLE ? R(1e-24) : R(1e-200);

    // The smallest normal number. Smaller ones have fewer digits.
    static constexpr R MIN_NORMAL = SINGLE ? R(1.17549435e-38) : R(2.2250738585072014e-308);

    // Forward-backward: if all tag scores of a token, and all transitions, are within this range, each weight is at
    // least exp(-60) = 1e-26 before its division. No number is lost, and the value needs no backward pass as a check.
    static constexpr R CERTAIN_RANGE = 30;

    // Forward-backward: the largest range of most tokens' scores at which a plan tries plain numbers. It is above that
    // of R, because a few small weights may be lost.
    static constexpr double TRIED_RANGE = SINGLE ? 150 : 1500;

    // Products of wide numbers with transitions: the largest range of the scores whose weights are plain numbers.
    // The sum of products then loses what the product with the weight would have lost: exp(-66) = 2^-95 leaves the
    // 23 bits of a mantissa above 2^-126.
    static constexpr double PLAIN_RANGE = SINGLE ? 66 : 650;

    // Rows of wide numbers: products so many binary digits below the largest one do not change a sum: the digits of R
    // and 2^16 tags.
    static constexpr R NEGLIGIBLE = SINGLE ? R(40) : R(70);

    // Edges whose marginals are summed in R before the sum goes on in double: 256 rounding errors are as large as that
    // of a float marginal.
    static constexpr int MOST_SUMMED = 256;

    // Forward-backward: tokens after which the backward weights are divided by their overlap with the forward
    // weights. Rounding errors of so many divisions stay below 2^-18.
    static constexpr int TOKENS_A_DIVISION = 32;

    // exp(x) is 0 below: not a normal number.
    static constexpr R LEAST_LOG = SINGLE ? R(-87) : R(-708);

    // The largest number up to which R, and so float, counts tokens.
    static constexpr int MOST_COUNTED = 1 << 24;

    // Streams: bounds of a probability are one number if they differ by less.
    static constexpr double SAME = 1e-9;
};

// The exponents of wide numbers m 2^e, which R holds too.
template <class R> struct Exponents {
    static constexpr bool SINGLE = sizeof(R) == 4;
    static constexpr int MANTISSA = SINGLE ? 23 : 52;
    static constexpr R BIAS = SINGLE ? 127 : 1023;
    static constexpr R ROUND = SINGLE ? R(12582912.0) : R(6755399441055744.0);  // 1.5 * 2^MANTISSA
    static constexpr R SHIFT = SINGLE ? R(8388608.0) : R(4503599627370496.0);   // 2^MANTISSA
    // The exponent of 0, below that of any other number. R holds the sum of a few.
    static constexpr R ZERO = SINGLE ? R(-67108864.0) : R(-2e307);
    // The exponent below which a number is 0, also after a few sums with other exponents.
    static constexpr R NOTHING = ZERO / 2;
    // The largest exponents of which floats represent all sums that the kernels need: 4 of them are 2^24.
    static constexpr R MOST = R(4194304.0);
    // The largest range of the scores around a token, in nats. Beyond it, products of forward and backward weights
    // lose digits of their exponents.
    static constexpr double MAX_RANGE = MOST / 4;
    // The lowest exponent of a score that is not -inf, for doubles: sums of a few stay above ZERO.
    static constexpr double LOWEST = -1e305;
};

// The logarithm of a product takes a logarithm of a factor outside of [1 / FACTOR, FACTOR], and of the product outside
// of [1 / PRODUCT, PRODUCT]. So neither underflows: doubles reach 1e-308.
struct ProductLimits {
    static constexpr double FACTOR = 1e100, PRODUCT = 1e200;
};

// Bregman projections, see projection.hh.
struct ProjectionLimits {
    // Over-relaxation adds it to the masses of a tag. Much smaller masses get the plain projection, so that no product
    // leaves the range of R.
    static constexpr double SMALL_MASS = 1e-6;
    // While violations stay at their maximum, 2, rounding errors decide whether the rate of convergence is below 1. Above
    // this rate, or this squared rate of Jacobi's method, the estimate of the best relaxation means nothing.
    static constexpr double MOST_RATE = 0.9999, MOST_JACOBI = 0.99;
    // A tag with a lower logarithm of its mass has none: exp(-700) is near the smallest double. Its score in the chain of
    // the arcs is dropped from HUGE_SCORE on, which would take the 9 digits that a score needs from the other tags.
    static constexpr double LEAST_LOG_MASS = -700, HUGE_SCORE = 1e9;
};

// Hildreth's coordinate ascent ends when no step moves by more than this share of the largest one, or after so many
// sweeps: its convergence is linear, and steps have the digits of a float.
struct HildrethLimits {
    static constexpr double LEAST_MOVE = 1e-9;
    static constexpr int MOST_SWEEPS = 1000;
};

// The online learner of sparse chains.
struct LearnerLimits {
    // The learner has diverged when the absolute scores of a sequence sum to this: the spacing of floats is then larger
    // than any step.
    static constexpr float DIVERGED = 1e12f;
    // A step skips rows whose gradient has no larger component. Late in training most tokens are certain and have
    // gradients near 0, whose updates would take most of the time.
    static constexpr double NEGLIGIBLE_GRADIENT = 1e-4;
    // Decay multiplies one scale in place of all weights. Below this scale, the weights take it: floats then still have
    // room for larger ones.
    static constexpr double LEAST_SCALE = 1e-2;
};

// Posteriors of streams, in double.
struct StreamLimits {
    // The largest absolute score of a transition whose exponential multiplies messages.
    static constexpr double MOST_SCORE = 200;
    // The smallest sum of such products. A message that double has lost is below 1e-308, and its product below 1e-221:
    // beside 1e-190, this is smaller than the rounding error.
    static constexpr double LEAST_SUM = 1e-190;
};

struct NormalizationLimits {
    // Layer normalization of the compiled CNN adds this to a variance, as Thinc does.
    static constexpr float LEAST_VARIANCE = 1e-8f;
};

}  // namespace bcrf

#endif
