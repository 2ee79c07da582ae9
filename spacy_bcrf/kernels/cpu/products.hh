// Products of rows with a T x T matrix: a number N, see numbers.hh, says what a sum and a product is. Each product hands
// the finished sums to a visitor while they are in registers.
#pragma once

#include "numbers.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Call visit(r, v, sum) with vector v of x[r] K, for ROWS rows and COLUMNS vectors from `first` on. Each vector of K is
// loaded once for all rows, and the totals stay in registers. step: between the numbers of x.
template <class N, int ROWS, int COLUMNS, class R, class Visit>
BCRF_INLINE void product_block(const R* const* x, size_t step, const R* k, int tags, size_t width, int first,
                               Visit visit) {
    // Fewer than 8 totals do not hide the latency of the sums, so they are split in two.
    constexpr int WAYS = ROWS * COLUMNS < 8 ? 2 : 1;
    Vec<R> total[WAYS][ROWS][COLUMNS];
    for (int w = 0; w < WAYS; ++w)
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < COLUMNS; ++c) total[w][r][c] = N::zero();
    const R* from[ROWS];
    for (int r = 0; r < ROWS; ++r) from[r] = x[r];
    const auto add_rows = [&](int ways) BCRF_INLINE_LAMBDA {
        for (int w = 0; w < ways; ++w, k += width)
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<R> row = load(k + c * lanes<R>);
                for (int r = 0; r < ROWS; ++r) total[w][r][c] = N::add_product(total[w][r][c], from[r][w * step], row);
            }
        for (int r = 0; r < ROWS; ++r) from[r] += ways * step;
    };
    int left = tags;
    for (; left >= WAYS; left -= WAYS) add_rows(WAYS);
    if (WAYS == 2 && left) add_rows(1);
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < COLUMNS; ++c)
            visit(r, first + c, WAYS == 2 ? N::join(total[0][r][c], total[WAYS - 1][r][c]) : total[0][r][c]);
}

// Call run(columns, v) for blocks of at most MOST vectors; `columns` is a std::integral_constant.
template <int MOST, class Run> BCRF_INLINE void for_vectors(int vectors, Run run) {
    for (int left = vectors, v = 0; left > 0;) {
        // Split 4 into 2 + 2, not 3 + 1: a single column of vectors leaves execution units idle.
        const int step = left >= MOST + 2 || left == MOST ? MOST : left > MOST ? 2 : left;
        switch (step) {
            case 1: run(std::integral_constant<int, 1>(), v); break;
            case 2: run(std::integral_constant<int, 2>(), v); break;
            case 3: run(std::integral_constant<int, 3>(), v); break;
            default: run(std::integral_constant<int, MOST>(), v);
        }
        v += step, left -= step;
    }
}

// Call visit(r, v, sum) with each vector of x[r] K, for ROWS rows x. K is (tags, width), where width is a whole number
// of vectors.
template <class N, int ROWS, class R, class Visit>
BCRF_INLINE void row_products(const R* const* x, size_t step, const R* k, int tags, int width, Visit visit) {
    // The totals must fit the registers: 32 with AVX-512, 16 without.
    constexpr int MOST = ROWS == 1 || BCRF_VECTOR_BYTES == 64 ? 4 : 3;
    for_vectors<MOST>(width / lanes<R>, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
        product_block<N, ROWS, columns.value>(x, step, k + v * lanes<R>, tags, width, v, visit);
    });
}

// Call run(columns, v) for blocks of at most 12 tags v, v + 1, ..; `columns` is a std::integral_constant.
template <class Run> BCRF_INLINE void for_columns(int tags, Run run) {
    constexpr int MOST = 12;
    const int blocks = (tags + MOST - 1) / MOST;
    for (int b = 0, v = 0; b < blocks; ++b) {
        const int columns = (tags - v + blocks - b - 1) / (blocks - b);
        switch (columns) {
#define BCRF_COLUMNS(n) case n: run(std::integral_constant<int, n>(), v); break;
            BCRF_COLUMNS(1) BCRF_COLUMNS(2) BCRF_COLUMNS(3) BCRF_COLUMNS(4)
            BCRF_COLUMNS(5) BCRF_COLUMNS(6) BCRF_COLUMNS(7) BCRF_COLUMNS(8)
            BCRF_COLUMNS(9) BCRF_COLUMNS(10) BCRF_COLUMNS(11) BCRF_COLUMNS(12)
#undef BCRF_COLUMNS
        }
        v += columns;
    }
}

// Call visit(v, sum) with x K[:, v] in each lane, for the tags v of a block. step: between the numbers of x. ALL: the
// block has all tags, so the loop needs no list of them.
template <class N, bool ALL, class R, class Visit>
BCRF_INLINE void lane_product(const R* x, size_t step, const TransitionBlock<R>& block, Visit visit) {
    for_columns(int(block.to.size()), [&](auto columns, int v) BCRF_INLINE_LAMBDA {
        constexpr int COLUMNS = columns.value;
        Vec<R> total[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) total[c] = N::zero();
        const R* k = block.weights + v;
        const size_t width = block.width;
        const R* next = x;
        for (const int *u = block.from.data(), *end = u + block.from.size(); u < end; ++u, k += width, next += step) {
            const Vec<R> y = load(ALL ? next : x + *u * step);
            for (int c = 0; c < COLUMNS; ++c) total[c] = N::add_product(total[c], k[c], y);
        }
        for (int c = 0; c < COLUMNS; ++c) visit(ALL ? v + c : block.to[v + c], total[c]);
    });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
