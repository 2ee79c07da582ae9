// The values of sequences after the forward-backward algorithm. A sequence fails if its scores exceed the
// range of Real. This file computes it again with logarithms.
#include "forward_backward.cuh"

// After `forward_backward`: compute its failed sequences again, and set the values (B,): losses with
// gold, else log-partitions or entropies. Subtract the features of complete gold. The last block
// sets edges from sums, both (tags, tags) or null.
// values (2, B): the values of `forward_backward`, set anew in failed sequences. alpha (N, tags), tops (N,),
// totals (N,): workspace.
// errors: see Problem. counter: of finished blocks, 0 before. Other results: see Outputs.
// shared memory: (3 tags + threads) doubles.
KERNEL finish(const Score* unary, const Score* transitions, const double* edge_shifts,
              const long long* starts, const int* lengths, const int* gold, const signed char* allowed, double* values,
              const int* passes, double* alpha, Score* tops,
              double* totals, Score* value, Score* marginals, Score* each, double* sums, Score* pairs,
              const int* heads, const int* tails, int n, int entropies, Score* edges, int* errors,
              int* counter, int tags, long long stride) {
    double* scratch = shared_memory + 3 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b];
    const Gold annotation{gold, allowed, tags};
    const GoldKind kind = annotation.kind(first, length, (int*)scratch);
    double free = 0, target = 0;
    if (length > 0 && !passes[b]) {
        const Outputs to{tags, marginals, each, sums, pairs, heads, tails, n, bool(entropies), false};
        Chain<Log> chain{{transitions, 1, edge_shifts, stride, tags}, first, length, tags, (Log*)alpha, tops,
                         (Log*)totals, (Log*)shared_memory, (Log*)scratch};
        chain.run(kind == PARTIAL ? 2 : 1, unary, annotation, to, nullptr, nullptr, 0, values + b, gridDim.x);
        __syncthreads();
    }
    if (length > 0) {
        free = values[b];
        if (kind == PARTIAL) target = values[gridDim.x + b];
    }
    if (entropies && free < 0 && free > -infinity()) free = 0;
    finish_loss(annotation, kind, transitions, unary, first, length, free, target, value, marginals,
                each, sums, errors, scratch, stride);
    convert_sums(sums, edges, tags, counter);
}
