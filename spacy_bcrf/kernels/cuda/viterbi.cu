// The Viterbi algorithm, and the scores and features of labelings.
#include "block.cuh"

// Rows of scores that a block fetches together, to pay their latency once.
constexpr int FETCHED_ROWS = 16;

// Scan `length` tokens from flat token `first` on. At each tag of each token, compute
//
//     row[t] = step(token, t, unary[t], previous row, w, from)
//
// The arc from tag u to t has its score at w[u * from].
// The previous row is null in the first step.
//
// shared memory: (2 + FETCHED_ROWS) rows of tags, and if `cached` a matrix of tags rows of (tags | 1),
// the shared transitions. Return the last row.
template <class Step>
__device__ const Score* scan(const Score* unary, const Score* transitions, int tags, long long stride,
                             int cached, long long first, int length, Step step) {
    Score *rows = (Score*)shared_memory, *fetched = rows + 2 * tags;
    Score* matrix = fetched + FETCHED_ROWS * tags;
    // An odd width puts the cells of a column into different banks too.
    const int width = cached ? tags | 1 : tags;
    if (cached)
        for (int k = threadIdx.x; k < tags * tags; k += blockDim.x)
            matrix[k / tags * width + k % tags] = transitions[k];
    for (int k = 0; k < length; ++k) {
        const long long token = first + k;
        if (k % FETCHED_ROWS == 0) {
            const int n = length - k < FETCHED_ROWS ? length - k : FETCHED_ROWS;
            const Score* source = unary + token * tags;
            for (int t = threadIdx.x; t < n * tags; t += blockDim.x) fetched[t] = source[t];
            __syncthreads();
        }
        const Score* previous = k > 0 ? rows + (k + 1) % 2 * tags : nullptr;
        const Score* w = cached ? matrix : transitions + (token - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            rows[k % 2 * tags + t] =
                step(token, t, fetched[k % FETCHED_ROWS * tags + t], previous, w + t, width);
        __syncthreads();
    }
    return rows + (length + 1) % 2 * tags;
}

// The best previous tag of a tag, and the score up to there minus the largest score of the previous
// row. So scores stay small, and so precise.
struct Previous {
    int tag;
    Score score;
};

// Maximize row[u] + w[u]. In a tie, the lowest tag wins. NaN wins, the last one of several.
__device__ Previous best_previous(const Score* row, const Score* w, int from, int tags) {
    Previous best{0, row[0] + w[0]};
    Score top = row[0];
    for (int u = 1; u < tags; ++u) {
        const Score x = row[u] + w[(long long)u * from];
        if (x > best.score || x != x) best.score = x, best.tag = u;
        top = larger(top, row[u]);
    }
    if (top > -infinity()) best.score -= top;
    return best;
}

// Visit n rows of backpointers (n, tags), the last one first. The block fetches rows together, because
// one thread would wait for each. They take the place of the rows that `scan` fetches.
template <class Visit>
__device__ void visit_backwards(const unsigned short* backpointers, int n, int tags, Visit visit) {
    unsigned short* fetched = (unsigned short*)((Score*)shared_memory + 2 * tags);
    constexpr int ROWS = FETCHED_ROWS * sizeof(Score) / sizeof(unsigned short);
    for (int end = n; end > 0; end -= ROWS) {
        const int rows = end < ROWS ? end : ROWS;
        const unsigned short* source = backpointers + (long long)(end - rows) * tags;
        __syncthreads();
        for (int k = threadIdx.x; k < rows * tags; k += blockDim.x) fetched[k] = source[k];
        __syncthreads();
        for (int k = rows - 1; k >= 0; --k) visit(end - rows + k, fetched + k * tags);
    }
}

// One block a sequence. backpointers (N, tags): a workspace, the best previous tag of each tag. best (N,): the best
// labeling. If the potentials contain NaN, its score is NaN.
KERNEL max_product(const Score* unary, const Score* transitions, const long long* starts,
                   const int* lengths, unsigned short* backpointers, int* best, int tags,
                   long long stride, int cached) {
    const int length = lengths[blockIdx.x];
    const long long first = starts[blockIdx.x];
    if (length == 0) return;
    const Score* last = scan(
        unary, transitions, tags, stride, cached, first, length,
        [&](long long token, int t, Score score, const Score* row, const Score* w, int from) {
            if (!row) return score;
            const Previous previous = best_previous(row, w, from, tags);
            backpointers[token * tags + t] = previous.tag;
            return score + previous.score;
        });
    // The lowest one in a tie.
    int tag = 0;
    for (int t = 1; t < tags; ++t)
        if (last[t] > last[tag] || last[t] != last[t]) tag = t;
    best += first;
    if (threadIdx.x == 0) best[length - 1] = tag;
    visit_backwards(backpointers + (first + 1) * tags, length - 1, tags,
                    [&](int k, const unsigned short* row) {
                        tag = row[tag];
                        if (threadIdx.x == 0) best[k] = tag;
                    });
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
