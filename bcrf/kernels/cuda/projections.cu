// Iterative Bregman projections in probability space.
#include "projections.cuh"

// Grid (B,), one block a sequence. With -DBCRF_WIDTH: THREADS threads, and the sums get the edge marginals.
// factors (3 rows + 1, tokens): for sequences longer than `capacity`. With gold and left it has 4 rows, since the second
// pass has its own f, `right` of the edge marginals.
// shared memory: a double for each thread, two rows for each team, 3 rows and a number for each token
// of `capacity`.
KERNEL bregman(const Args args) {
    const int b = blockIdx.x, length = args.batch.lengths[b], size = WIDTH ? WIDTH : args.batch.tags;
    if (length == 0) return;
    Real *rows = (Real*)(shared_memory + blockDim.x), *e = rows + 2 * TEAMS * size;
    long long cells = (long long)args.capacity * size;
    const long long first = args.batch.starts[b];
    if (length > args.capacity) cells = args.batch.tokens * size, e = args.factors + first * size;
    const bool has_left = !HELD && args.left;
    const int n_factors = has_left && (args.gold.gold || args.gold.allowed) ? 4 : 3;
    Real* totals = length > args.capacity ? args.factors + n_factors * cells + first : e + 3 * cells;
    Projections<Real> chain{args, e, e + 2 * cells, e + cells, totals, rows, shared_memory};
    chain.to.sums = nullptr;
    if (HELD) {
        chain.column_in.load(args.k.matrices, chain.lane, args.batch.tags);
        chain.column_out.load(args.k.transposed, chain.lane, args.batch.tags);
    }
#pragma unroll
    for (int v = 0; v < PART; ++v) chain.arcs[v] = 0;
    const int n_passes = args.gold.kind(first, length, (int*)shared_memory) == PARTIAL ? 2 : 1;
    bool is_failed = false;
    for (int pass = 0; pass < n_passes && !is_failed; ++pass) {
        chain.to.subtract = pass == 1;
        if (has_left && pass == 1) chain.f += cells;
        const double value = chain.run(has_left ? args.left + pass * cells : nullptr, is_failed);
        if (threadIdx.x == 0) args.values[pass * gridDim.x + b] = value;
        __syncthreads();
    }
    if (!is_failed && threadIdx.x == 0) args.passes[b] = n_passes;
    if (HELD && args.to.sums && !is_failed) chain.flush();
}
