// Scores of sequences under fixed weights.
#pragma once

#include "model.hh"
#include "rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Compute unary (N, tags) of a batch with `weights` (rows, stride), laid out as in Model. Skip
// features of row -1, which are unknown.
inline void score(const float* weights, size_t stride, int tags, const Sequences& data,
                  const int* lengths, int batch, float* unary) {
    std::vector<int> rows;
    Buffer<float> row(stride);
    size_t i = 0;
    for (int b = 0; b < batch; ++b)
        for (int k = 0; k < lengths[b]; ++k, ++i, unary += tags) {
            rows.assign(1, tags);
            if (k == 0) rows.push_back(tags + 1);
            if (k == lengths[b] - 1) rows.push_back(tags + 2);
            for (std::int64_t j = data.starts[i]; j < data.starts[i + 1]; ++j)
                if (data.rows[j] >= 0) rows.push_back(data.rows[j] + tags + 3);
            sum_rows(row, weights, stride, rows.data(), int(rows.size()));
            std::memcpy(unary, (float*)row, sizeof(float) * tags);
        }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
