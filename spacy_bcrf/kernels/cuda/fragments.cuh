// Products with exp(w) and its transpose on tensor cores. A number is the sum of two TF32 numbers of 11 bits each,
// so three products of them have the digits of float32 but the last one or two. How tensor cores round sums is not
// documented.
//
// Rows and columns of fragments are those of the instruction mma.m16n8k8 (PTX ISA, "Matrix Fragments for
// mma.m16n8k8").
#ifndef BCRF_CUDA_FRAGMENTS_CUH
#define BCRF_CUDA_FRAGMENTS_CUH
#include "block.cuh"

// The sum of two TF32 numbers, whose bits are those of float32.
struct Split {
    unsigned high, low;
};

// The statements are volatile because the parts of exp(w) would otherwise stay in registers, and there are too few.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline unsigned to_tf32(float x) {
    unsigned bits;
    asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// Add the product of a (16, 8) and b (8, 8) to d (16, 8). All threads of a warp call it.
__device__ inline void add_product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
// The same without these instructions: on older GPUs, slowly, and on the host.
__device__ inline unsigned to_tf32(float x) {
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+f"(x));
#endif
    const unsigned bits = __float_as_uint(x), exponent = 0x7f800000u;
    // Ties go away from 0. NaN and infinity stay.
    return (bits & exponent) == exponent ? bits : (bits + 0x1000u) & ~0x1fffu;
}

// Thread 4 g + m of a warp has rows g and g + 8. It has columns m and m + 4 of a, the same rows of b, and columns 2 m
// and 2 m + 1 of d.
__device__ inline void add_product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    const int group = threadIdx.x % WARP / 4, member = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int half = k / 4, from = group * 4 + k % 4, to = member * 8 + k % 4;
        const unsigned x[2] = {__shfl_sync(ALL_LANES, a[2 * half], from),
                               __shfl_sync(ALL_LANES, a[2 * half + 1], from)};
        const unsigned y[2] = {__shfl_sync(ALL_LANES, b[half], to), __shfl_sync(ALL_LANES, b[half], to + 4)};
#pragma unroll
        for (int c = 0; c < 4; ++c) d[c] += __uint_as_float(x[c / 2]) * __uint_as_float(y[c % 2]);
    }
}
#endif

// An infinite number gives NaN, which the checks of the range refuse.
__device__ inline Split split(float x) {
    const unsigned high = to_tf32(x);
    return {high, to_tf32(x - __uint_as_float(high))};
}

// exp(w) and its transpose (tags, tags), padded to COLUMNS. The warps of a block share the column tiles of both.
template <int COLUMNS, int BLOCK_WARPS>
struct Fragments {
    static constexpr int ROWS = 16, TILES = COLUMNS / 8;
    static constexpr int JOBS = (2 * TILES + BLOCK_WARPS - 1) / BLOCK_WARPS;  // tiles of a warp
    float k[JOBS][TILES][2];

    // The column tile of a job, counted over both matrices.
    static __device__ int tile(int job) { return threadIdx.x / WARP + job * BLOCK_WARPS; }

    __device__ void load(const float* matrix, const float* transposed, int tags) {
        const int row = threadIdx.x % 4, column = threadIdx.x % WARP / 4;
#pragma unroll
        for (int job = 0; job < JOBS; ++job) {
            const float* from = tile(job) < TILES ? matrix : transposed;
            const int t = tile(job) % TILES * 8 + column;
#pragma unroll
            for (int i = 0; i < TILES; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int u = i * 8 + half * 4 + row;
                    const bool exists = tile(job) < 2 * TILES && u < tags && t < tags;
                    k[job][i][half] = exists ? from[u * tags + t] : 0.f;
                }
        }
    }

    // Set out (2, ROWS, STRIDE): row r of the first is x(r) exp(w), and of the second y(r) exp(w)^T. x(r) and y(r)
    // are rows of COLUMNS numbers.
    template <int STRIDE, class X, class Y>
    __device__ void product(float* out, X x, Y y) const {
        const int group = threadIdx.x % WARP / 4, member = threadIdx.x % 4;
#pragma unroll
        for (int job = 0; job < JOBS; ++job) {
            if (tile(job) >= 2 * TILES) break;
            const bool first = tile(job) < TILES;
            const float *above = first ? x(group) : y(group), *below = first ? x(group + 8) : y(group + 8);
            float d[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < TILES; ++i) {
                const int u = i * 8 + member;
                const float from[4] = {above[u], below[u], above[u + 4], below[u + 4]};
                unsigned high[4], low[4], k_high[2], k_low[2];
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    const Split parts = split(from[c]);
                    high[c] = parts.high, low[c] = parts.low;
                }
#pragma unroll
                for (int c = 0; c < 2; ++c) {
                    const Split parts = split(k[job][i][c]);
                    k_high[c] = parts.high, k_low[c] = parts.low;
                }
                // Small products first.
                add_product(d, low, k_high);
                add_product(d, high, k_low);
                add_product(d, high, k_high);
            }
            float* to = out + (first ? 0 : ROWS * STRIDE) + tile(job) % TILES * 8 + 2 * member;
            to[group * STRIDE] = d[0], to[group * STRIDE + 1] = d[1];
            to[(group + 8) * STRIDE] = d[2], to[(group + 8) * STRIDE + 1] = d[3];
        }
    }
};

#endif
