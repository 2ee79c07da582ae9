// The values of sequences after the forward-backward algorithm. A sequence fails if its scores exceed the
// range of Real. This file computes it again with logarithms.
#include "forward_backward.cuh"

// After `forward_backward`, with its arguments: see `finish_sequence`.
// shared memory: (3 tags + threads) doubles.
KERNEL finish(const Args args) {
    double* scratch = shared_memory + 3 * args.batch.tags;
    finish_sequence(args, scratch, [&](GoldKind kind) {
        Log *rows = (Log*)shared_memory, *workspace = (Log*)args.workspace;
        Chain<Log> chain{args, args.to, workspace, nullptr, rows, (Log*)scratch};
        chain.run(kind);
    });
}
