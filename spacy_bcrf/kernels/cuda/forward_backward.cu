// The forward-backward algorithm of the linear-chain CRF in probability space. One block runs on a
// tile: a sequence, or a chunk of a long one.
#include "registers.cuh"
#include "gold.cuh"
#include "outputs.cuh"

// With -DBCRF_WIDTH, the threads hold the shared transitions in registers, and the sums of their
// marginals. A tile is then a sequence, and its edges have no other output.
constexpr bool HELD = WIDTH > 0;

__device__ void sync_row() {
    if (HELD && WARPS == 1)
        __syncwarp();
    else
        __syncthreads();
}

// The recursions on one tile.
struct Chain {
    const Real *matrices, *transposed;  // exp(transitions), and its transpose or null
    const double* edge_shifts;
    long long stride, first;
    int length, tags;
    // The forward row ahead of the tile, and the backward row at its last token. Null where the
    // sequence starts or ends.
    const Real *ahead, *behind;
    Real *alpha, *tops, *totals;  // (N, tags), (N,), (N,): workspace, or null
    Real *rows, *scratch;         // in shared memory: three rows, and a double for each thread
    Real total_ahead, total;      // the sums of `ahead` and of the last forward row
    Column column;
    Real arcs[CELLS];  // the expected arcs from this thread's tag, divided by k

    __device__ int size() const { return WIDTH ? WIDTH : tags; }
    __device__ bool has_previous(int j) const { return j > 0 || (!HELD && ahead); }
    __device__ Real* row(int j) const { return rows + (j & 1) * size(); }

    __device__ Real message_to(int t, const Real* row, long long edge, bool backward) const {
        if (HELD) return column.message(row);
        const Real* k = matrices + edge * stride;
        return backward ? message_out(row, k, transposed, t, tags) : message_in(row, k, t, tags);
    }

    // Return the log-partition without the shifts of the scores. Add these to `shifts`.
    __device__ double forward(const Scores& scores, double& shifts) {
        if (HELD) column.load(matrices, threadIdx.x, tags);
        LogProduct product;
        Real part = 0;
        for (int t = threadIdx.x; t < tags && ahead; t += blockDim.x) part += row(-1)[t] = ahead[t];
        for (int j = 0; j < length; ++j) {
            const long long i = first + j;
            const bool has_previous = this->has_previous(j);
            Real top = -infinity();
            for (int t = threadIdx.x; t < tags; t += blockDim.x) top = larger(top, Real(scores(i, t)));
            top = largest_of(top, scratch);
            if (top == -infinity()) top = 0;
            shifts += top;
            if (has_previous) {
                total = sum_of(part, scratch);
                shifts += edge_shifts[stride ? i - 1 : 0];
                if (j == 0) total_ahead = total;
                if (j > 0) product.multiply(total);
                if (j > 0 && totals && threadIdx.x == 0) totals[i - 1] = total;
            }
            part = 0;
            for (int t = threadIdx.x; t < size(); t += blockDim.x) {
                Real y = t < tags ? exp(Real(scores(i, t)) - top) : Real(0);
                if (has_previous) {
                    const Real in = message_to(t, row(j - 1), i - 1, false);
                    y = total > 0 ? y * in / total : Real(0);
                }
                part += row(j)[t] = y;
                if (alpha && t < tags) alpha[i * tags + t] = y;
            }
            if (tops && threadIdx.x == 0) tops[i] = top;
            sync_row();
        }
        total = sum_of(part, scratch);
        if (totals && threadIdx.x == 0) totals[first + length - 1] = total;
        sync_row();
        product.multiply(total);
        return product.log_value();
    }

    // Visit each token and edge. right (N, tags), or null: with it, alpha and right become the factors
    // of the edge marginals alpha[i, u] k[u, v] right[i + 1, v]. Add this thread's part of the
    // expected shifts minus scores to `expected`. Return whether Real has the range.
    __device__ bool backward(const Scores& scores, const Score* transitions, const Outputs& to,
                             bool sums, Real* right, double& expected) {
        if (HELD) column.load(transposed, threadIdx.x, tags);
        Real *masses = rows + 2 * size(), part = 0, weight = 0;
        bool is_precise = true;
        for (int j = length - 1; j >= 0; --j) {
            const long long i = first + j;
            const bool has_next = j + 1 < length, is_last = !has_next && (HELD || !behind);
            const Real sum = has_next ? sum_of(part, scratch) : Real(1);
            Real *here = row(j), overlap = 0;
            part = 0;
            for (int t = threadIdx.x; t < size(); t += blockDim.x) {
                const bool is_tag = t < tags;
                const Real a = is_tag ? alpha[i * tags + t] : Real(0);
                const Real e = is_tag ? exp(Real(scores(i, t)) - tops[i]) : Real(0);
                Real beta = !HELD && behind && is_tag ? behind[t] : Real(is_tag);
                if (has_next) {
                    const Real head = sums ? weight * (a / totals[i]) : Real(0);
                    const Real in = HELD ? column.message(row(j + 1), to.subtract ? -head : head, arcs)
                                         : message_to(t, row(j + 1), i, true);
                    beta = sum > 0 ? in / sum : Real(0);
                }
                overlap += masses[t] = a * beta;
                part += here[t] = e * beta;
            }
            overlap = sum_of(overlap, scratch);
            weight = 1 / overlap;
            const bool has_previous = this->has_previous(j);
            const Real total_before = j > 0 ? totals[i - 1] : has_previous ? total_ahead : Real(1);
            // The weights are at most 1. Underflow comes before the divisions, by the smallest sum.
            Real least = total_before < sum ? total_before : sum;
            if (!(least < 1)) least = 1;
            is_precise &= overlap * least > bcrf::Precision<Real>::MIN_OVERLAP;
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                const Score p = Score(masses[t] / overlap);
                to.tag(i, t, p);
                if (to.entropies && p > 0) expected += p * (double(tops[i]) - scores(i, t));
            }
            if (!HELD && has_previous) {
                const Real *previous = j > 0 ? alpha + (i - 1) * tags : ahead, by = 1 / total_before;
                const long long edge = (i - 1) * stride;
                const double shift = edge_shifts[stride ? i - 1 : 0];
                to.edge(
                    i - 1,
                    [&](int u, int v) {
                        const long long cell = (long long)u * tags + v;
                        return previous[u] * by * (here[v] * weight) * matrices[edge + cell];
                    },
                    [&](int u, int v, Real q) {
                        expected += q * (shift - transitions[edge + (long long)u * tags + v]);
                    });
            }
            if (!HELD && is_last) to.last(i);
            for (int t = threadIdx.x; !HELD && t < tags && right; t += blockDim.x) {
                right[i * tags + t] = has_previous ? here[t] * weight : Real(0);
                alpha[i * tags + t] = is_last ? Real(0) : alpha[i * tags + t] / totals[i];
            }
        }
        return is_precise;
    }

    // Run all passes. Return whether Real has the range. See `forward_backward`.
    __device__ bool run(const Score* unary, const Score* transitions, const Gold& gold, Outputs to,
                        double* sums, Real* right, double* values) {
#pragma unroll
        for (int v = 0; v < CELLS; ++v) arcs[v] = 0;
        const int passes = gold.kind(first, length, (int*)scratch) == PARTIAL ? 2 : 1;
        bool is_precise = true;
        for (int pass = 0; pass < passes; ++pass) {
            to.subtract = pass == 1;
            const Scores scores{unary, gold, to.subtract};
            double shifts = 0, expected = 0;
            const double value = forward(scores, shifts);
            is_precise &= backward(scores, transitions, to, HELD && sums, right, expected);
            if (to.entropies) shifts = sum_of(expected, (double*)scratch);
            if (threadIdx.x == 0) values[pass * gridDim.x + blockIdx.x] = shifts + value;
            sync_row();
        }
        const int t = threadIdx.x;
#pragma unroll
        for (int v = 0; v < CELLS; ++v)
            if (HELD && sums && is_precise && v < tags && t < tags)
                atomicAdd(&sums[t * tags + v], double(arcs[v] * column.k[v]));
        return is_precise;
    }
};

// Grid (tiles,). The tiles are sequences, or with `bounds` the chunks of chunks.py.
// sums (tags, tags): with -DBCRF_WIDTH, the sums of the edge marginals; WARPS warps. Without it, alpha
// and right (N, tags) become their factors, see `backward`.
// values (2, tiles): the log-partition of each tile, or with `entropies` its part of the entropy. With
// partial gold, the second row is the restriction to gold, and the other results are differences.
// failed[b]: the results of sequence b exceed the range of Real; sums lack it.
// bounds (2, tiles, tags): see `chunk_bounds`. Other results: see Outputs.
// shared memory: three rows, and a double for each thread.
KERNEL forward_backward(const Score* unary, const Score* transitions, const Real* matrices,
                        const Real* transposed, const double* edge_shifts, const long long* starts,
                        const int* lengths, const long long* chunk_starts,
                        const int* chunk_lengths, const int* sequences, const long long* firsts,
                        const int* counts, const Real* bounds, const int* gold,
                        const signed char* allowed, Real* alpha, Real* tops, Real* totals, Real* right,
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
    Chain chain{matrices, transposed, edge_shifts, stride, first, length, tags,
                ahead,    behind,     alpha,       tops,   totals, rows,  scratch};
    if (!chain.run(unary, transitions, annotation, to, sums, right, values) && threadIdx.x == 0)
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
    Chain chain{matrices, nullptr, edge_shifts, stride,  starts[s], lengths[s], tags,
                ahead,    nullptr, nullptr,     nullptr, nullptr,   memory,     scratch};
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
