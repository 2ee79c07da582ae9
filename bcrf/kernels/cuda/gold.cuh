// Gold annotation of a batch: tags (N,) with -1 for unknown, or allowed (N, tags). The other one is
// null, or both are null without gold.
#ifndef BCRF_CUDA_GOLD_CUH
#define BCRF_CUDA_GOLD_CUH
#include "block.cuh"

enum GoldKind { NO_GOLD, COMPLETE, PARTIAL };

// What a kernel finds wrong in sequence b is PROBLEMS b + Problem. `errors` keeps the smallest.
enum Problem { WRONG_TAG, NOT_FINITE, INFEASIBLE, NO_TOKEN, HOLE, FORBIDDEN, PARTLY_KNOWN, PROBLEMS };

// In place of a tag, which of several allowed ones is unknown: chain/mean_field.py.
constexpr int SEVERAL = -0x7fffffff - 1;

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

    // Whether a tag is neither -1, SEVERAL nor below `tags`. All threads call it.
    __device__ bool has_wrong_tag(long long first, int length, int* scratch) const {
        int wrong = 0;
        for (int k = threadIdx.x; gold && k < length; k += blockDim.x)
            wrong |= (gold[first + k] < -1 && gold[first + k] != SEVERAL) || gold[first + k] >= tags;
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

// The results of a loss. value: (B,). edges (tags, tags): converted sums, or null. errors: see Problem. counter: of
// finished blocks, 0 before.
struct Losses {
    Score *value, *edges;
    int *errors, *counter;
};

// The score of the labeling `gold` of a sequence of known tags, as each thread's part.
__device__ double score_part(const Batch& batch, const int* gold, long long first, int length) {
    double score = 0;
    for (int k = threadIdx.x; k < length; k += blockDim.x) {
        const long long i = first + k;
        score += batch.unary[i * batch.tags + gold[i]];
        if (k + 1 < length) score += batch.transitions[i * batch.stride + gold[i] * batch.tags + gold[i + 1]];
    }
    return score;
}

// Set the value of a sequence: `free`, the value of its potentials, or with gold the loss. target: the
// value of the restriction to partial gold. Subtract the features of complete gold from the gradient.
// One block a sequence, all threads. scratch: a double for each thread.
template <class Args>
__device__ void finish_loss(const Args& args, GoldKind kind, double free, double target, double* scratch) {
    const int b = blockIdx.x, length = args.batch.lengths[b], tags = args.batch.tags;
    const long long first = args.batch.starts[b];
    const Gold& gold = args.gold;
    if (kind == NO_GOLD || length == 0) {
        if (threadIdx.x == 0) args.loss.value[b] = Score(free);
        return;
    }
    const bool is_wrong = gold.has_wrong_tag(first, length, (int*)scratch);
    if (kind == COMPLETE && !is_wrong) {
        for (int k = threadIdx.x; k < length; k += blockDim.x) {
            const long long i = first + k;
            args.to.marginals[i * tags + gold.gold[i]] -= 1;
            if (k + 1 == length) continue;
            const long long pair = (long long)gold.gold[i] * tags + gold.gold[i + 1];
            if (args.to.sums)
                atomicAdd(&args.to.sums[pair], -1.0);
            else
                args.to.each[i * tags * tags + pair] -= 1;
        }
        target = sum_of(score_part(args.batch, gold.gold, first, length), scratch);
    }
    const bool is_unknown = gold.is_unknown(first, length, (int*)scratch);
    if (threadIdx.x) return;
    args.loss.value[b] = Score(is_unknown || free < target ? 0 : free - target);
    if (is_wrong)
        atomicMin(args.loss.errors, PROBLEMS * b + WRONG_TAG);
    else if (free != free || target != target)
        atomicMin(args.loss.errors, PROBLEMS * b + NOT_FINITE);
    else if (target == -infinity())
        atomicMin(args.loss.errors, PROBLEMS * b + INFEASIBLE);
}

// Convert sums (tags, tags) to edges in the last block that calls this.
__device__ void convert_sums(const double* sums, const Losses& loss, int tags) {
    if (!loss.edges) return;
    int* is_last = (int*)shared_memory;
    // Every thread's sums reach memory before the block counts as finished.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *is_last = atomicAdd(loss.counter, 1) == int(gridDim.x) - 1;
    __syncthreads();
    if (!*is_last) return;
    __threadfence();
    const volatile double* found = sums;
    for (int k = threadIdx.x; k < tags * tags; k += blockDim.x) loss.edges[k] = Score(found[k]);
}

// After a kernel in probability space: call again(kind) for a sequence without passes, which sets its values anew on
// logarithms. Then set the losses, or without gold the values, and with the last block the edges.
template <class Args, class Again> __device__ void finish_sequence(const Args& args, double* scratch, Again again) {
    const int b = blockIdx.x, length = args.batch.lengths[b];
    const GoldKind kind = args.gold.kind(args.batch.starts[b], length, (int*)scratch);
    double free = 0, target = 0;
    if (length > 0) {
        if (!args.passes[b]) again(kind);
        __syncthreads();
        free = args.values[b];
        if (kind == PARTIAL) target = args.values[gridDim.x + b];
    }
    finish_loss(args, kind, free, target, scratch);
    convert_sums(args.to.sums, args.loss, args.batch.tags);
}

#endif
