// The values of sequences after the forward-backward algorithm. A sequence fails if its scores exceed
// the range of probability space. This file computes it again in log space and double precision.
#include "gold.cuh"

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

// What `log_chain` sets, see `values`. Pointers may be null.
struct Results {
    Real *left, *right;
    Score *marginals, *each;
    double* sums;
    Score* out;
    const int *heads, *tails;
    int n;
    bool entropies;
};

// Return the log-partition of one sequence, or its entropy. Set the results, or subtract the
// marginals from them if `scores` are restricted. rows: 2 tags doubles in shared memory.
__device__ double log_chain(const Scores& scores, const Score* transitions, long long first,
                            int length, double* alpha, const Results& to, double* rows,
                            double* scratch, long long stride) {
    const int tags = scores.gold.tags, n = to.n;
    const bool subtract = scores.restricted;
    const long long last = first + length - 1;
    const double shift = log_forward(scores, transitions, first, length, alpha, tags, stride, scratch);
    const double z = log_sum(tags, [&](int t) { return alpha[last * tags + t]; });
    const bool feasible = z > -infinity(), edges = to.sums || to.each || to.entropies,
               needs_pairs = edges || n > 0;
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
            for (int v = 0; v < tags && needs_pairs && i < last; ++v)
                top = larger(top, here[t] + onward(t, v));
        }
        if (needs_pairs && i < last) {
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
            if (to.marginals) {
                Score& x = to.marginals[i * tags + t];
                x = subtract ? x - Score(p) : Score(p);
            }
            if (p > 0 && i == first) h += p * (log(mass) - (here[t] + beta[t] - most));
            if (to.left) to.left[i * tags + t] = to.right[i * tags + t] = 0;
            for (int v = 0; v < tags && edges && i < last; ++v) {
                const double q = feasible ? exp(here[t] + onward(t, v) - top) / total : 0;
                if (q > 0) h += q * (beta[t] - onward(t, v));
                if (q > 0 && to.sums) atomicAdd(&to.sums[t * tags + v], subtract ? -q : q);
                if (!to.each) continue;
                Score& x = to.each[(i * tags + t) * tags + v];
                x = subtract ? x - Score(q) : Score(q);
            }
        }
        for (int m = threadIdx.x; m < n; m += blockDim.x) {
            const int u = to.heads[m], v = to.tails[m];
            const bool exists = i < last && feasible;
            to.out[i * n + m] = exists ? Score(exp(here[u] + onward(u, v) - top) / total) : Score(0);
        }
        // beta may lose a factor, because each token has a normalizer of its own.
        subtract_largest(beta, tags, scratch);
    }
    if (to.entropies) h = larger(sum_of(h, scratch), 0.0);
    return feasible && to.entropies ? h : shift + z;
}

// One block a sequence. logs (N,): parts of the values. left, right (N, tags): the factors of the edge
// marginals; cleared in failed sequences. entropies: whether the value is the entropy, not the
// log-partition. marginals (N, tags), each (N, tags, tags), sums (tags, tags) and out (N, n), for the
// pairs (heads, tails), may be null. alpha (N, tags) is workspace.
// shared memory: (2 tags + threads) doubles.
KERNEL values(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* failed, const double* logs, double* alpha, Real* left,
              Real* right, Score* value, Score* marginals, Score* each, double* sums, Score* out,
              const int* heads, const int* tails, int n, int tags, long long stride, int entropies) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b];
    double x = 0;
    if (!failed[b]) {
        for (int k = threadIdx.x; k < length; k += blockDim.x) x += logs[first + k];
        x = sum_of(x, scratch);
        if (entropies && x < 0) x = 0;
    } else {
        const Scores scores{unary, {nullptr, nullptr, tags}, false};
        const Results to{left, right, marginals, each, sums, out, heads, tails, n, bool(entropies)};
        x = log_chain(scores, transitions, first, length, alpha, to, rows, scratch, stride);
    }
    if (threadIdx.x == 0) value[b] = Score(x);
}

// After `crf`: compute its failed sequences again, and set the values (B,), log-partitions without
// gold and losses with it. Subtract the features of complete gold. The last block sets edges from
// sums, both (tags, tags) or null. parts (2, B): log-partitions of `crf`. alpha (N, tags): workspace.
// errors: see Problem. counter: of finished blocks, 0 before.
// shared memory: (2 tags + threads) doubles.
KERNEL finish(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* gold, const signed char* allowed, const double* parts,
              const int* failed, double* alpha, Score* value, Score* marginals, Score* each,
              double* sums, Score* edges, int* errors, int* counter, int size, int tags,
              long long stride) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b];
    const Gold annotation{gold, allowed, tags};
    const GoldKind kind = annotation.kind(first, length, (int*)scratch);
    double free = 0, target = 0;
    if (length > 0 && failed[b]) {
        const Results to{nullptr, nullptr, marginals, each, sums, nullptr, nullptr, nullptr, 0, false};
        free = log_chain({unary, annotation, false}, transitions, first, length, alpha, to, rows,
                         scratch, stride);
        __syncthreads();
        if (kind == PARTIAL)
            target = log_chain({unary, annotation, true}, transitions, first, length, alpha, to, rows,
                               scratch, stride);
        __syncthreads();
    } else if (length > 0) {
        free = parts[b];
        if (kind == PARTIAL) target = parts[size + b];
    }
    finish_loss(annotation, kind, transitions, unary, first, length, free, target, value, marginals,
                each, sums, errors, scratch, stride);
    convert_sums(sums, edges, tags, counter);
}
