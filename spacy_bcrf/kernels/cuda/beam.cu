// Beam search for the n best labelings.
#include "block.cuh"

typedef unsigned long long Key;

// In the order of scores, above 0 for every score.
__device__ Key key_of(double score) {
    const Key bits = __double_as_longlong(score);
    return bits >> 63 ? ~bits : bits | 1ULL << 63;
}

__device__ double score_of(Key key) {
    return __longlong_as_double(key >> 63 ? key & ~(1ULL << 63) : ~key);
}

// How many of the candidates it holds for.
template <class Holds> __device__ int count(int candidates, int* slots, Holds holds) {
    int found = 0;
    for (int c = threadIdx.x; c < candidates; c += blockDim.x) found += holds(c);
    return sum_of(found, slots);
}

// Whether an allowed labeling can be finished from a tag (N, tags).
__device__ void find_open(const Score* unary, const Score* transitions, long long first,
                          int length, signed char* open, int tags, long long stride) {
    const Score dead = -infinity();
    for (long long i = first + length - 1; i >= first; --i) {
        const Score* w = transitions + i * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            bool left = i == first + length - 1;
            for (int v = 0; v < tags && !left; ++v)
                left = open[(i + 1) * tags + v] && w[(long long)t * tags + v] > dead;
            open[i * tags + t] = left && unary[i * tags + t] > dead;
        }
        __syncthreads();
    }
}

// The `width` best prefixes of each token, best first. A prefix is the candidate tag + tags * place
// in the beam before; of equal scores the lower candidate is better. A block takes sequences in turn
// from `order`; keys (blocks, width * tags), open (N, tags), trail (N, width).
// out (n, N), scores (B, n): those of missing labelings are left as they are.
// shared memory: width keys, scores and candidates, and an int for each thread.
KERNEL beam_search(const Score* unary, const Score* transitions, const int* order,
                   const long long* starts, const int* lengths, unsigned long long* keys,
                   signed char* open, int* trail, int* out, Score* scores, int size, int n,
                   int width, long long tokens, int tags, long long stride) {
    Key* kept = (Key*)shared_memory;
    double* beam = (double*)(kept + width);
    int *slots = (int*)(beam + width), *candidates = slots + blockDim.x, *filled = candidates + width;
    keys += (long long)blockIdx.x * width * tags;
    for (int at = blockIdx.x; at < size; at += gridDim.x) {
        const int b = order[at], length = lengths[b];
        const long long first = starts[b];
        if (length == 0) continue;
        find_open(unary, transitions, first, length, open, tags, stride);
        int places = 1;
        for (long long i = first; i < first + length; ++i) {
            const int total = places * tags;
            for (int c = threadIdx.x; c < total; c += blockDim.x) {
                const int t = c % tags;
                double score = unary[i * tags + t];
                if (i > first) {
                    const int u = trail[(i - 1) * width + c / tags] % tags;
                    score += beam[c / tags] + transitions[(i - 1) * stride + u * tags + t];
                }
                keys[c] = open[i * tags + t] && score > -infinity() ? key_of(score) : 0;
            }
            if (threadIdx.x == 0) *filled = 0;
            __syncthreads();
            // Kept are candidates above `least`, and those of the same score up to `end`.
            Key least = 0;
            int end = -1;
            places = count(total, slots, [&](int c) { return keys[c] > 0; });
            if (places > width) {
                places = width;
                for (int bit = 63; bit >= 0; --bit) {
                    const Key higher = least | 1ULL << bit;
                    if (count(total, slots, [&](int c) { return keys[c] >= higher; }) >= width)
                        least = higher;
                }
                const int more = width - count(total, slots, [&](int c) { return keys[c] > least; });
                end = 0;
                for (int bit = 30; bit >= 0; --bit) {
                    const int later = end | 1 << bit;
                    if (count(total, slots, [&](int c) { return keys[c] == least && c < later; }) < more)
                        end = later;
                }
            }
            for (int c = threadIdx.x; c < total; c += blockDim.x)
                if (keys[c] > least || (keys[c] == least && c <= end)) {
                    const int k = atomicAdd(filled, 1);
                    kept[k] = keys[c], candidates[k] = c;
                }
            __syncthreads();
            for (int k = threadIdx.x; k < places; k += blockDim.x) {
                int rank = 0;
                for (int m = 0; m < places; ++m)
                    rank += kept[m] > kept[k] || (kept[m] == kept[k] && candidates[m] < candidates[k]);
                beam[rank] = score_of(kept[k]);
                trail[i * width + rank] = candidates[k];
            }
            __syncthreads();
        }
        for (int k = threadIdx.x; k < n && k < places; k += blockDim.x) {
            scores[(long long)b * n + k] = beam[k];
            int place = k;
            for (long long i = first + length - 1; i >= first; --i) {
                const int prefix = trail[i * width + place];
                out[k * tokens + i] = prefix % tags;
                place = prefix / tags;
            }
        }
        __syncthreads();
    }
}
