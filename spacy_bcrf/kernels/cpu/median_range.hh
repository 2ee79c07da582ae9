// The range of most tag scores, which tells in which precision their weights fit.
#pragma once

#include "simd.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Return the median range of the finite tag scores of a few tokens. A wrong guess costs time only: a kernel
// fails, or a slower one runs than needed.
template <class In> double median_range(const Batch<In>& batch) {
    constexpr size_t MOST = 16;
    const size_t t = batch.tags, tokens = batch.tokens(), n = std::min(tokens, MOST);
    double ranges[MOST];
    for (size_t i = 0; i < n; ++i) {
        const In* unary = batch.unary + tokens * i / n * t;
        const double range = double(largest(unary, t)) - smallest_finite(unary, t);
        ranges[i] = range >= 0 ? range : infinity<double>;  // NaN has no place in an order
    }
    std::nth_element(ranges, ranges + n / 2, ranges + n);
    return n ? ranges[n / 2] : 0;
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
