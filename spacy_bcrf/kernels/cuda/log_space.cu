// The end of forward-backward: values of sequences, and those again in log space and double
// precision whose scores span more than the fast passes can represent.
#include "block.cuh"


// alpha (N, tags): log of the weight of all prefixes of a sequence that end in a tag.
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

// One block a sequence. logs (N,): parts of the values. left, right (N, tags): cleared where
// nothing is to be read from them. entropies: whether the value is the entropy, else log Z.
// shared memory: (2 tags + threads) doubles.
KERNEL conclude(const Score* unary, const Score* transitions, const long long* starts,
                const int* lengths, const int* failed, const double* logs, double* alpha,
                Real* left, Real* right, Score* value, Score* node, Score* each, double* sums,
                Score* pairs, const int* heads, const int* tails, int n, int tags, long long stride,
                int entropies) {
    double *rows = shared_memory, *slots = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b], last = first + length - 1;
    double x = 0;
    if (!failed[b]) {
        for (int k = threadIdx.x; k < length; k += blockDim.x) x += logs[first + k];
        x = sum_of(x, slots);
        if (threadIdx.x == 0) value[b] = Score(entropies && x < 0 ? 0 : x);
        return;
    }
    log_forward(unary, transitions, first, length, alpha, tags, stride);
    const double z = log_sum(tags, [&](int t) { return alpha[last * tags + t]; });
    const bool possible = z > -infinity(), arcs = sums || each || entropies;
    double h = 0;  // this thread's part of the entropy: of each tag given the one before
    for (long long i = last; i >= first; --i) {
        double *beta = rows + (i % 2) * tags, *next = rows + ((i + 1) % 2) * tags;
        const Score *w = transitions + i * stride, *u_next = unary + (i + 1) * tags;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const double a = alpha[i * tags + t];
            const Score* from = w + (long long)t * tags;
            double y = 0;
            if (i < last)
                y = log_sum(tags, [&](int v) { return double(from[v]) + u_next[v] + next[v]; });
            beta[t] = y;
            const double p = possible ? exp(a + y - z) : 0;
            if (node) node[i * tags + t] = Score(p);
            if (p > 0 && i == first) h += p * (z - a - y);
            left[i * tags + t] = right[i * tags + t] = 0;
            for (int v = 0; v < tags && arcs && i < last; ++v) {
                const double q = possible ? exp(a + from[v] + u_next[v] + next[v] - z) : 0;
                if (q > 0) h += q * (y - (double(from[v]) + u_next[v] + next[v]));
                if (q > 0 && sums) atomicAdd(&sums[t * tags + v], q);
                if (each) each[(i * tags + t) * tags + v] = Score(q);
            }
        }
        for (int m = threadIdx.x; m < n; m += blockDim.x) {
            const int u = heads[m], v = tails[m];
            const bool there = i < last && possible;
            const double q = there ? alpha[i * tags + u] + w[u * tags + v] + u_next[v] + next[v] : 0;
            pairs[i * n + m] = there ? Score(exp(q - z)) : Score(0);
        }
        __syncthreads();
    }
    if (entropies) h = larger(sum_of(h, slots), 0.0);
    if (threadIdx.x == 0) value[b] = Score(possible && entropies ? h : z);
}
