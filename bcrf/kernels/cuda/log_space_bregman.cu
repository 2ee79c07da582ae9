// The values of sequences after the Bregman projections, one block a sequence. A sequence fails if its
// scores exceed the range of probability space or if it has no allowed labeling. This file computes
// failed sequences again on logarithms.
#include "projections.cuh"

// After `bregman`: compute its failed sequences again, and set the values (B,), bounds of B(w) without
// gold and losses with it. Arguments as in log_space.cu. edge_shifts (1,) or (N,): NaN if transitions
// are. workspace (3 tags + 1, N).
// shared memory: (2 tags + threads) doubles.
KERNEL finish(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* gold, const signed char* allowed, const double* values,
              const int* passes, const double* edge_shifts,
              double* workspace, Score* value, Score* result, Score* each,
              double* sums, Score* edges, int* errors, int* counter, int n_iter, double relaxation,
              double tolerance, int rule, int lower, double scale, long long tokens,
              int tags, long long stride) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b], last = first + length - 1, cells = tokens * tags;
    const Gold annotation{gold, allowed, tags};
    const GoldKind kind = annotation.kind(first, length, (int*)scratch);
    double free = 0, target = 0;
    if (length > 0 && !passes[b]) {
        Log* e = (Log*)workspace + first * tags;
        Projections<Log> chain{{transitions, scale, edge_shifts, stride, tags}, nullptr, first, length, tags,
                               {n_iter, relaxation, tolerance, rule, lower, scale}, e, e + cells, e + 2 * cells,
                               (Log*)workspace + 3 * cells + first, (Log*)rows, scratch, 0, int(threadIdx.x)};
        Outputs to{tags, result, each, sums};
        for (int pass = 0; pass < (kind == PARTIAL ? 2 : 1); ++pass) {
            to.subtract = pass == 1;
            bool is_empty = false;
            const double x = chain.run({unary, annotation, to.subtract}, to, nullptr, false, lower || to.subtract,
                                       is_empty);
            for (long long i = first; i <= last && is_empty; ++i) {
                for (int t = threadIdx.x; t < tags; t += blockDim.x) to.tag(i, t, 0);
                to.last(i);
            }
            (pass ? target : free) = is_empty ? -infinity() : x;
            __syncthreads();
        }
        double nan = 0;
        for (long long i = first + threadIdx.x; i <= last; i += blockDim.x) {
            double top = -infinity();
            for (int t = 0; t < tags; ++t) top = larger(top, double(unary[i * tags + t]));
            if (!(top == -infinity())) nan += 0 * top;
            if (i < last) nan += 0 * edge_shifts[stride ? i : 0];
        }
        free += sum_of(nan, scratch);
    } else if (length > 0) {
        free = values[b];
        if (kind == PARTIAL) target = values[gridDim.x + b];
    }
    finish_loss(annotation, kind, transitions, unary, first, length, free, target, value, result, each,
                sums, errors, scratch, stride);
    convert_sums(sums, edges, tags, counter);
}
