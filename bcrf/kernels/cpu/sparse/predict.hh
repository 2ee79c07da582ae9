// Sums of rows of weights: the scores of tokens under fixed weights.
#pragma once

#include "../batch.hh"
#include "rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Compute out (n, width). Row i is the sum of the arrays parts[starts[i]:starts[i + 1]] of `stride`
// floats each, in this order, without the last stride - width columns.
inline void sum_parts(const float* const* parts, const std::int64_t* starts, size_t n,
                      size_t stride, size_t width, float* out) {
    Buffer<float> row(stride);
    for (size_t i = 0; i < n; ++i, out += width) {
        // The rows of rare features are in no cache.
        if (i + 1 < n)
            for (std::int64_t p = starts[i + 1]; p < starts[i + 2]; ++p)
                prefetch(parts[p], stride);
        const float* const* of_token = parts + starts[i];
        sum_rows(row, stride, starts[i + 1] - starts[i], [&](std::int64_t p) { return of_token[p]; });
        std::memcpy(out, (float*)row, sizeof(float) * width);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
