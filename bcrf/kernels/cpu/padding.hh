// Padded batches (B, L, T) of other libraries, copied to rows of tokens (N, T) and back.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace bcrf {

// Copy the tokens of `padded`, of shape (B, L, T), to rows (N, T). If `pads`, copy factor times the rows to the
// tokens, and 0 beyond them. Return whether all tokens are below infinity, which NaN is not.
template <class R> bool move_rows(R* rows, R* padded, const std::ptrdiff_t* shape, const std::ptrdiff_t* strides,
                                  const int* lengths, R factor, bool pads) {
    typedef R V __attribute__((vector_size(16), aligned(sizeof(R))));
    constexpr std::ptrdiff_t W = 16 / sizeof(R), SIZE = sizeof(R);
    const std::ptrdiff_t n = shape[2];
    auto below = V{} < V{} + 1;
    bool found = true;
    for (std::ptrdiff_t b = 0; b < shape[0]; ++b) {
        R* cell = padded + b * (strides[0] / SIZE);
        for (int i = 0; i < lengths[b]; ++i, rows += n, cell += strides[1] / SIZE) {
            const R* const x = pads ? rows : cell;
            R* const y = pads ? cell : rows;
            for (std::ptrdiff_t t = 0; n < W && t < n; ++t) found &= (y[t] = factor * x[t]) < INFINITY;
            for (std::ptrdiff_t t = 0; n >= W && t < n; t += W) {
                t = std::min(t, n - W);  // the last two vectors overlap
                const V v = factor * reinterpret_cast<const V&>(x[t]);
                reinterpret_cast<V&>(y[t]) = v;
                below &= v < V{} + R(INFINITY);
            }
        }
        for (int i = lengths[b]; pads && i < shape[1]; ++i, cell += strides[1] / SIZE) std::fill_n(cell, n, R(0));
    }
    for (int k = 0; k < W; ++k) found &= below[k] != 0;
    return found;
}

}  // namespace bcrf
