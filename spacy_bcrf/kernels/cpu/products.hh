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

// Call run(n) for 1 <= n <= MOST as a std::integral_constant.
template <int MOST, class Run> BCRF_INLINE void with_constant(int n, Run run) {
    if constexpr (MOST > 1)
        if (n < MOST) return with_constant<MOST - 1>(n, run);
    run(std::integral_constant<int, MOST>());
}

// Call run(n, at) for blocks of n <= MOST places from `at` on; n is a std::integral_constant. The last
// two blocks have similar sizes, because a block of one place leaves execution units idle.
template <int MOST, class Run> BCRF_INLINE void for_blocks(int size, Run run) {
    for (int left = size, step; left > 0; left -= step) {
        step = left <= MOST ? left : left < 2 * MOST ? (left + 1) / 2 : MOST;
        with_constant<MOST>(step, [&](auto n) BCRF_INLINE_LAMBDA { run(n, size - left); });
    }
}

// Call visit(r, v, sum) with each vector of x[r] K, for ROWS rows x. K is (tags, width), where width is a whole number
// of vectors.
template <class N, int ROWS, class R, class Visit>
BCRF_INLINE void row_products(const R* const* x, size_t step, const R* k, int tags, int width, Visit visit) {
    // The totals must fit the registers: 32 with AVX-512, 16 without.
    constexpr int MOST = ROWS == 1 || BCRF_VECTOR_BYTES == 64 ? 4 : 3;
    for_blocks<MOST>(width / lanes<R>, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
        product_block<N, ROWS, columns.value>(x, step, k + v * lanes<R>, tags, width, v, visit);
    });
}

// Call visit(v, sum) with x K[:, v] in each lane, for the tags v of a block. step: between the numbers of x. ALL: the
// block has all tags, so the loop needs no list of them.
template <class N, bool ALL, class R, class Visit>
BCRF_INLINE void lane_product(const R* x, size_t step, const TransitionBlock<R>& block, Visit visit) {
    for_blocks<12>(int(block.to.size()), [&](auto columns, int v) BCRF_INLINE_LAMBDA {
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
