// Products of rows with a T x T matrix, in the sum-product and the max-plus semiring.
#pragma once

#include "simd.hh"

namespace bcrf {
namespace BCRF_TARGET {

struct SumProduct {
    template <class R> static BCRF_INLINE Vec<R> zero() { return broadcast<R>(0); }
    template <class R> static BCRF_INLINE Vec<R> add(Vec<R> total, R x, Vec<R> k) {
        return total + x * k;
    }
    template <class R> static BCRF_INLINE Vec<R> join(Vec<R> a, Vec<R> b) { return a + b; }
};

struct MaxPlus {
    template <class R> static BCRF_INLINE Vec<R> zero() { return broadcast<R>(-infinity<R>); }
    template <class R> static BCRF_INLINE Vec<R> add(Vec<R> total, R x, Vec<R> k) {
        return max<R>(total, x + k);
    }
    template <class R> static BCRF_INLINE Vec<R> join(Vec<R> a, Vec<R> b) { return max<R>(a, b); }
};

// Set out[r, columns] = x[r] K[:, columns] for ROWS rows and COLUMNS vectors of columns. The block
// loads each vector of K once for all rows and keeps the totals in registers.
template <class Semiring, int ROWS, int COLUMNS, class R>
BCRF_INLINE void product_block(R* const* out, const R* const* x, const R* k, int tags, int width) {
    // Fewer than 8 totals do not hide the latency of the sums, so they are split in two.
    constexpr int WAYS = ROWS * COLUMNS < 8 ? 2 : 1;
    Vec<R> total[WAYS][ROWS][COLUMNS];
    for (int w = 0; w < WAYS; ++w)
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < COLUMNS; ++c) total[w][r][c] = Semiring::template zero<R>();
    const R* from[ROWS];
    for (int r = 0; r < ROWS; ++r) from[r] = x[r];
    const auto add_rows = [&](int ways) BCRF_INLINE_LAMBDA {
        for (int w = 0; w < ways; ++w, k += width)
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<R> row = load(k + c * lanes<R>);
                for (int r = 0; r < ROWS; ++r)
                    total[w][r][c] = Semiring::template add<R>(total[w][r][c], from[r][w], row);
            }
        for (int r = 0; r < ROWS; ++r) from[r] += ways;
    };
    int left = tags;
    for (; left >= WAYS; left -= WAYS) add_rows(WAYS);
    if (WAYS == 2 && left) add_rows(1);
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < COLUMNS; ++c) {
            Vec<R> v = total[0][r][c];
            if (WAYS == 2) v = Semiring::template join<R>(v, total[WAYS - 1][r][c]);
            store(out[r] + c * lanes<R>, v);
        }
}

// Set out[r] = x[r] K for ROWS rows. K is (tags, width), where width is a whole number of vectors.
template <class Semiring, int ROWS, class R>
void product(R* const* out, const R* const* x, const R* k, int tags, int width) {
    // The totals must fit the registers: 32 with AVX-512, 16 without.
    constexpr int MOST = ROWS == 1 || BCRF_VECTOR_BYTES == 64 ? 4 : 3;
    R* at[ROWS];
    for (int r = 0; r < ROWS; ++r) at[r] = out[r];
    int left = width / lanes<R>;
    while (left > 0) {
        // Split 4 into 2 + 2, not 3 + 1: a single column of vectors leaves execution units idle.
        int step = left >= MOST + 2 || left == MOST ? MOST : left > MOST ? 2 : left;
        switch (step) {
            case 1: product_block<Semiring, ROWS, 1, R>(at, x, k, tags, width); break;
            case 2: product_block<Semiring, ROWS, 2, R>(at, x, k, tags, width); break;
            case 3: product_block<Semiring, ROWS, 3, R>(at, x, k, tags, width); break;
            default: product_block<Semiring, ROWS, MOST, R>(at, x, k, tags, width);
        }
        for (int r = 0; r < ROWS; ++r) at[r] += step * lanes<R>;
        k += step * lanes<R>;
        left -= step;
    }
}

// The product of 1 to 4 rows, a number known at run time.
template <class Semiring, class R>
inline void product(int rows, R* const* out, const R* const* x, const R* k, int tags, int width) {
    switch (rows) {
        case 1: product<Semiring, 1, R>(out, x, k, tags, width); break;
        case 2: product<Semiring, 2, R>(out, x, k, tags, width); break;
        case 3: product<Semiring, 3, R>(out, x, k, tags, width); break;
        default: product<Semiring, 4, R>(out, x, k, tags, width);
    }
}

template <class Semiring, class R>
inline void product(R* out, const R* x, const R* k, int tags, int width) {
    product<Semiring, 1, R>(&out, &x, k, tags, width);
}

// Add sum_i a[i, u] b[i, columns] to total[u, columns] for ROWS numbers u and COLUMNS vectors of
// columns. The totals stay in registers.
template <int ROWS, int COLUMNS, class R>
BCRF_INLINE void outer_products_block(R* total, const R* a, const R* b, int rows, int width) {
    Vec<R> sums[ROWS][COLUMNS];
    for (int u = 0; u < ROWS; ++u)
        for (int c = 0; c < COLUMNS; ++c)
            sums[u][c] = load(total + size_t(u) * width + c * lanes<R>);
    for (int i = 0; i < rows; ++i, a += width, b += width)
        for (int c = 0; c < COLUMNS; ++c) {
            const Vec<R> row = load(b + c * lanes<R>);
            for (int u = 0; u < ROWS; ++u) sums[u][c] += a[u] * row;
        }
    for (int u = 0; u < ROWS; ++u)
        for (int c = 0; c < COLUMNS; ++c)
            store(total + size_t(u) * width + c * lanes<R>, sums[u][c]);
}

template <int COLUMNS, class R>
void outer_products(R* total, const R* a, const R* b, int rows, int tags, int width) {
    constexpr int ROWS = 4;
    int u = 0;
    for (; u + ROWS <= tags; u += ROWS)
        outer_products_block<ROWS, COLUMNS>(total + size_t(u) * width, a + u, b, rows, width);
    for (; u < tags; ++u)
        outer_products_block<1, COLUMNS>(total + size_t(u) * width, a + u, b, rows, width);
}

// Add sum_i a[i, u] b[i, v] to total[u, v], for `rows` numbers i.
template <class R>
void add_outer_products(R* total, const R* a, const R* b, int rows, int tags, int width) {
    constexpr int MOST = BCRF_VECTOR_BYTES == 64 ? 4 : 2;
    for (int left = width / lanes<R>; left > 0;) {
        const int step = left < MOST ? left : MOST;
        switch (step) {
            case 1: outer_products<1>(total, a, b, rows, tags, width); break;
            case 2: outer_products<2>(total, a, b, rows, tags, width); break;
            case 3: outer_products<3>(total, a, b, rows, tags, width); break;
            default: outer_products<MOST>(total, a, b, rows, tags, width);
        }
        total += step * lanes<R>;
        b += step * lanes<R>;
        left -= step;
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
