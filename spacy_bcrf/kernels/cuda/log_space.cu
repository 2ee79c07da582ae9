// The values of sequences after the forward-backward algorithm. A sequence fails if its scores exceed
// the range of probability space. This file computes it again in log space and double precision.
#include "gold.cuh"
#include "outputs.cuh"

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
__device__ double log_forward(const Scores& scores, const Score* transitions, long long first,
                              int length, double* alpha, int tags, long long stride, double* scratch) {
    double shift = 0;
    for (int k = 0; k < length; ++k) {
        const long long i = first + k;
        const Score* w = transitions + (i - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            double x = scores(i, t);
            if (k > 0)
                x += log_sum(tags, [&](int u) { return alpha[(i - 1) * tags + u] + w[u * tags + t]; });
            alpha[i * tags + t] = x;
        }
        shift += subtract_largest(alpha + i * tags, tags, scratch);
    }
    return shift;
}

// Return the log-partition of one sequence, or with to.entropies its entropy. Visit each token and
// edge. rows: 2 tags doubles in shared memory.
__device__ double log_chain(const Scores& scores, const Score* transitions, long long first,
                            int length, double* alpha, const Outputs& to, double* rows,
                            double* scratch, long long stride) {
    const int tags = to.tags;
    const long long last = first + length - 1;
    const double shift = log_forward(scores, transitions, first, length, alpha, tags, stride, scratch);
    const double z = log_sum(tags, [&](int t) { return alpha[last * tags + t]; });
    const bool feasible = z > -infinity();
    // This thread's part of the entropy: H(first tag), and H(tag | previous tag) of the other tokens.
    double h = 0;
    for (long long i = last; i >= first; --i) {
        double *beta = rows + (i % 2) * tags, *next = rows + ((i + 1) % 2) * tags;
        const double* here = alpha + i * tags;
        const Score* w = transitions + i * stride;
        // The score of an edge's tags, minus the largest one of the edge.
        double top = -infinity(), total = 0;
        const auto onward = [&](int t, int v) {
            return double(w[(long long)t * tags + v]) + (scores(i + 1, v) + next[v]);
        };
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            beta[t] = i < last ? log_sum(tags, [&](int v) { return onward(t, v); }) : 0;
            for (int v = 0; v < tags && to.has_edges() && i < last; ++v)
                top = larger(top, here[t] + onward(t, v));
        }
        if (to.has_edges() && i < last) {
            top = largest_of(top, scratch);
            for (int t = threadIdx.x; t < tags; t += blockDim.x)
                for (int v = 0; v < tags && feasible; ++v) total += exp(here[t] + onward(t, v) - top);
            total = sum_of(total, scratch);
        }
        __syncthreads();
        // Rounding errors of large scores cancel in the normalizers of this token and edge.
        double most = -infinity(), mass = 0;
        for (int t = 0; t < tags; ++t) most = larger(most, here[t] + beta[t]);
        for (int t = 0; t < tags && feasible; ++t) mass += exp(here[t] + beta[t] - most);
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const double p = feasible ? exp(here[t] + beta[t] - most) / mass : 0;
            to.tag(i, t, Score(p));
            if (p > 0 && i == first) h += p * (log(mass) - (here[t] + beta[t] - most));
        }
        if (i == last)
            to.last(i);
        else
            to.edge(
                i, [&](int u, int v) { return feasible ? exp(here[u] + onward(u, v) - top) / total : 0; },
                [&](int u, int v, double q) { h += q * (beta[u] - onward(u, v)); });
        // beta may lose a factor, because each token has a normalizer of its own.
        subtract_largest(beta, tags, scratch);
    }
    if (to.entropies) h = larger(sum_of(h, scratch), 0.0);
    return feasible && to.entropies ? h : shift + z;
}

// After `forward_backward`: compute its failed sequences again, and set the values (B,): losses with
// gold, else log-partitions or entropies. Subtract the features of complete gold. The last block
// sets edges from sums, both (tags, tags) or null.
// values (2, tiles): the values of `forward_backward`. With firsts and counts, sequence b has
// counts[b] tiles from firsts[b] on; if these are null, one. left, right (N, tags), or null: the
// factors of the edge marginals; cleared in failed sequences. alpha (N, tags): workspace.
// errors: see Problem. counter: of finished blocks, 0 before. Other results: see Outputs.
// shared memory: (2 tags + threads) doubles.
KERNEL finish(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* gold, const signed char* allowed, const double* values,
              const long long* firsts, const int* counts, const int* failed, double* alpha, Real* left,
              Real* right, Score* value, Score* marginals, Score* each, double* sums, Score* pairs,
              const int* heads, const int* tails, int n, int entropies, Score* edges, int* errors,
              int* counter, int tags, long long stride) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b];
    const Gold annotation{gold, allowed, tags};
    const GoldKind kind = annotation.kind(first, length, (int*)scratch);
    double free = 0, target = 0;
    if (length > 0 && failed[b]) {
        Outputs to{tags, marginals, each, sums, pairs, heads, tails, n, bool(entropies), false};
        free = log_chain({unary, annotation, false}, transitions, first, length, alpha, to, rows,
                         scratch, stride);
        __syncthreads();
        to.subtract = true;
        if (kind == PARTIAL)
            target = log_chain({unary, annotation, true}, transitions, first, length, alpha, to, rows,
                               scratch, stride);
        clear_factors(left, right, first, length, tags);
        __syncthreads();
    } else if (length > 0) {
        free = sum_tiles(values, firsts, counts);
        if (entropies && free < 0) free = 0;
        if (kind == PARTIAL) target = values[gridDim.x + b];
    }
    finish_loss(annotation, kind, transitions, unary, first, length, free, target, value, marginals,
                each, sums, errors, scratch, stride);
    convert_sums(sums, edges, tags, counter);
}
