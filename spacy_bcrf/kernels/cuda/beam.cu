// Beam search for the n best labelings.
#include "block.cuh"

typedef unsigned long long Key;

// Map scores to integers above 0 in the same order.
__device__ Key key_of(double score) {
    const Key bits = __double_as_longlong(score);
    return bits >> 63 ? ~bits : bits | 1ULL << 63;
}

__device__ double score_of(Key key) {
    return __longlong_as_double(key >> 63 ? key & ~(1ULL << 63) : ~key);
}

// Count the candidates for which the predicate holds.
template <class Predicate> __device__ int count(int candidates, int* scratch, Predicate holds) {
    int found = 0;
    for (int c = threadIdx.x; c < candidates; c += blockDim.x) found += holds(c);
    return sum_of(found, scratch);
}

// completable (N, tags): whether an allowed labeling continues from the tag to the end.
__device__ void find_completable(const Score* unary, const Score* transitions, long long first,
                                 int length, signed char* completable, int tags, long long stride) {
    const Score forbidden = -infinity();
    for (long long i = first + length - 1; i >= first; --i) {
        const Score* w = transitions + i * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            bool continues = i == first + length - 1;
            for (int v = 0; v < tags && !continues; ++v)
                continues = completable[(i + 1) * tags + v] && w[(long long)t * tags + v] > forbidden;
            completable[i * tags + t] = continues && unary[i * tags + t] > forbidden;
        }
        __syncthreads();
    }
}

// Keep the `width` best prefixes of each token, best first. A candidate prefix is the number
// tag + tags * (its place in the previous beam). In a tie the lower number is better. A block
// takes sequences in turn from `order`.
// keys (blocks, width * tags), completable (N, tags) and backpointers (N, width) are workspace.
// out (n, N), scores (B, n): missing labelings leave them unchanged.
// shared memory: width keys, scores and candidates, and an int for each thread.
KERNEL beam_search(const Score* unary, const Score* transitions, const int* order,
                   const long long* starts, const int* lengths, unsigned long long* keys,
                   signed char* completable, int* backpointers, int* out, Score* scores, int size,
                   int n, int width, long long tokens, int tags, long long stride) {
    Key* kept = (Key*)shared_memory;
    double* beam = (double*)(kept + width);
    int *scratch = (int*)(beam + width), *candidates = scratch + blockDim.x;
    int* filled = candidates + width;
    keys += (long long)blockIdx.x * width * tags;
    for (int at = blockIdx.x; at < size; at += gridDim.x) {
        const int b = order[at], length = lengths[b];
        const long long first = starts[b];
        if (length == 0) continue;
        find_completable(unary, transitions, first, length, completable, tags, stride);
        int places = 1;
        for (long long i = first; i < first + length; ++i) {
            const int total = places * tags;
            for (int c = threadIdx.x; c < total; c += blockDim.x) {
                const int t = c % tags;
                double score = unary[i * tags + t];
                if (i > first) {
                    const int u = backpointers[(i - 1) * width + c / tags] % tags;
                    score += beam[c / tags] + transitions[(i - 1) * stride + u * tags + t];
                }
                keys[c] = completable[i * tags + t] && score > -infinity() ? key_of(score) : 0;
            }
            if (threadIdx.x == 0) *filled = 0;
            __syncthreads();
            // Select the candidates with keys above `threshold`, and with equal keys up to `end`.
            // Both come from a bisection over bits.
            Key threshold = 0;
            int end = -1;
            places = count(total, scratch, [&](int c) { return keys[c] > 0; });
            if (places > width) {
                places = width;
                for (int bit = 63; bit >= 0; --bit) {
                    const Key higher = threshold | 1ULL << bit;
                    if (count(total, scratch, [&](int c) { return keys[c] >= higher; }) >= width)
                        threshold = higher;
                }
                const int equal =
                    width - count(total, scratch, [&](int c) { return keys[c] > threshold; });
                end = 0;
                for (int bit = 30; bit >= 0; --bit) {
                    const int later = end | 1 << bit;
                    const int found = count(total, scratch, [&](int c) {
                        return keys[c] == threshold && c < later;
                    });
                    if (found < equal) end = later;
                }
            }
            for (int c = threadIdx.x; c < total; c += blockDim.x)
                if (keys[c] > threshold || (keys[c] == threshold && c <= end)) {
                    const int k = atomicAdd(filled, 1);
                    kept[k] = keys[c], candidates[k] = c;
                }
            __syncthreads();
            for (int k = threadIdx.x; k < places; k += blockDim.x) {
                int rank = 0;
                for (int m = 0; m < places; ++m)
                    rank += kept[m] > kept[k] || (kept[m] == kept[k] && candidates[m] < candidates[k]);
                beam[rank] = score_of(kept[k]);
                backpointers[i * width + rank] = candidates[k];
            }
            __syncthreads();
        }
        for (int k = threadIdx.x; k < n && k < places; k += blockDim.x) {
            scores[(long long)b * n + k] = beam[k];
            int place = k;
            for (long long i = first + length - 1; i >= first; --i) {
                const int prefix = backpointers[i * width + place];
                out[k * tokens + i] = prefix % tags;
                place = prefix / tags;
            }
        }
        __syncthreads();
    }
}
