// The forward-backward algorithm in probability space.
#include "forward_backward.cuh"

// Grid (B,), one block a sequence. With -DBCRF_WIDTH, the sums get the edge marginals; WARPS warps.
// shared memory: three rows, and a double for each thread.
KERNEL forward_backward(const Args args) {
    const int b = blockIdx.x, length = args.batch.lengths[b];
    if (length == 0) return;
    Real *rows = (Real*)shared_memory, *scratch = (Real*)(shared_memory + 3 * (WIDTH ? WIDTH : args.batch.tags));
    Outputs to = args.to;
    to.sums = nullptr, to.entropies = !HELD && to.entropies;
    Chain<Real> chain{args, to, args.alpha, args.right, rows, scratch};
    const GoldKind kind = args.gold.kind(args.batch.starts[b], length, (int*)scratch);
    const bool is_precise = chain.run(kind);
    if (is_precise && threadIdx.x == 0) args.passes[b] = kind == PARTIAL ? 2 : 1;
}
