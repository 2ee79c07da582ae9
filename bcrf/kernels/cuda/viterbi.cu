// The Viterbi algorithm, and the scores and features of labelings.
#include "block.cuh"

// One block a sequence. backpointers (N, tags): a workspace, the best previous tag of each tag. best (N,): the best
// labeling. In a tie, the lowest tag wins, from the last token to the first. NaN wins: if the potentials contain
// it, the score of the labeling is NaN.
// shared memory: two rows of tags.
KERNEL max_product(const Score* unary, const Score* transitions, const long long* starts,
                   const int* lengths, unsigned short* backpointers, int* best, int tags,
                   long long stride) {
    const int length = lengths[blockIdx.x];
    const long long first = starts[blockIdx.x];
    Score *rows = (Score*)shared_memory, *last = rows;
    for (int k = 0; k < length; ++k) {
        const Score *previous = last, *w = transitions + (first + k - 1) * stride;
        last = rows + k % 2 * tags;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            last[t] = unary[(first + k) * tags + t];
            if (k == 0) continue;
            Score score = previous[0] + w[t], top = previous[0];
            int tag = 0;
            for (int u = 1; u < tags; ++u) {
                const Score x = previous[u] + w[u * tags + t];
                if (x > score || x != x) score = x, tag = u;
                top = larger(top, previous[u]);
            }
            backpointers[(first + k) * tags + t] = tag;
            // Without the largest score of the previous row, scores stay small, and so precise.
            last[t] += top > -infinity() ? score - top : score;
        }
        __syncthreads();
    }
    if (threadIdx.x || length == 0) return;
    int tag = 0;
    for (int t = 1; t < tags; ++t)
        if (last[t] > last[tag] || last[t] != last[t]) tag = t;
    for (long long i = first + length - 1; i >= first; --i) {
        best[i] = tag;
        if (i > first) tag = backpointers[i * tags + tag];
    }
}

// Score one labeling per sequence; -inf if it uses a forbidden tag or transition. One block a
// sequence.
KERNEL path_scores(const Score* unary, const Score* transitions, const long long* starts,
                   const int* lengths, const int* path, Score* scores, int tags, long long stride) {
    const int length = lengths[blockIdx.x];
    const long long first = starts[blockIdx.x];
    double total = 0;
    for (int k = threadIdx.x; k < length; k += blockDim.x) {
        const long long i = first + k;
        total += unary[i * tags + path[i]];
        if (k + 1 < length) total += transitions[i * stride + path[i] * tags + path[i + 1]];
    }
    total = sum_of(total, shared_memory);
    if (threadIdx.x == 0) scores[blockIdx.x] = total;
}

// Add the features of n labelings (n, N), weighted (B, n), to unary (N, tags), and edge features to
// sums (tags, tags) for shared transitions, else to each (N, tags, tags). The other one is null. One
// thread a token.
KERNEL add_features(const int* labelings, const Score* weights, const int* sequence_ids, Score* unary,
                    double* sums, Score* each, int n, long long tokens, int tags) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < tokens; i += threads) {
        const bool is_last = i + 1 == tokens || sequence_ids[i + 1] != sequence_ids[i];
        for (int k = 0; k < n; ++k) {
            const Score weight = weights[(long long)sequence_ids[i] * n + k];
            const int* path = labelings + k * tokens + i;
            if (weight == 0) continue;
            unary[i * tags + path[0]] += weight;
            if (is_last) continue;
            const long long pair = (long long)path[0] * tags + path[1];
            if (sums)
                atomicAdd(&sums[pair], double(weight));
            else
                each[i * tags * tags + pair] += weight;
        }
    }
}
