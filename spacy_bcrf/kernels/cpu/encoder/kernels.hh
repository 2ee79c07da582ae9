// The compiled encoder: stacks of Maxout layers, compiled for each instruction set.
#pragma once

#include "stack.hh"

#define BCRF_FOR_EACH_TARGET "encoder/for_each_target.hh"
#include "../targets.hh"

namespace bcrf {

inline std::uint64_t fingerprint(const float* x, size_t n, std::uint64_t before) {
    std::uint64_t after = 0;
    BCRF_CALL(fingerprint, x, n, before, after)
    return after;
}

inline void pack(Stack& stack, const std::vector<MaxoutParams<const float>>& params) {
    BCRF_CALL(pack, stack, params)
}

inline void predict(const Stack& stack, const float* x, const int* lengths, int size, float* out,
                    int threads) {
    BCRF_CALL(predict, stack, x, lengths, size, out, threads)
}

inline void train(const Stack& stack, const float* x, float* out, Trace& trace, int threads) {
    BCRF_CALL(train, stack, x, out, trace, threads)
}

inline void backward(const Stack& stack, const Trace& trace, const float* dy,
                     const std::vector<MaxoutParams<float>>& d, float* dx, int threads) {
    BCRF_CALL(backward, stack, trace, dy, d, dx, threads)
}

}  // namespace bcrf
