// The Viterbi algorithm, and the scores and features of labelings.
#include "scan.cuh"

// One block a sequence. backpointers (N, tags): the best previous tag of each token and tag; in a tie
// the lowest tag. best (N,): the best labeling. If the potentials contain NaN, its score is NaN.
KERNEL max_product(const Score* unary, const Score* transitions, const long long* starts,
                   const int* lengths, unsigned short* backpointers, int* best, int tags,
                   long long stride, int cached) {
    const int length = lengths[blockIdx.x];
    const long long first = starts[blockIdx.x];
    if (length == 0) return;
    const Score* last = scan<false>(
        unary, transitions, tags, stride, cached, false, first, length, (const Score*)nullptr,
        [&](long long token, int t, Score score, const Score* row, Score, const Score* w, int from) {
            if (!row) return score;
            int at = 0;
            Score most = row[0] + w[0], top = row[0];
            for (int u = 1; u < tags; ++u) {
                const Score x = row[u] + w[(long long)u * from];
                if (x > most || x != x) most = x, at = u;
                top = larger(top, row[u]);
            }
            backpointers[token * tags + t] = at;
            // Subtracting the best score so far keeps scores small, and so precise.
            return score + (top == -infinity() ? most : most - top);
        });
    int tag = 0;
    for (int t = 1; t < tags; ++t)
        if (last[t] > last[tag] || last[t] != last[t]) tag = t;
    if (threadIdx.x == 0) best[first + length - 1] = tag;
    // The block fetches backpointers together, because one thread would wait for each.
    unsigned short* rows = (unsigned short*)((Score*)shared_memory + 2 * tags);
    constexpr int ROWS = FETCHED_ROWS * sizeof(Score) / sizeof(unsigned short);
    for (int end = length - 1; end > 0; end -= ROWS) {
        const int n = end < ROWS ? end : ROWS;
        const unsigned short* source = backpointers + (first + end - n + 1) * tags;
        __syncthreads();
        for (int k = threadIdx.x; k < n * tags; k += blockDim.x) rows[k] = source[k];
        __syncthreads();
        for (int k = n - 1; k >= 0; --k) {
            tag = rows[k * tags + tag];
            if (threadIdx.x == 0) best[first + end - n + k] = tag;
        }
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
KERNEL add_features(const int* labelings, const Score* weights, const int* segment_ids, Score* unary,
                    double* sums, Score* each, int n, long long tokens, int tags) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < tokens; i += threads) {
        const bool is_last = i + 1 == tokens || segment_ids[i + 1] != segment_ids[i];
        for (int k = 0; k < n; ++k) {
            const Score weight = weights[(long long)segment_ids[i] * n + k];
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
