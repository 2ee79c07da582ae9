// Shared by all kernels. A block computes one sequence, token or matrix. Its threads take tags in
// strides, so a block may have any number of threads. No CUDA headers: NVRTC compiles this text
// without an include path, and tests/kernels/cuda_host.hh compiles it for the CPU.
//
// Compile with -DBCRF_SCORE, the type of scores and results, and -DBCRF_REAL, the type of the inner
// loops. Each is float or double.
//
// A kernel takes one struct. device.py reads its fields here, and fills them by their names. Pointers may be null where
// a comment says so.
#ifndef BCRF_CUDA_BLOCK_CUH
#define BCRF_CUDA_BLOCK_CUH
#include "../shared/precision.hh"

typedef BCRF_SCORE Score;
typedef BCRF_REAL Real;

#define KERNEL extern "C" __global__ void

// The scores of a ragged batch: unary (tokens, tags), and transitions that begin at i * stride for the edge from flat
// token i to i + 1; stride is 0 if all edges share them. Sequence b has `lengths[b]` tokens from `starts[b]` on.
struct Batch {
    const Score *unary, *transitions;
    const long long* starts;
    const int* lengths;
    int tags;
    long long tokens, stride;

    __device__ long long matrix(long long edge) const { return stride ? edge : 0; }
};

// Aligned for doubles. Each kernel lays it out by hand.
extern __shared__ double shared_memory[];

__device__ inline double infinity() {
    return __longlong_as_double(0x7ff0000000000000LL);
}

// NaN if either argument is NaN: NaN scores must give NaN results.
template <class R>
__device__ R larger(R x, R y) {
    return x > y || x != x ? x : y;
}

template <class R>
__device__ R add(R x, R y) {
    return x + y;
}

[[maybe_unused]] constexpr int WARP = 32;
[[maybe_unused]] constexpr unsigned ALL_LANES = 0xffffffff;

// Return x of another thread of the warp. A number that is a struct has its own.
template <class R>
__device__ R shuffle(R x, int distance) {
    return __shfl_xor_sync(ALL_LANES, x, distance);
}

// Combine x of the threads of a warp. Each thread gets the same bits.
template <class R>
__device__ R combine_warp(R x, R (*combine)(R, R)) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x = combine(x, shuffle(x, distance));
    return x;
}

// Combine x of all threads, in an order that depends only on the number of threads, a multiple of
// WARP. Writes to memory before the call are visible to the block after it.
// scratch: one R for each warp.
template <class R>
__device__ R reduce(R x, R* scratch, R (*combine)(R, R)) {
    if (blockDim.x == WARP) {
        __syncwarp();
        return combine_warp(x, combine);
    }
    x = combine_warp(x, combine);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    R all = scratch[0];
    for (int w = 1; w < int(blockDim.x) / WARP; ++w) all = combine(all, scratch[w]);
    __syncthreads();
    return all;
}

template <class R>
__device__ R sum_of(R x, R* scratch) {
    return reduce<R>(x, scratch, add<R>);
}

template <class R>
__device__ R largest_of(R x, R* scratch) {
    return reduce<R>(x, scratch, larger<R>);
}

#endif
