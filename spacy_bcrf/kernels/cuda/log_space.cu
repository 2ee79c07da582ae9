// The values of sequences after the forward-backward algorithm. A sequence fails if its scores exceed
// the range of probability space. This file computes it again in log space and double precision.
#include "block.cuh"

// alpha (N, tags): log of the forward weights.
__device__ void log_forward(const Score* unary, const Score* transitions, long long first, int length,
                            double* alpha, int tags, long long stride) {
    for (int k = 0; k < length; ++k) {
        const long long i = first + k;
        const Score* w = transitions + (i - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            double x = unary[i * tags + t];
            if (k > 0)
                x += log_sum(tags, [&](int u) { return alpha[(i - 1) * tags + u] + w[u * tags + t]; });
            alpha[i * tags + t] = x;
        }
        __syncthreads();
    }
}

// One block a sequence. logs (N,): parts of the values. left, right (N, tags): the factors of the edge
// marginals; cleared in failed sequences. entropies: whether the value is the entropy, not the
// log-partition. marginals (N, tags), each (N, tags, tags), sums (tags, tags) and out (N, n), for the
// pairs (heads, tails), may be null. alpha (N, tags) is workspace.
// shared memory: (2 tags + threads) doubles.
KERNEL values(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* failed, const double* logs, double* alpha, Real* left,
              Real* right, Score* value, Score* marginals, Score* each, double* sums, Score* out,
              const int* heads, const int* tails, int n, int tags, long long stride,
              int entropies) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b], last = first + length - 1;
    double x = 0;
    if (!failed[b]) {
        for (int k = threadIdx.x; k < length; k += blockDim.x) x += logs[first + k];
        x = sum_of(x, scratch);
        if (threadIdx.x == 0) value[b] = Score(entropies && x < 0 ? 0 : x);
        return;
    }
    log_forward(unary, transitions, first, length, alpha, tags, stride);
    const double z = log_sum(tags, [&](int t) { return alpha[last * tags + t]; });
    const bool feasible = z > -infinity(), edges = sums || each || entropies;
    // This thread's part of the entropy: H(first tag), and H(tag | previous tag) of the other tokens.
    double h = 0;
    for (long long i = last; i >= first; --i) {
        double *beta = rows + (i % 2) * tags, *next = rows + ((i + 1) % 2) * tags;
        const Score *w = transitions + i * stride, *next_unary = unary + (i + 1) * tags;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const double a = alpha[i * tags + t];
            const Score* from = w + (long long)t * tags;
            double y = 0;
            if (i < last)
                y = log_sum(tags, [&](int v) { return double(from[v]) + next_unary[v] + next[v]; });
            beta[t] = y;
            const double p = feasible ? exp(a + y - z) : 0;
            if (marginals) marginals[i * tags + t] = Score(p);
            if (p > 0 && i == first) h += p * (z - a - y);
            left[i * tags + t] = right[i * tags + t] = 0;
            for (int v = 0; v < tags && edges && i < last; ++v) {
                const double q = feasible ? exp(a + from[v] + next_unary[v] + next[v] - z) : 0;
                if (q > 0) h += q * (y - (double(from[v]) + next_unary[v] + next[v]));
                if (q > 0 && sums) atomicAdd(&sums[t * tags + v], q);
                if (each) each[(i * tags + t) * tags + v] = Score(q);
            }
        }
        for (int m = threadIdx.x; m < n; m += blockDim.x) {
            const int u = heads[m], v = tails[m];
            const bool exists = i < last && feasible;
            const double q =
                exists ? alpha[i * tags + u] + w[u * tags + v] + next_unary[v] + next[v] : 0;
            out[i * n + m] = exists ? Score(exp(q - z)) : Score(0);
        }
        __syncthreads();
    }
    if (entropies) h = larger(sum_of(h, scratch), 0.0);
    if (threadIdx.x == 0) value[b] = Score(feasible && entropies ? h : z);
}
