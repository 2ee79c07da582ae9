// The values of sequences after the Bregman projections. A sequence fails if its scores exceed the range of
// probability space or if it has no allowed labeling. This file computes failed sequences again on logarithms.
#include "projections.cuh"

// After `bregman`, with its arguments: see `finish_sequence`. edge_shifts (1,) or (N,): NaN if transitions are.
// shared memory: (2 tags + threads) doubles.
KERNEL finish(const Args args) {
    double *rows = shared_memory, *scratch = rows + 2 * args.batch.tags;
    finish_sequence(args, scratch, [&](GoldKind kind) {
        const int b = blockIdx.x, tags = args.batch.tags;
        const long long first = args.batch.starts[b], last = first + args.batch.lengths[b] - 1;
        const long long cells = args.batch.tokens * tags;
        Log *e = (Log*)args.workspace + first * tags, *totals = (Log*)args.workspace + 3 * cells + first;
        Projections<Log> chain{args, e, e + cells, e + 2 * cells, totals, (Log*)rows, scratch};
        double nan = 0;
        for (long long i = first + threadIdx.x; i <= last; i += blockDim.x) {
            double top = -infinity();
            for (int t = 0; t < tags; ++t) top = larger(top, double(args.batch.unary[i * tags + t]));
            if (!(top == -infinity())) nan += 0 * top;
            if (i < last) nan += 0 * args.k.edge_shifts[args.batch.matrix(i)];
        }
        nan = sum_of(nan, scratch);
        for (int pass = 0; pass < (kind == PARTIAL ? 2 : 1); ++pass) {
            chain.to.subtract = pass == 1;
            bool is_empty = false;
            const double value = chain.run(nullptr, is_empty) + (pass ? 0 : nan);
            for (long long i = first; i <= last && is_empty; ++i) {
                for (int t = threadIdx.x; t < tags; t += blockDim.x) chain.to.tag(i, t, 0);
                chain.to.last(i);
            }
            if (threadIdx.x == 0) args.values[pass * gridDim.x + b] = is_empty ? nan - infinity() : value;
            __syncthreads();
        }
    });
}
