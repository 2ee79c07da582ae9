// A recursion along a sequence, token by token.
#ifndef BCRF_CUDA_SCAN_CUH
#define BCRF_CUDA_SCAN_CUH
#include "block.cuh"

// Emission rows that a block fetches together, to pay their latency once.
constexpr int FETCHED_ROWS = 16;

// Scan `length` tokens from flat token `first` on, or backwards. At each tag of each token, compute
//
//     row[t] = step(token, t, emission[t], previous row, its sum, k, from)
//
// The arc from tag u to t has its score at k[u * from]; `backward` transposes the matrices.
// initial: the row ahead of the first token. If it is null, so is the previous row in the first step.
//
// shared memory: (2 + FETCHED_ROWS) rows of tags, and if `cached` a matrix of tags rows of (tags | 1),
// the shared transitions; if SUM, two numbers for each warp. Return the last row. The sum is 0
// unless SUM.
template <bool SUM, class R, class Step>
__device__ const R* scan(const R* emission, const R* matrices, int tags, long long stride, int cached,
                         bool backward, long long first, int length, const R* initial, Step step) {
    R *rows = (R*)shared_memory, *fetched = rows + 2 * tags, *matrix = fetched + FETCHED_ROWS * tags;
    // An odd width puts the cells of a column into different banks too.
    const int width = cached ? tags | 1 : tags;
    if (cached)
        for (int k = threadIdx.x; k < tags * tags; k += blockDim.x)
            matrix[k / tags * width + k % tags] = matrices[k];
    // Each warp adds its tags of a row, so that no thread adds all. Two rows take turns.
    R* parts = matrix + (cached ? tags * width : 0);
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    R part = 0;
    if (initial)
        for (int t = threadIdx.x; t < tags; t += blockDim.x) part += rows[tags + t] = initial[t];
    if (SUM && initial) {
        part = combine_warp(part, add<R>);
        if (threadIdx.x % WARP == 0) parts[warps + warp] = part;
    }
    const int from = backward ? 1 : width, to = backward ? width : 1;
    for (int k = 0; k < length; ++k) {
        const long long token = backward ? first + length - 1 - k : first + k;
        if (k % FETCHED_ROWS == 0) {
            const int n = length - k < FETCHED_ROWS ? length - k : FETCHED_ROWS;
            const R* source = emission + (backward ? token - n + 1 : token) * tags;
            for (int t = threadIdx.x; t < n * tags; t += blockDim.x)
                fetched[backward ? (n - 1 - t / tags) * tags + t % tags : t] = source[t];
            __syncthreads();
        }
        const R* previous = k > 0 || initial ? rows + (k + 1) % 2 * tags : nullptr;
        const R* m = cached ? matrix : matrices + (backward ? token : token - 1) * stride;
        R sum = 0;
        for (int w = 0; SUM && previous && w < warps; ++w) sum += parts[(k + 1) % 2 * warps + w];
        part = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            part += rows[k % 2 * tags + t] = step(token, t, fetched[k % FETCHED_ROWS * tags + t],
                                                  previous, sum, m + (long long)t * to, from);
        if (SUM) {
            part = combine_warp(part, add<R>);
            if (threadIdx.x % WARP == 0) parts[k % 2 * warps + warp] = part;
        }
        __syncthreads();
    }
    return rows + (length + 1) % 2 * tags;
}

#endif
