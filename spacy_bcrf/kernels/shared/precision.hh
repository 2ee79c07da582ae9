// Limits of the kernels in probability space, for each floating-point type. The CPU and the CUDA
// kernels share this file. NVRTC compiles it without an include path, so it needs no header there.
#ifndef BCRF_SHARED_PRECISION_HH
#define BCRF_SHARED_PRECISION_HH

#if defined(__CUDACC__)
#define BCRF_SHARED __device__ inline
#else
#include <cmath>
#if defined(__GNUC__)
// Only an inlined body gets the instruction set of its caller.
#define BCRF_SHARED inline __attribute__((always_inline))
#else
#define BCRF_SHARED inline
#endif
#endif

namespace bcrf {

// A kernel that meets a value outside these limits computes the sequence again with more range.
template <class R> struct Precision {
    static constexpr bool SINGLE = sizeof(R) == 4;

    // Bregman projections: the largest range of the finite scores around a token.
    static constexpr double MAX_RANGE = SINGLE ? 60 : 600;

    // Bregman projections: the largest factor. R then holds every product of a score and a factor.
    static constexpr R MAX_FACTOR = SINGLE ? R(1e30) : R(1e280);

    // Forward-backward: the smallest scalar product of a token's forward and backward weights, both
    // normalized, and the smallest sum of weights before it is normalized. Above it, underflow has
    // removed less than the rounding error.
    static constexpr R MIN_OVERLAP = SINGLE ? R(1e-24) : R(1e-200);

    // The smallest normal number. Smaller ones have fewer digits.
    static constexpr R MIN_NORMAL = SINGLE ? R(1.17549435e-38) : R(2.2250738585072014e-308);

    // Return whether the factors of an allowed tag are in range. Otherwise R has lost an arc.
    static BCRF_SHARED bool holds(R f, R g) {
        const R low = 1 / MAX_FACTOR;
        return f < MAX_FACTOR && g < MAX_FACTOR && f > low && g > low;
    }
};

}  // namespace bcrf

#endif
