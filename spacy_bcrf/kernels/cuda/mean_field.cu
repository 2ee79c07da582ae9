// Mean field, one update of all tokens at once, and back through the updates. One block a token.
// Transitions are 0 for what is forbidden; where they are shared and have many tags, `before` and
// `after` are the rows r w and r w^T of all tokens, else null.
#include "messages.cuh"

// What a tag of token i gets from its neighbours' rows of x.
__device__ Real message(long long i, int t, const Real* x, const Real* w, const Real* before,
                        const Real* after, bool is_first, bool is_last, int tags,
                        long long stride) {
    Real sum = 0;
    if (!is_first)
        sum += before ? before[(i - 1) * tags + t]
                      : into(x + (i - 1) * tags, w + (i - 1) * stride, t, tags);
    if (!is_last)
        sum += after ? after[(i + 1) * tags + t]
                     : out_of(x + (i + 1) * tags, w + i * stride, t, tags);
    return sum;
}

// out = softmax(unary + messages of r), of unary alone if r is null. costs (N,), or null: of the
// token in gold, -log out; without gold (null) its entropy. failed[b]: some token has no tag allowed.
KERNEL update(const Real* unary, const Real* w, const Real* r, const Real* before,
              const Real* after, const int* owners, const long long* starts, const int* lengths,
              Real* out, const int* gold, double* costs, int* failed, int tags, long long stride) {
    double* slots = shared_memory;
    Real* logits = (Real*)(slots + blockDim.x);
    const long long i = blockIdx.x;
    const int b = owners[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    Real top = -infinity(), total = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        logits[t] = unary[i * tags + t];
        if (r) logits[t] += message(i, t, r, w, before, after, is_first, is_last, tags, stride);
        top = larger(top, logits[t]);
    }
    top = largest_of(top, (Real*)slots);
    const bool possible = !(top == -infinity());
    if (!possible && threadIdx.x == 0) failed[b] = 1;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        out[i * tags + t] = possible ? exp(logits[t] - top) : Real(0);
        total += out[i * tags + t];
    }
    total = sum_of(total, (Real*)slots);
    const double z = top + log(double(total));
    double entropy = 0;
    for (int t = threadIdx.x; t < tags && possible; t += blockDim.x) {
        const Real p = out[i * tags + t] /= total;
        if (p > 0) entropy += p * (z - logits[t]);
    }
    if (!costs) return;
    entropy = sum_of(entropy, slots);
    if (threadIdx.x) return;
    if (gold) costs[i] = possible && gold[i] >= 0 ? z - logits[gold[i]] : 0;
    else costs[i] = possible ? entropy + 0 * z : 0;  // NaN if the logits are
}

// Adds <w, r> to each token's entropy, that of an edge to the later token's.
KERNEL expect(const Real* unary, const Real* w, const Real* before, const int* owners,
              const long long* starts, const Real* r, double* costs, int tags, long long stride) {
    double* slots = shared_memory;
    const long long i = blockIdx.x;
    const int b = owners[i];
    const bool is_first = i == starts[b];
    double score = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real p = r[i * tags + t];
        if (!(p > 0)) continue;
        score += p * unary[i * tags + t];
        if (!is_first)
            score += p * (before ? before[(i - 1) * tags + t]
                                 : into(r + (i - 1) * tags, w + (i - 1) * stride, t, tags));
    }
    score = sum_of(score, slots);
    if (threadIdx.x == 0) costs[i] += score;
}

// delta = r - gold's indicator, the gradient by the logits of the last update; 0 without gold.
KERNEL begin_back(const Real* r, const int* gold, const int* owners, const int* failed,
                  Real* delta, Real* node, int tags) {
    const long long i = blockIdx.x;
    const bool known = gold[i] >= 0 && !failed[owners[i]];
    for (int t = threadIdx.x; t < tags; t += blockDim.x)
        node[i * tags + t] = delta[i * tags + t] =
            known ? r[i * tags + t] - Real(t == gold[i]) : Real(0);
}

// out: the gradient by the logits of the iterate r, from delta, that of the next one; added to node.
KERNEL back(const Real* w, const Real* r, const Real* delta, const Real* before,
            const Real* after, const int* owners, const long long* starts, const int* lengths,
            Real* out, Real* node, int tags, long long stride) {
    Real *by_r = (Real*)shared_memory, *slots = by_r + tags;
    const long long i = blockIdx.x;
    const int b = owners[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    Real mean = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        by_r[t] = message(i, t, delta, w, before, after, is_first, is_last, tags, stride);
        mean += r[i * tags + t] * by_r[t];
    }
    mean = sum_of(mean, slots);
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real d = r[i * tags + t] * (by_r[t] - mean);
        out[i * tags + t] = d;
        node[i * tags + t] += d;
    }
}

// (N, tags, tags): gradients by the scores of each edge, over all n iterates r and deltas
// (n, N, tags), delta k being that after iterate k; zeros in the rows of last tokens.
KERNEL edges(const Real* r, const Real* delta, const int* owners, const long long* starts,
             const int* lengths, Real* each, int n, long long tokens, int tags) {
    const long long i = blockIdx.x;
    const int b = owners[i];
    const bool is_last = i == starts[b] + lengths[b] - 1;
    for (int k = threadIdx.x; k < tags * tags; k += blockDim.x) {
        Real sum = 0;
        const long long u = i * tags + k / tags, v = (i + 1) * tags + k % tags;
        for (int m = 0; m < n && !is_last; ++m) {
            const Real *x = r + m * tokens * tags, *d = delta + m * tokens * tags;
            sum += x[u] * d[v] + d[u] * x[v];
        }
        each[i * tags * tags + k] = sum;
    }
}

// Values of sequences from those of tokens, -inf where one is not possible. One block a sequence.
KERNEL totals(const double* costs, const long long* starts, const int* lengths,
              const int* failed, Score* value) {
    const int b = blockIdx.x;
    double total = 0;
    for (int k = threadIdx.x; k < lengths[b]; k += blockDim.x) total += costs[starts[b] + k];
    total = sum_of(total, shared_memory);
    if (threadIdx.x == 0) value[b] = failed[b] ? Score(-infinity()) : Score(total);
}
