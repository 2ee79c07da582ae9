// Matrices in registers: each thread has one tag's column of exp(w), so a message to the tag needs
// the neighbor's row alone, which all threads of a warp read together.
//
// Compile with -DBCRF_WIDTH, the number of tags rounded up to a multiple of 4. WARPS warps take a row.
#ifndef BCRF_CUDA_REGISTERS_CUH
#define BCRF_CUDA_REGISTERS_CUH
#include "block.cuh"

constexpr int WIDTH = BCRF_WIDTH, WARPS = (WIDTH + WARP - 1) / WARP;

struct __align__(16) Four {
    Real x[4];
};

// Column t of the matrix k (tags, tags); 0 for t >= tags.
struct Column {
    Real k[WIDTH];

    __device__ void load(const Real* matrix, int t, int tags) {
#pragma unroll
        for (int u = 0; u < WIDTH; ++u) k[u] = u < tags && t < tags ? matrix[u * tags + t] : Real(0);
    }

    // sum_u row[u] k[u]. row: WIDTH numbers, aligned.
    __device__ Real message(const Real* row) const {
        return visit(row, [](int, Real) {});
    }

    // The same, and add head row[u] to sums[u]. One loop reads each number once.
    __device__ Real message(const Real* row, Real head, Real (&sums)[WIDTH]) const {
        return visit(row, [&](int u, Real x) { sums[u] += head * x; });
    }

    template <class Visit>
    __device__ Real visit(const Real* row, Visit visit) const {
        Real parts[4] = {0, 0, 0, 0};
#pragma unroll
        for (int u = 0; u < WIDTH; u += 4) {
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
