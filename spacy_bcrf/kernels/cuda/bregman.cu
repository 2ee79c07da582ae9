// Iterative Bregman projections in probability space.
#include "projections.cuh"

// Grid (tiles,). The tiles are sequences, whose `step` is ALL, or the chunks of chunks.py, each step a
// launch. With -DBCRF_WIDTH: THREADS threads.
// k: the iteration to PROJECT, or the round of PRUNE. changed (LOCAL_PRUNINGS, B): whether the round
// cleared a tag, 0 before. states, violations: see `project_chunk`. These are null if step is ALL.
// With partial gold, result, each and sums are the difference between the potentials and their
// restriction to gold, and values (2, tiles) both bounds.
// result (N, tags): see projection::Unary, which `rule` selects. sums (tags, tags): with -DBCRF_WIDTH,
// the sums of the edge marginals. Without it, see `finish` about left (N, tags). each (N, tags, tags),
// left and sums may be null.
// failed[b]: Real lacks the range for sequence b, or no labeling is allowed; sums lack it.
// workspace (3 rows + 1, N): for sequences longer than `capacity`.
// shared memory: a double for each thread, two rows for each team, 3 rows and a number for each token
// of `capacity`.
KERNEL bregman(const Score* unary, const Real* matrices, const Real* transposed,
               const double* edge_shifts, const double* edge_lows, const long long* starts,
               const int* lengths, const long long* chunk_starts, const int* chunk_lengths,
               const int* sequences, const int* gold, const signed char* allowed, Real* workspace,
               Real* left, Score* result, Score* each, double* sums, double* values, int* failed,
               int* changed, double* states, long long* violations, int n_iter, double relaxation,
               double tolerance, int rule, int lower, double scale, int capacity, int batch,
               long long tokens, int tags, long long stride, int step, int k) {
    const int s = blockIdx.x, b = sequences ? sequences[s] : s, length = lengths[b];
    const int from = sequences ? int(chunk_starts[s] - starts[b]) : 0;
    const int end = sequences ? from + chunk_lengths[s] : length;
    if (end <= from || (step > EXPONENTIATE && failed[b])) return;
    const int size = WIDTH ? WIDTH : tags;
    Real *rows = (Real*)(shared_memory + blockDim.x), *e = rows + 2 * TEAMS * size;
    long long cells = (long long)capacity * size;
    if (length > capacity) cells = tokens * size, e = workspace + starts[b] * size;
    Real* totals = length > capacity ? workspace + 3 * cells + starts[b] : e + 3 * cells;
    const int lanes = HELD ? TEAM : blockDim.x;
    Projections<Real> chain{{matrices, transposed, edge_shifts, stride, tags}, edge_lows, starts[b], length,
                            tags, {n_iter, relaxation, tolerance, rule, lower, scale}, e, e + cells,
                            e + 2 * cells, totals, rows, shared_memory, int(threadIdx.x) / lanes,
                            int(threadIdx.x) % lanes};
    const Gold annotation{gold, allowed, tags};
    Outputs to{tags, result, each};
    double value = 0;
    int bad = 0;
    if (step == ALL) {
        if (HELD) {
            chain.column_in.load(matrices, chain.lane, tags);
            chain.column_out.load(transposed, chain.lane, tags);
        }
#pragma unroll
        for (int v = 0; v < PART; ++v) chain.arcs[v] = 0;
        const int passes = annotation.kind(starts[b], length, (int*)shared_memory) == PARTIAL ? 2 : 1;
        bool is_failed = false;
        for (int pass = 0; pass < passes && !is_failed; ++pass) {
            to.subtract = pass == 1;
            // The bounds of the two values keep the loss from being negative.
            value = chain.run({unary, annotation, to.subtract}, to, left, sums, lower || to.subtract,
                              is_failed);
            if (threadIdx.x == 0) values[pass * batch + b] = value;
            __syncthreads();
        }
        if (is_failed && threadIdx.x == 0) failed[b] = 1;
        if (HELD && sums && !is_failed) chain.flush(sums);
        return;
    }
    if (step == EXPONENTIATE) {
        bad = chain.exponentiate({unary, annotation, false}, from, end, value);
    } else if (step == PRUNE) {
        int* now = changed + (long long)k * batch + b;
        if (k > 0 && !now[-batch]) return;
        if (chain.prune(from, end) && threadIdx.x == 0) *now = 1;
    } else if (step == PRUNE_SCAN) {
        if (from == 0 && changed[(LOCAL_PRUNINGS - 1) * batch + b]) chain.prune_scan();
    } else if (step == INITIALIZE) {
        bad = chain.initialize(from, end);
    } else if (step == PROJECT) {
        chain.project_chunk(k, from, end, states, violations, b, batch);
    } else if (step == FINISH) {
        bad = chain.finish(from, end, to, left, lower, value);
        __syncthreads();
        if (lower && length > 1 && from == 0) value += chain.lower_bound();
        if (each) chain.visit_edges(from, end, to);
    }
    value = sum_of(value, shared_memory);
    bad = largest_of(bad, (int*)shared_memory);
    if (threadIdx.x) return;
    if (bad) failed[b] = 1;
    if (step == EXPONENTIATE) values[s] = value;
    if (step == FINISH) values[s] += value;
}
