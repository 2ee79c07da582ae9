// The forward-backward algorithm in probability space.
#include "forward_backward.cuh"

// Grid (tiles,). The tiles are sequences, or with `bounds` the chunks of chunks.py.
// sums (tags, tags): with -DBCRF_WIDTH, the sums of the edge marginals; WARPS warps. Without it, alpha
// and right (N, tags) become their factors, see `backward`.
// values (2, tiles): the log-partition of each tile, or with `entropies` its part of the entropy. With
// partial gold, the second row is the restriction to gold, and the other results are differences.
// failed[b]: the results of sequence b exceed the range of Real; sums lack it.
// bounds (2, tiles, tags): see `chunk_bounds`. Other results: see Outputs.
// shared memory: three rows, and a double for each thread.
KERNEL forward_backward(const Score* unary, const Real* matrices, const Real* transposed,
                        const double* edge_shifts, const long long* starts,
                        const int* lengths, const long long* chunk_starts,
                        const int* chunk_lengths, const int* sequences, const long long* firsts,
                        const int* counts, const Real* bounds, const int* gold,
                        const signed char* allowed, Real* alpha, Score* tops, Real* totals, Real* right,
                        Score* marginals, Score* each, double* sums, Score* pairs, const int* heads,
                        const int* tails, int n, int entropies, double* values, int* failed, int tags,
                        long long stride) {
    const int s = blockIdx.x, b = bounds ? sequences[s] : s;
    const int length = bounds ? chunk_lengths[s] : lengths[b];
    const long long first = bounds ? chunk_starts[s] : starts[b];
    if (length == 0) return;
    const Real *ahead = nullptr, *behind = nullptr;
    if (bounds && s > firsts[b]) ahead = bounds + (long long)s * tags;
    if (bounds && s + 1 < firsts[b] + counts[b])
        behind = bounds + ((long long)gridDim.x + s) * tags;
    Real *rows = (Real*)shared_memory, *scratch = (Real*)(shared_memory + 3 * (WIDTH ? WIDTH : tags));
    const Gold annotation{gold, allowed, tags};
    const Outputs to{tags, marginals, each, nullptr, pairs, heads, tails, n, !HELD && entropies, false};
    Chain<Real> chain{{matrices, transposed, edge_shifts, stride, tags}, first, length, tags, ahead,
                      behind, alpha, tops, totals, rows, scratch};
    if (!chain.run(unary, annotation, to, sums, right, values + s, gridDim.x) && threadIdx.x == 0)
        failed[b] = 1;
}

// Parallel scan over chunks. Chunk s and tag r of grid (chunks, tags): the forward row at the last
// token of s, if tag r has all weight ahead of s. It is rows[s, r] exp(scales[s, r]), without the
// shifts. A chunk that starts its sequence has the row r = 0 only.
// rows (chunks, tags, tags), scales (chunks, tags), identity (tags, tags).
// shared memory: three rows, and a double for each thread.
KERNEL chunk_transfers(const Score* unary, const Real* matrices, const double* edge_shifts,
                       const long long* starts, const int* lengths, const int* sequences,
                       const long long* firsts, const Real* identity, Real* rows, double* scales,
                       int tags, long long stride) {
    const int s = blockIdx.x, r = blockIdx.y;
    const bool is_start = s == firsts[sequences[s]];
    if (lengths[s] == 0 || (is_start && r > 0)) return;
    const Real* ahead = is_start ? nullptr : identity + (long long)r * tags;
    Real *memory = (Real*)shared_memory, *scratch = (Real*)(shared_memory + 3 * tags);
    Chain<Real> chain{{matrices, nullptr, edge_shifts, stride, tags}, starts[s], lengths[s], tags, ahead,
                      nullptr, nullptr, nullptr, nullptr, memory, scratch};
    double shifts = 0;
    const double scale = chain.forward({unary, {nullptr, nullptr, tags}, false}, shifts);
    const long long at = (long long)s * tags + r;
    for (int t = threadIdx.x; t < tags; t += blockDim.x)
        rows[at * tags + t] = chain.total > 0 ? chain.row(lengths[s] - 1)[t] / chain.total : Real(0);
    if (threadIdx.x == 0) scales[at] = scale;
}

// Set the bounds (2, chunks, tags) of `forward_backward`. Sequence b and direction d of grid (B, 2);
// sequence b has counts[b] chunks from firsts[b] on.
KERNEL chunk_bounds(const Real* rows, const double* scales, const long long* firsts,
                    const int* counts, Real* bounds, int chunks, int tags) {
    double *here = shared_memory, *weights = here + tags, *scratch = weights + tags;
    const bool backward = blockIdx.y;
    const long long first = firsts[blockIdx.x], last = first + counts[blockIdx.x] - 1;
    const int step = backward ? -1 : 1;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        here[t] = backward ? 1 : rows[first * tags * tags + t];
        if (backward) bounds[(chunks + last) * tags + t] = 1;
    }
    __syncthreads();
    for (long long s = backward ? last : first; backward ? s > first : s < last; s += step) {
        // `here` already holds the forward weights of the first chunk.
        double top = -infinity();
        for (int r = threadIdx.x; r < tags; r += blockDim.x) {
            double weight = here[r];
            if (backward) {
                weight = 0;
                for (int t = 0; t < tags; ++t) weight += rows[(s * tags + r) * tags + t] * here[t];
            }
            weights[r] = log(weight) + (backward || s > first ? scales[s * tags + r] : 0);
            top = larger(top, weights[r]);
        }
        top = largest_of(top, scratch);
        for (int r = threadIdx.x; r < tags; r += blockDim.x)
            weights[r] = top > -infinity() ? exp(weights[r] - top) : 0;
        __syncthreads();
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            double weight = weights[t];
            if (!backward && s > first) {
                weight = 0;
                for (int r = 0; r < tags; ++r) weight += weights[r] * rows[(s * tags + r) * tags + t];
            }
            here[t] = weight;
            bounds[(backward ? chunks + s - 1 : s + 1) * tags + t] = weight;
        }
        __syncthreads();
    }
}
