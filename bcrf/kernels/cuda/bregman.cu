// Iterative Bregman projections in probability space.
#include "projections.cuh"

// Grid (B,), one block a sequence. With -DBCRF_WIDTH: THREADS threads.
// With partial gold, result, each and sums are the difference between the potentials and their
// restriction to gold, and values (2, B) both bounds.
// result (N, tags): see projection::Unary, which `rule` selects. sums (tags, tags): with -DBCRF_WIDTH,
// the sums of the edge marginals. Without it, left (N, tags), or with gold (2, N, tags), and f become their factors:
// see `finish` and products.cu. each (N, tags, tags),
// left and sums may be null.
// passes[b]: the passes of sequence b, 2 with partial gold; not set if Real lacks the range, or no labeling is allowed.
// Sums lack it.
// workspace (3 rows + 1, N): for sequences longer than `capacity`. With gold and left it has 4 rows, since the second
// pass has its own f, `right` of the edge marginals.
// shared memory: a double for each thread, two rows for each team, 3 rows and a number for each token
// of `capacity`.
KERNEL bregman(const Score* unary, const Real* matrices, const Real* transposed,
               const double* edge_shifts, const double* edge_lows, const long long* starts,
               const int* lengths, const int* gold, const signed char* allowed, Real* workspace,
               Real* left, Score* result, Score* each, double* sums, double* values, int* passes,
               int n_iter, double relaxation, double tolerance, int rule, int lower, double scale,
               int capacity, long long tokens, int tags, long long stride) {
    const int b = blockIdx.x, length = lengths[b], size = WIDTH ? WIDTH : tags;
    if (length == 0) return;
    Real *rows = (Real*)(shared_memory + blockDim.x), *e = rows + 2 * TEAMS * size;
    long long cells = (long long)capacity * size;
    if (length > capacity) cells = tokens * size, e = workspace + starts[b] * size;
    const int factors = !HELD && left && (gold || allowed) ? 4 : 3;
    Real* totals = length > capacity ? workspace + factors * cells + starts[b] : e + 3 * cells;
    const int lanes = HELD ? TEAM : blockDim.x;
    Projections<Real> chain{{matrices, transposed, edge_shifts, stride, tags}, edge_lows, starts[b], length,
                            tags, {n_iter, relaxation, tolerance, rule, lower, scale}, e, e + 2 * cells,
                            e + cells, totals, rows, shared_memory, int(threadIdx.x) / lanes,
                            int(threadIdx.x) % lanes};
    const Gold annotation{gold, allowed, tags};
    Outputs to{tags, result, each};
    if (HELD) {
        chain.column_in.load(matrices, chain.lane, tags);
        chain.column_out.load(transposed, chain.lane, tags);
    }
#pragma unroll
    for (int v = 0; v < PART; ++v) chain.arcs[v] = 0;
    const int n_passes = annotation.kind(starts[b], length, (int*)shared_memory) == PARTIAL ? 2 : 1;
    bool is_failed = false;
    for (int pass = 0; pass < n_passes && !is_failed; ++pass) {
        to.subtract = pass == 1;
        if (!HELD && pass == 1 && left) chain.f += cells;
        // The bounds of the two values keep the loss from being negative.
        Real* left_here = !HELD && left ? left + pass * cells : nullptr;
        const double value = chain.run({unary, annotation, to.subtract}, to, left_here, sums,
                                       lower || to.subtract, is_failed);
        if (threadIdx.x == 0) values[pass * gridDim.x + b] = value;
        __syncthreads();
    }
    if (!is_failed && threadIdx.x == 0) passes[b] = n_passes;
    if (HELD && sums && !is_failed) chain.flush(sums);
}
