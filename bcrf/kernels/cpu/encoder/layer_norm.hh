// Layer normalization of rows.
#pragma once

#include "../simd.hh"
#include "stack.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Subtract the mean of a row from it. Return the inverse of its standard deviation.
inline float center(float* row, const float* valid, int width) {
    constexpr int V = lanes<float>;
    const int n = padded<float>(width);
    Vec<float> sums{}, squares{};
    for (int i = 0; i < n; i += V) sums += load(row + i);
    const Vec<float> mean = broadcast<float>(sum<float>(sums) / float(width));
    for (int i = 0; i < n; i += V) {
        const Vec<float> x = (load(row + i) - mean) * load(valid + i);
        squares += x * x;
        store(row + i, x);
    }
    return 1 / std::sqrt(sum<float>(squares) / float(width) + NormalizationLimits::LEAST_VARIANCE);
}

// Normalize a row to mean 0 and variance 1, multiply it by the gain, and add the shift, and `in` if
// it is not null. In place.
inline void complete(float* row, const float* in, const PackedLayer& layer, int width) {
    const float scale = center(row, layer.valid.data(), width);
    for (int i = 0; i < padded<float>(width); i += lanes<float>) {
        Vec<float> y = load(row + i) * scale * load(layer.gain.data() + i) + load(layer.shift.data() + i);
        if (in) y += load(in + i);
        store(row + i, y);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
