// The Viterbi algorithm, and the scores and features of labelings.
#include "block.cuh"

// Rows of scores that a block fetches together, to pay their latency once.
constexpr int FETCHED_ROWS = 16;

// Scan `length` tokens from flat token `first` on. At each tag of each token, compute
//
//     row[t] = step(token, t, unary[t], previous row, w, from)
//
// The arc from tag u to t has its score at w[u * from].
// initial: the row ahead of the first token. If it is null, so is the previous row in the first step.
//
// shared memory: (2 + FETCHED_ROWS) rows of tags, and if `cached` a matrix of tags rows of (tags | 1),
// the shared transitions. Return the last row.
template <class Step>
__device__ const Score* scan(const Score* unary, const Score* transitions, int tags, long long stride,
                             int cached, long long first, int length, const Score* initial,
                             Step step) {
    Score *rows = (Score*)shared_memory, *fetched = rows + 2 * tags;
    Score* matrix = fetched + FETCHED_ROWS * tags;
    // An odd width puts the cells of a column into different banks too.
    const int width = cached ? tags | 1 : tags;
    if (cached)
        for (int k = threadIdx.x; k < tags * tags; k += blockDim.x)
            matrix[k / tags * width + k % tags] = transitions[k];
    if (initial)
        for (int t = threadIdx.x; t < tags; t += blockDim.x) rows[tags + t] = initial[t];
    for (int k = 0; k < length; ++k) {
        const long long token = first + k;
        if (k % FETCHED_ROWS == 0) {
            const int n = length - k < FETCHED_ROWS ? length - k : FETCHED_ROWS;
            const Score* source = unary + token * tags;
            for (int t = threadIdx.x; t < n * tags; t += blockDim.x) fetched[t] = source[t];
            __syncthreads();
        }
        const Score* previous = k > 0 || initial ? rows + (k + 1) % 2 * tags : nullptr;
        const Score* w = cached ? matrix : transitions + (token - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            rows[k % 2 * tags + t] =
                step(token, t, fetched[k % FETCHED_ROWS * tags + t], previous, w + t, width);
        __syncthreads();
    }
    return rows + (length + 1) % 2 * tags;
}

// The best previous tag of a tag, and the score up to there minus `top`, the largest score of the
// previous row. So scores stay small, and so precise.
struct Previous {
    int tag;
    Score score, top;
};

// Maximize row[u] + w[u]. In a tie, the lowest tag wins. NaN wins, the last one of several.
__device__ Previous best_previous(const Score* row, const Score* w, int from, int tags) {
    Previous best{0, row[0] + w[0], row[0]};
    for (int u = 1; u < tags; ++u) {
        const Score x = row[u] + w[(long long)u * from];
        if (x > best.score || x != x) best.score = x, best.tag = u;
        best.top = larger(best.top, row[u]);
    }
    if (best.top == -infinity()) best.top = 0;
    best.score -= best.top;
    return best;
}

// Set the backpointers (N, tags) of `length` tokens from `first` on: the best previous tag of each
// tag. initial: the row ahead of the first token; if it is null, the first token has no backpointers.
// Return the best tag of the last token, the lowest one in a tie.
__device__ int set_backpointers(const Score* unary, const Score* transitions, int tags,
                                long long stride, int cached, long long first, int length,
                                const Score* initial, unsigned short* backpointers) {
    const Score* last = scan(
        unary, transitions, tags, stride, cached, first, length, initial,
        [&](long long token, int t, Score score, const Score* row, const Score* w, int from) {
            if (!row) return score;
            const Previous best = best_previous(row, w, from, tags);
            backpointers[token * tags + t] = best.tag;
            return score + best.score;
        });
    int tag = 0;
    for (int t = 1; t < tags; ++t)
        if (last[t] > last[tag] || last[t] != last[t]) tag = t;
    return tag;
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

// Write the best path of `length` tags from `first` on that ends in a tag.
__device__ void write_path(const unsigned short* backpointers, long long first, int length, int tag,
                           int* path, int tags) {
    path += first;
    if (threadIdx.x == 0) path[length - 1] = tag;
    visit_backwards(backpointers + (first + 1) * tags, length - 1, tags,
                    [&](int k, const unsigned short* row) {
                        tag = row[tag];
                        if (threadIdx.x == 0) path[k] = tag;
                    });
}

// One block a sequence. backpointers (N, tags): a workspace. best (N,): the best labeling. If the
// potentials contain NaN, its score is NaN.
KERNEL max_product(const Score* unary, const Score* transitions, const long long* starts,
                   const int* lengths, unsigned short* backpointers, int* best, int tags,
                   long long stride, int cached) {
    const int length = lengths[blockIdx.x];
    const long long first = starts[blockIdx.x];
    if (length == 0) return;
    const int tag = set_backpointers(unary, transitions, tags, stride, cached, first, length, nullptr,
                                     backpointers);
    write_path(backpointers, first, length, tag, best, tags);
}

// The max-plus matrix of each chunk, scores[s, r, t]: the score of its best path from tag r ahead of
// it to tag t of its last token. Chunk s and tag r of grid (chunks, tags). A chunk that starts
// its sequence has the row r = 0 only. scores (chunks, tags, tags), identity (tags, tags).
KERNEL chunk_scores(const Score* unary, const Score* transitions, const long long* starts,
                    const int* lengths, const int* sequences, const long long* firsts,
                    const Score* identity, double* scores, int tags, long long stride, int cached) {
    const int s = blockIdx.x, r = blockIdx.y;
    const bool is_start = s == firsts[sequences[s]];
    if (lengths[s] == 0 || (is_start && r > 0)) return;
    // The sum of the maxima that the scan subtracts. Each thread adds it up, at its first tag.
    double sum = 0;
    const Score* last = scan(
        unary, transitions, tags, stride, cached, starts[s], lengths[s],
        is_start ? nullptr : identity + (long long)r * tags,
        [&](long long, int t, Score score, const Score* row, const Score* w, int from) {
            if (!row) return score;
            const Previous best = best_previous(row, w, from, tags);
            if (t == int(threadIdx.x)) sum += best.top;
            return score + best.score;
        });
    scores += ((long long)s * tags + r) * tags;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) scores[t] = sum + last[t];
}

// rows (chunks, tags): the scores of the best paths that end ahead of a chunk, minus the largest
// one; not set for a chunk that starts its sequence. One block a sequence, which has counts[b]
// chunks from firsts[b] on.
KERNEL chunk_rows(const double* scores, const long long* firsts, const int* counts, Score* rows,
                  int tags) {
    double *here = shared_memory, *next = here + tags, *scratch = next + tags;
    const long long first = firsts[blockIdx.x], last = first + counts[blockIdx.x] - 1;
    for (long long s = first; s < last; ++s) {
        const double* matrix = scores + s * tags * tags;
        double top = -infinity();
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            double most = s > first ? here[0] + matrix[t] : matrix[t];
            for (int r = 1; s > first && r < tags; ++r)
                most = larger(most, here[r] + matrix[(long long)r * tags + t]);
            next[t] = most;
            top = larger(top, most);
        }
        top = largest_of(top, scratch);
        // A NaN must stay at its tag, because the best path goes through it.
        if (!(top > -infinity())) top = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            rows[(s + 1) * tags + t] = here[t] = next[t] - top;
        __syncthreads();
    }
}

// One block a chunk. backpointers (N, tags). ends (chunks,): the best tag of the last token.
// entries (chunks, tags): the tag ahead of the chunk on the best path to each tag of its last
// token; not set for a chunk that starts its sequence.
KERNEL chunk_backpointers(const Score* unary, const Score* transitions, const long long* starts,
                          const int* lengths, const int* sequences, const long long* firsts,
                          const Score* rows, unsigned short* backpointers, int* ends,
                          unsigned short* entries, int tags, long long stride, int cached) {
    const long long s = blockIdx.x, first = starts[s];
    const int length = lengths[s];
    if (length == 0) return;
    const bool is_start = s == firsts[sequences[s]];
    const int end = set_backpointers(unary, transitions, tags, stride, cached, first, length,
                                     is_start ? nullptr : rows + s * tags, backpointers);
    if (threadIdx.x == 0) ends[s] = end;
    if (is_start) return;
    // Follow the backpointers from all tags. The tags take the place of the last row.
    int* reached = (int*)shared_memory;
    __syncthreads();
    for (int t = threadIdx.x; t < tags; t += blockDim.x) reached[t] = t;
    visit_backwards(backpointers + first * tags, length, tags, [&](int, const unsigned short* row) {
        for (int t = threadIdx.x; t < tags; t += blockDim.x) reached[t] = row[reached[t]];
    });
    for (int t = threadIdx.x; t < tags; t += blockDim.x) entries[s * tags + t] = reached[t];
}

// One block for each best path, of lengths[b] tags from starts[b] on, that ends in tag ends[b].
KERNEL paths(const unsigned short* backpointers, const long long* starts, const int* lengths,
             const int* ends, int* path, int tags) {
    const int b = blockIdx.x;
    if (lengths[b] == 0) return;
    write_path(backpointers, starts[b], lengths[b], ends[b], path, tags);
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
