// Gold annotation of a batch: tags (N,) with -1 for unknown, or allowed (N, tags). The other one is
// null, or both are null without gold.
#ifndef BCRF_CUDA_GOLD_CUH
#define BCRF_CUDA_GOLD_CUH
#include "block.cuh"

enum GoldKind { NO_GOLD, COMPLETE, PARTIAL };

// What a kernel finds wrong in sequence b is PROBLEMS b + Problem. `errors` keeps the smallest.
enum Problem { WRONG_TAG, NOT_FINITE, INFEASIBLE, NO_TOKEN, HOLE, FORBIDDEN, PROBLEMS };

struct Gold {
    const int* gold;
    const signed char* allowed;
    int tags;

    __device__ bool allows(long long i, int t) const {
        return allowed ? allowed[i * tags + t] : gold[i] == -1 || gold[i] == t;
    }

    // Whether the tags from gold[first] on are all known. All threads call it.
    __device__ GoldKind kind(long long first, int length, int* scratch) const {
        if (allowed) return PARTIAL;
        if (!gold) return NO_GOLD;
        int unknown = 0;
        for (int k = threadIdx.x; k < length; k += blockDim.x) unknown |= gold[first + k] == -1;
        return largest_of(unknown, scratch) ? PARTIAL : COMPLETE;
    }

    // Whether a tag is neither -1 nor below `tags`. All threads call it.
    __device__ bool has_wrong_tag(long long first, int length, int* scratch) const {
        int wrong = 0;
        for (int k = threadIdx.x; gold && k < length; k += blockDim.x)
            wrong |= gold[first + k] < -1 || gold[first + k] >= tags;
        return largest_of(wrong, scratch);
    }

    // Whether no tag is known. All threads call it.
    __device__ bool is_unknown(long long first, int length, int* scratch) const {
        int known = 0;
        for (int k = threadIdx.x; k < length && gold; k += blockDim.x) known |= gold[first + k] != -1;
        const long long cells = (first + length) * tags;
        for (long long k = first * tags + threadIdx.x; k < cells && allowed; k += blockDim.x)
            known |= !allowed[k];
        return !largest_of(known, scratch);
    }
};

// The unary scores, with -inf for the tags that gold excludes if `restricted`.
struct Scores {
    const Score* unary;
    Gold gold;
    bool restricted;

    __device__ Score operator()(long long i, int t) const {
        if (restricted && !gold.allows(i, t)) return Score(-infinity());
        return unary[i * gold.tags + t];
    }
};

// Set the value of a sequence: `free`, the value of its potentials, or with gold the loss. target: the
// value of the restriction to partial gold. Subtract the features of complete gold from the gradient.
// One block a sequence, all threads. scratch: a double for each thread.
__device__ void finish_loss(const Gold& gold, GoldKind kind, const Score* transitions,
                            const Score* unary, long long first, int length, double free,
                            double target, Score* value, Score* marginals, Score* each, double* sums,
                            int* errors, double* scratch, long long stride) {
    const int b = blockIdx.x, tags = gold.tags;
    if (kind == NO_GOLD || length == 0) {
        if (threadIdx.x == 0) value[b] = Score(free);
        return;
    }
    const bool is_wrong = gold.has_wrong_tag(first, length, (int*)scratch);
    if (kind == COMPLETE && !is_wrong) {
        double score = 0;
        for (int k = threadIdx.x; k < length; k += blockDim.x) {
            const long long i = first + k;
            const int t = gold.gold[i];
            score += unary[i * tags + t];
            marginals[i * tags + t] -= 1;
            if (k + 1 == length) continue;
            const long long pair = (long long)t * tags + gold.gold[i + 1];
            score += transitions[i * stride + pair];
            if (sums)
                atomicAdd(&sums[pair], -1.0);
            else
                each[i * tags * tags + pair] -= 1;
        }
        target = sum_of(score, scratch);
    }
    const bool is_unknown = gold.is_unknown(first, length, (int*)scratch);
    if (threadIdx.x) return;
    const double loss = is_unknown || free < target ? 0 : free - target;
    value[b] = Score(loss);
    const bool is_finite = !(free != free || target != target);
    if (is_wrong)
        atomicMin(errors, PROBLEMS * b + WRONG_TAG);
    else if (!is_finite)
        atomicMin(errors, PROBLEMS * b + NOT_FINITE);
    else if (target == -infinity())
        atomicMin(errors, PROBLEMS * b + INFEASIBLE);
}

// Convert sums (tags, tags) to edges in the last block that calls this.
__device__ void convert_sums(const double* sums, Score* edges, int tags, int* counter) {
    if (!edges) return;
    int* is_last = (int*)shared_memory;
    // Every thread's sums reach memory before the block counts as finished.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *is_last = atomicAdd(counter, 1) == int(gridDim.x) - 1;
    __syncthreads();
    if (!*is_last) return;
    __threadfence();
    const volatile double* found = sums;
    for (int k = threadIdx.x; k < tags * tags; k += blockDim.x) edges[k] = Score(found[k]);
}

#endif
