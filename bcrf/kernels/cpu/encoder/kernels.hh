// The table of kernels of the compiled CNN. Each instruction set has one.
#pragma once

#include "../dispatch.hh"
#include "stack.hh"

namespace bcrf {

struct EncoderKernels {
    std::uint64_t (*fingerprint)(const float* x, size_t n, std::uint64_t before);
    void (*pack)(Stack&, const std::vector<MaxoutParams<const float>>&);
    void (*predict)(const Stack&, const float* x, const int* lengths, int size, float* out,
                    int threads);
    void (*train)(const Stack&, const float* x, float* out, Trace&, int threads);
    void (*backward)(const Stack&, const Trace&, const float* dy,
                     const std::vector<MaxoutParams<float>>& gradients, float* dx, int threads);

    // Return the kernels of the instruction set in use.
    static const EncoderKernels& get();
};

// Each file in targets/ defines `encoder_kernels` in its namespace.
BCRF_EACH_TARGET(EncoderKernels encoder_kernels();)

inline const EncoderKernels& EncoderKernels::get() {
    static const EncoderKernels chosen = BCRF_CHOOSE(encoder_kernels());
    return chosen;
}

}  // namespace bcrf
