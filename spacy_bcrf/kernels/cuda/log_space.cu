// The values of sequences after the forward-backward algorithm. A sequence fails if its scores exceed
// the range of probability space. This file computes it again in log space and double precision.
#include "block.cuh"

// Subtract the largest number of a row from all. Return it, or 0 if all are -inf. All threads call it.
__device__ double subtract_largest(double* row, int tags, double* scratch) {
    __syncthreads();
    double top = -infinity();
    for (int t = threadIdx.x; t < tags; t += blockDim.x) top = larger(top, row[t]);
    top = largest_of(top, scratch);
    if (top == -infinity()) return 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) row[t] -= top;
    __syncthreads();
    return top;
}

// alpha (N, tags): log of the forward weights, minus the largest one of the token. Return the sum of
// the subtracted numbers.
__device__ double log_forward(const Score* unary, const Score* transitions, long long first,
                              int length, double* alpha, int tags, long long stride,
                              double* scratch) {
    double shift = 0;
    for (int k = 0; k < length; ++k) {
        const long long i = first + k;
        const Score* w = transitions + (i - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            double x = unary[i * tags + t];
            if (k > 0)
                x += log_sum(tags, [&](int u) { return alpha[(i - 1) * tags + u] + w[u * tags + t]; });
            alpha[i * tags + t] = x;
        }
        shift += subtract_largest(alpha + i * tags, tags, scratch);
    }
    return shift;
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
    const double shift =
        log_forward(unary, transitions, first, length, alpha, tags, stride, scratch);
    const double z = log_sum(tags, [&](int t) { return alpha[last * tags + t]; });
    const bool feasible = z > -infinity(), edges = sums || each || entropies,
               needs_pairs = edges || n > 0;
    // This thread's part of the entropy: H(first tag), and H(tag | previous tag) of the other tokens.
    double h = 0;
    for (long long i = last; i >= first; --i) {
        double *beta = rows + (i % 2) * tags, *next = rows + ((i + 1) % 2) * tags;
        const double* here = alpha + i * tags;
        const Score *w = transitions + i * stride, *next_unary = unary + (i + 1) * tags;
        // The score of an edge's tags, minus the largest one of the edge.
        double top = -infinity(), total = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const Score* from = w + (long long)t * tags;
            const auto onward = [&](int v) { return double(from[v]) + (next_unary[v] + next[v]); };
            beta[t] = i < last ? log_sum(tags, onward) : 0;
            for (int v = 0; v < tags && needs_pairs && i < last; ++v)
                top = larger(top, here[t] + onward(v));
        }
        if (needs_pairs && i < last) {
            top = largest_of(top, scratch);
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                const Score* from = w + (long long)t * tags;
                for (int v = 0; v < tags && feasible; ++v)
                    total += exp(here[t] + (double(from[v]) + (next_unary[v] + next[v])) - top);
            }
            total = sum_of(total, scratch);
        }
        __syncthreads();
        // Rounding errors of large scores cancel in the normalizers of this token and edge.
        const double z_here = log_sum(tags, [&](int t) { return here[t] + beta[t]; });
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const Score* from = w + (long long)t * tags;
            const double p = feasible ? exp(here[t] + beta[t] - z_here) : 0;
            if (marginals) marginals[i * tags + t] = Score(p);
            if (p > 0 && i == first) h += p * (z_here - here[t] - beta[t]);
            left[i * tags + t] = right[i * tags + t] = 0;
            for (int v = 0; v < tags && edges && i < last; ++v) {
                const double onward = double(from[v]) + (next_unary[v] + next[v]);
                const double q = feasible ? exp(here[t] + onward - top) / total : 0;
                if (q > 0) h += q * (beta[t] - onward);
                if (q > 0 && sums) atomicAdd(&sums[t * tags + v], q);
                if (each) each[(i * tags + t) * tags + v] = Score(q);
            }
        }
        for (int m = threadIdx.x; m < n; m += blockDim.x) {
            const int u = heads[m], v = tails[m];
            const bool exists = i < last && feasible;
            const double onward = exists ? double(w[u * tags + v]) + (next_unary[v] + next[v]) : 0;
            out[i * n + m] = exists ? Score(exp(here[u] + onward - top) / total) : Score(0);
        }
        // beta may lose a factor, because each token has a normalizer of its own.
        subtract_largest(beta, tags, scratch);
    }
    if (entropies) h = larger(sum_of(h, scratch), 0.0);
    if (threadIdx.x == 0) value[b] = Score(feasible && entropies ? h : shift + z);
}
