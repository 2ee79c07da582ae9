// Between neighbouring tokens, all tokens at once.
#include "block.cuh"

// The sums over the tags u of one token of x[u] k[u, t], for a tag t of the next.
__device__ Real into(const Real* x, const Real* k, int t, int tags) {
    Real sum = 0;
    for (int u = 0; u < tags; ++u) sum += x[u] * k[(long long)u * tags + t];
    return sum;
}

// And over the tags v of the next, of k[t, v] x[v].
__device__ Real out_of(const Real* x, const Real* k, int t, int tags) {
    Real sum = 0;
    for (int v = 0; v < tags; ++v) sum += k[(long long)t * tags + v] * x[v];
    return sum;
}
