// Messages to a tag from the row of a neighboring token, through exp(w) in memory.
#ifndef BCRF_CUDA_MESSAGES_CUH
#define BCRF_CUDA_MESSAGES_CUH
#include "block.cuh"

// sum_u x[u] k[u, t]: the message to tag t from the previous token's row x.
__device__ Real message_in(const Real* x, const Real* k, int t, int tags) {
    Real sum = 0;
    for (int u = 0; u < tags; ++u) sum += x[u] * k[(long long)u * tags + t];
    return sum;
}

// sum_v k[t, v] x[v]: the message to tag t from the next token's row x.
// transposed: the matrix k^T, whose columns adjacent threads read together; or null.
__device__ Real message_out(const Real* x, const Real* k, const Real* transposed, int t, int tags) {
    if (transposed) return message_in(x, transposed, t, tags);
    Real sum = 0;
    for (int v = 0; v < tags; ++v) sum += k[(long long)t * tags + v] * x[v];
    return sum;
}

#endif
