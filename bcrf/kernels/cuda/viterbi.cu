// The Viterbi algorithm.
#include "block.cuh"

// backpointers (tokens, tags): a workspace, the best previous tag of each tag. best (tokens,): the best labeling. scores
// (B,): -inf if it uses a forbidden tag or transition.
struct Args {
    Batch batch;
    unsigned short* backpointers;
    int* best;
    Score* scores;
};

// One block a sequence. In a tie, the lowest tag wins, from the last token to the first. NaN wins: if the potentials
// contain it, the score of the labeling is NaN.
// shared memory: two rows of tags.
KERNEL max_product(const Args args) {
    const Score *unary = args.batch.unary, *transitions = args.batch.transitions;
    const int tags = args.batch.tags;
    const long long stride = args.batch.stride;
    const int length = args.batch.lengths[blockIdx.x];
    const long long first = args.batch.starts[blockIdx.x];
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
            args.backpointers[(first + k) * tags + t] = tag;
            // Without the largest score of the previous row, scores stay small, and so precise.
            last[t] += top > -infinity() ? score - top : score;
        }
        __syncthreads();
    }
    if (threadIdx.x) return;
    int tag = 0;
    double total = 0;
    for (int t = 1; t < tags && length; ++t)
        if (last[t] > last[tag] || last[t] != last[t]) tag = t;
    for (long long i = first + length - 1; i >= first; --i) {
        args.best[i] = tag;
        total += unary[i * tags + tag];
        if (i == first) break;
        const int before = args.backpointers[i * tags + tag];
        total += transitions[(i - 1) * stride + before * tags + tag];
        tag = before;
    }
    args.scores[blockIdx.x] = Score(total);
}
