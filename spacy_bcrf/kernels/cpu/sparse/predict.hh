// Sums of rows of weights: the scores of tokens under fixed weights.
#pragma once

#include "prefetch.hh"
#include "rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Set out[0 : 8 * N] to the sum of n arrays, each from `at` on.
template <int N>
BCRF_INLINE void sum_block_of(const float* const* parts, std::int64_t n, size_t at, float* out) {
    Lane total[N];
    for (int k = 0; k < N; ++k) total[k] = Lane{};
    for (std::int64_t p = 0; p < n; ++p)
        for (int k = 0; k < N; ++k) total[k] = total[k] + load_lane(parts[p] + at + 8 * k);
    std::memcpy(out, total, sizeof total);
}

// Compute out (n, width). Row i is the sum of the arrays parts[starts[i]:starts[i + 1]] of `stride`
// floats each, in this order, without the last stride - width columns.
inline void sum_parts(const float* const* parts, const std::int64_t* starts, size_t n,
                      size_t stride, size_t width, float* out) {
    Buffer<float> row(stride);
    for (size_t i = 0; i < n; ++i, out += width) {
        // The rows of rare features are in no cache.
        if (i + 1 < n)
            for (std::int64_t p = starts[i + 1]; p < starts[i + 2]; ++p)
                for (size_t at = 0; at < stride; at += 16) prefetch(parts[p] + at);
        const float* const* of_token = parts + starts[i];
        const std::int64_t count = starts[i + 1] - starts[i];
        float* to = row;
        for (size_t at = 0; at < stride;) {
            const size_t left = (stride - at) / 8, step = left < 6 ? left : 6;
            switch (step) {
                case 1: sum_block_of<1>(of_token, count, at, to + at); break;
                case 2: sum_block_of<2>(of_token, count, at, to + at); break;
                case 3: sum_block_of<3>(of_token, count, at, to + at); break;
                case 4: sum_block_of<4>(of_token, count, at, to + at); break;
                case 5: sum_block_of<5>(of_token, count, at, to + at); break;
                default: sum_block_of<6>(of_token, count, at, to + at);
            }
            at += 8 * step;
        }
        std::memcpy(out, to, sizeof(float) * width);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
