// Mean field: one parallel update of all tokens, and its backward pass. One block a token, unless a
// kernel says otherwise. Transitions w are 0 where they are forbidden.
#include "messages.cuh"

// Sum the messages to a tag of token i from its neighbors' rows of x.
__device__ Real messages(long long i, int t, const Real* x, const Real* w, const Real* transposed,
                         bool is_first, bool is_last, int tags, long long stride) {
    Real sum = 0;
    if (!is_first) sum += message_in(x + (i - 1) * tags, w + (i - 1) * stride, t, tags);
    if (!is_last) sum += message_out(x + (i + 1) * tags, w + i * stride, transposed, t, tags);
    return sum;
}

// out = softmax(unary + messages of r), or softmax(unary) if r is null.
// terms (N,), or null: -log out[gold], or the entropy of out if gold is null.
// failed[b]: a token has no allowed tag.
KERNEL update(const Real* unary, const Real* w, const Real* transposed, const Real* r,
              const int* sequence_ids, const long long* starts, const int* lengths, Real* out,
              const int* gold, double* terms, int* failed, int tags, long long stride) {
    double* scratch = shared_memory;
    Real* logits = (Real*)(scratch + blockDim.x);
    const long long i = blockIdx.x;
    const int b = sequence_ids[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    Real top = -infinity(), total = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        logits[t] = unary[i * tags + t];
        if (r) logits[t] += messages(i, t, r, w, transposed, is_first, is_last, tags, stride);
        top = larger(top, logits[t]);
    }
    top = largest_of(top, (Real*)scratch);
    const bool feasible = !(top == -infinity());
    if (!feasible && threadIdx.x == 0) failed[b] = 1;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        out[i * tags + t] = feasible ? exp(logits[t] - top) : Real(0);
        total += out[i * tags + t];
    }
    total = sum_of(total, (Real*)scratch);
    const double z = top + log(double(total));
    double entropy = 0;
    for (int t = threadIdx.x; t < tags && feasible; t += blockDim.x) {
        const Real p = out[i * tags + t] /= total;
        if (p > 0) entropy += p * (z - logits[t]);
    }
    if (!terms) return;
    entropy = sum_of(entropy, scratch);
    if (threadIdx.x) return;
    if (gold) terms[i] = feasible && gold[i] >= 0 ? z - logits[gold[i]] : 0;
    // 0 * z is NaN if the logits are.
    else
        terms[i] = feasible ? entropy + 0 * z : 0;
}

// Add each token's part of <w, r> to its term. The edge counts for its later token.
KERNEL add_expected_scores(const Real* unary, const Real* w, const int* sequence_ids,
                           const long long* starts, const Real* r, double* terms, int tags,
                           long long stride) {
    double* scratch = shared_memory;
    const long long i = blockIdx.x;
    const bool is_first = i == starts[sequence_ids[i]];
    double score = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real p = r[i * tags + t];
        if (!(p > 0)) continue;
        score += p * unary[i * tags + t];
        if (!is_first) score += p * message_in(r + (i - 1) * tags, w + (i - 1) * stride, t, tags);
    }
    score = sum_of(score, scratch);
    if (threadIdx.x == 0) terms[i] += score;
}

// delta = r - onehot(gold), the gradient of the logits of the last update; 0 for tokens without gold.
// gradient, of the unary scores, starts with it.
KERNEL start_backward(const Real* r, const int* gold, const int* sequence_ids, const int* failed,
                      Real* delta, Real* gradient, int tags) {
    const long long i = blockIdx.x;
    const bool known = gold[i] >= 0 && !failed[sequence_ids[i]];
    for (int t = threadIdx.x; t < tags; t += blockDim.x)
        gradient[i * tags + t] = delta[i * tags + t] =
            known ? r[i * tags + t] - Real(t == gold[i]) : Real(0);
}

// out: the gradient of the logits of iterate r, from delta, the gradient of the next logits. The
// kernel also adds it to `gradient`.
KERNEL backward(const Real* w, const Real* transposed, const Real* r, const Real* delta,
                const int* sequence_ids, const long long* starts, const int* lengths, Real* out,
                Real* gradient, int tags, long long stride) {
    Real *by_r = (Real*)shared_memory, *scratch = by_r + tags;
    const long long i = blockIdx.x;
    const int b = sequence_ids[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    Real mean = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        by_r[t] = messages(i, t, delta, w, transposed, is_first, is_last, tags, stride);
        mean += r[i * tags + t] * by_r[t];
    }
    mean = sum_of(mean, scratch);
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real d = r[i * tags + t] * (by_r[t] - mean);
        out[i * tags + t] = d;
        gradient[i * tags + t] += d;
    }
}

// each (N, tags, tags): gradients of the transitions of each edge; 0 in the rows of last tokens.
// r and delta (n, N, tags): the iterates, and the gradients of the logits of the next iterate.
KERNEL edge_gradients(const Real* r, const Real* delta, const int* sequence_ids,
                      const long long* starts, const int* lengths, Real* each, int n, long long tokens,
                      int tags) {
    const long long i = blockIdx.x;
    const int b = sequence_ids[i];
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

// Sum the terms of each sequence; -inf if it has no allowed labeling. One block a sequence.
KERNEL values(const double* terms, const long long* starts, const int* lengths, const int* failed,
              Score* value) {
    const int b = blockIdx.x;
    double total = 0;
    for (int k = threadIdx.x; k < lengths[b]; k += blockDim.x) total += terms[starts[b] + k];
    total = sum_of(total, shared_memory);
    if (threadIdx.x == 0) value[b] = failed[b] ? Score(-infinity()) : Score(total);
}
