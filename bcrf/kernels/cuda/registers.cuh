// Matrices in registers: each thread holds one tag's column of exp(w). A message to the tag then needs
// the neighbor's row alone, which all threads of a warp read together.
//
// Compile with -DBCRF_WIDTH, the number of tags rounded up to a multiple of 8. WARPS warps take a row.
// Without it, WIDTH is 0: the matrices stay in memory.
#ifndef BCRF_CUDA_REGISTERS_CUH
#define BCRF_CUDA_REGISTERS_CUH
#include "block.cuh"

#ifdef BCRF_WIDTH
constexpr int WIDTH = BCRF_WIDTH, CELLS = WIDTH;
#else
constexpr int WIDTH = 0, CELLS = 4;  // C++ has no empty arrays
#endif
constexpr int WARPS = (CELLS + WARP - 1) / WARP;

struct __align__(16) Four {
    Real x[4];
};

// Column t of the matrix k (tags, tags); 0 for t >= tags.
struct Column {
    Real k[CELLS];

    __device__ void load(const Real* matrix, int t, int tags) {
#pragma unroll
        for (int u = 0; u < CELLS; ++u) k[u] = u < tags && t < tags ? matrix[u * tags + t] : Real(0);
    }

    // sum_u row[u] k[u]. row: WIDTH numbers, aligned.
    __device__ Real message(const Real* row) const {
        return visit(row, [](int, Real) {});
    }

    // The same, and add head row[u] to sums[u]. One loop reads each number once.
    __device__ Real message(const Real* row, Real head, Real (&sums)[CELLS]) const {
        return visit(row, [&](int u, Real x) { sums[u] += head * x; });
    }

    template <class Visit>
    __device__ Real visit(const Real* row, Visit visit) const {
        Real parts[4] = {0, 0, 0, 0};
#pragma unroll
        for (int u = 0; u < CELLS; u += 4) {
            const Four four = *(const Four*)(row + u);
            for (int c = 0; c < 4; ++c) {
                parts[c] += four.x[c] * k[u + c];
                visit(u + c, four.x[c]);
            }
        }
        return (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
};

#endif
