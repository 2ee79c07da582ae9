// Along a sequence, one token after the other.
#include "block.cuh"

constexpr int STAGE = 16;  // rows of emissions fetched together: their latency is paid for once

// Walks one way along a sequence of `length` tokens from flat token `first` on, or backwards. At
// each tag of each token
//
//     row[t] = step(token, t, emission[t], row before, k, from)
//
// with scores of the arcs from u to t at k[u * from]; backwards the matrices are transposed. `ahead`
// is the row before the first token; where it is null, so is the row before in that step.
//
// shared memory: (2 + STAGE) rows of tags, and a matrix of tags rows of (tags | 1) if `staged`.
// Returns the last row.
template <class R, class Step>
__device__ const R* walk(const R* emission, const R* matrices, int tags, long long stride,
                         int staged, bool back, long long first, int length, const R* ahead,
                         Step step) {
    R *rows = (R*)shared_memory, *stage = rows + 2 * tags, *matrix = stage + STAGE * tags;
    const int width = staged ? tags | 1 : tags;  // odd, so that columns too lie in different banks
    if (staged)
        for (int k = threadIdx.x; k < tags * tags; k += blockDim.x)
            matrix[k / tags * width + k % tags] = matrices[k];
    if (ahead)
        for (int t = threadIdx.x; t < tags; t += blockDim.x) rows[tags + t] = ahead[t];
    const int from = back ? 1 : width, to = back ? width : 1;
    for (int k = 0; k < length; ++k) {
        const long long token = back ? first + length - 1 - k : first + k;
        if (k % STAGE == 0) {
            const int n = length - k < STAGE ? length - k : STAGE;
            const R* source = emission + (back ? token - n + 1 : token) * tags;
            for (int t = threadIdx.x; t < n * tags; t += blockDim.x)
                stage[back ? (n - 1 - t / tags) * tags + t % tags : t] = source[t];
            __syncthreads();
        }
        const R* before = k > 0 || ahead ? rows + (k + 1) % 2 * tags : nullptr;
        const R* m = staged ? matrix : matrices + (back ? token : token - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            rows[k % 2 * tags + t] = step(token, t, stage[k % STAGE * tags + t], before,
                                          m + (long long)t * to, from);
        __syncthreads();
    }
    return rows + (length + 1) % 2 * tags;
}
