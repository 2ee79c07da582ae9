// The forward-backward algorithm of the linear-chain CRF, one block a sequence and one thread a tag.
// All passes of a sequence are one launch.
#include "registers.cuh"
#include "gold.cuh"
#include "../shared/precision.hh"

__device__ void sync_row() {
    if (WARPS == 1)
        __syncwarp();
    else
        __syncthreads();
}

// One sequence. SHARED: all edges share the transitions, which `column` and `sums` have in registers.
template <bool SHARED>
struct Chain {
    const Real *matrices, *transposed;
    const double* edge_shifts;
    long long first;
    int length, tags;
    Real *alpha, *tops, *totals;   // (N, tags), (N,), (N,): workspace
    Score *marginals, *each;       // (N, tags), (N, tags, tags), or null
    Real *rows, *heads, *scratch;  // in shared memory: two rows, one row, and one number a warp
    Column column;
    Real arcs[WIDTH];  // the expected arcs from this thread's tag, divided by k

    __device__ Real message(const Real* row, long long edge, bool backward) const {
        if (SHARED) return column.message(row);
        const int t = threadIdx.x;
        const Real* k = matrices + edge * tags * tags + (backward ? t * tags : t);
        Real sum = 0;
        for (int u = 0; u < tags && t < tags; ++u) sum += row[u] * k[backward ? u : u * tags];
        return sum;
    }

    // Return the log-partition.
    __device__ double forward(const Scores& scores) {
        const int t = threadIdx.x;
        if (SHARED) column.load(matrices, t, tags);
        Real a = 0;
        LogProduct product;
        double logs = 0;
        for (int j = 0; j < length; ++j) {
            const long long i = first + j;
            const Real x = t < tags ? Real(scores(i, t)) : Real(-infinity());
            Real top = largest_of(x, scratch);
            if (top == -infinity()) top = 0;
            Real y = exp(x - top);
            if (j > 0) {
                const Real* row = rows + (j + 1) % 2 * WIDTH;
                const Real total = sum_of(a, scratch), in = message(row, i - 1, false);
                y = total > 0 ? y * in / total : Real(0);
                product.multiply(total);
                if (t == 0) totals[i - 1] = total;
                logs += edge_shifts[SHARED ? 0 : i - 1];
            }
            a = y;
            logs += top;
            if (t < WIDTH) rows[j % 2 * WIDTH + t] = a;
            if (t < tags) alpha[i * tags + t] = a;
            if (t == 0) tops[i] = top;
            sync_row();
        }
        const Real total = sum_of(a, scratch);
        if (t == 0) totals[first + length - 1] = total;
        sync_row();
        product.multiply(total);
        return logs + product.log_value();
    }

    // Set the marginals, or subtract them if `restricted`. Return whether Real has the range.
    __device__ bool backward(const Scores& scores, bool sums) {
        const int t = threadIdx.x;
        if (SHARED) column.load(transposed, t, tags);
        const Real sign = scores.restricted ? -1 : 1;
        const bool is_tag = t < tags;
        bool is_precise = true;
        Real right = 0, weight = 0;  // of the next token
        for (int j = length - 1; j >= 0; --j) {
            const long long i = first + j;
            const Real a = is_tag ? alpha[i * tags + t] : Real(0);
            const Real e = is_tag ? exp(Real(scores(i, t)) - tops[i]) : Real(0);
            Real beta = is_tag, least = 1;  // the smallest sum by which a weight of this token was divided
            if (j > 0 && totals[i - 1] < least) least = totals[i - 1];
            if (j + 1 < length) {
                const Real* next = rows + (j + 1) % 2 * WIDTH;
                const Real sum = sum_of(right, scratch), head = sign * weight * (a / totals[i]);
                const Real in = SHARED ? column.message(next, sums ? head : Real(0), arcs)
                                       : message(next, i, true);
                beta = sum > 0 ? in / sum : Real(0);
                if (sum < least) least = sum;
                if (each) add_arcs(i, head, right, scores.restricted);
            } else if (each && !scores.restricted) {
                for (int u = 0; u < tags && is_tag; ++u) each[(i * tags + u) * tags + t] = 0;
            }
            const Real overlap = sum_of(a * beta, scratch);
            // The weights are at most 1. Underflow comes before the divisions.
            is_precise &= overlap * least > bcrf::Precision<Real>::MIN_OVERLAP;
            weight = 1 / overlap;
            if (marginals && is_tag) {
                Score& p = marginals[i * tags + t];
                p = Score(a * beta / overlap) * Score(sign) + (scores.restricted ? p : Score(0));
            }
            right = e * beta;
            if (t < WIDTH) rows[j % 2 * WIDTH + t] = right;
            sync_row();
        }
        return is_precise;
    }

    // Set the marginals of an edge, or add to them. head, right: this thread's numbers.
    __device__ void add_arcs(long long i, Real head, Real right, bool add) const {
        const int t = threadIdx.x;
        if (t < WIDTH) heads[t] = head;
        sync_row();
        const Real* k = matrices + (SHARED ? 0 : i * tags * tags);
        for (int u = 0; u < tags && t < tags; ++u) {
            Score& q = each[(i * tags + u) * tags + t];
            q = Score(heads[u] * right * k[u * tags + t]) + (add ? q : Score(0));
        }
        sync_row();
    }

    // Add the expected arcs, which both passes have collected.
    __device__ void flush(double* sums) const {
        const int t = threadIdx.x;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v)
            if (v < tags && t < tags) atomicAdd(&sums[t * tags + v], double(arcs[v] * column.k[v]));
    }
};

template <bool SHARED>
__device__ void run(const Score* unary, const Real* matrices, const Real* transposed,
                    const double* edge_shifts, const long long* starts, const int* lengths,
                    const Gold& gold, Real* alpha, Real* tops, Real* totals, Score* marginals,
                    Score* each, double* sums, double* values, int* failed, int size) {
    const int b = blockIdx.x;
    Real *rows = (Real*)shared_memory, *heads = rows + 2 * WIDTH, *scratch = heads + WIDTH;
    Chain<SHARED> chain{matrices, transposed, edge_shifts, starts[b], lengths[b], gold.tags, alpha,
                        tops,     totals,     marginals,   each,      rows,       heads,     scratch};
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) chain.arcs[v] = 0;
    const int passes = gold.kind(chain.first, chain.length, (int*)scratch) == PARTIAL ? 2 : 1;
    bool is_precise = true;
    for (int pass = 0; pass < passes; ++pass) {
        const Scores scores{unary, gold, pass == 1};
        const double value = chain.forward(scores);
        is_precise &= chain.backward(scores, sums);
        if (threadIdx.x == 0) values[pass * size + b] = value;
        sync_row();
    }
    if (!is_precise) {
        if (threadIdx.x == 0) failed[b] = 1;
    } else if (SHARED && sums) {
        chain.flush(sums);
    }
}

// Grid (B,), 32 or 64 threads. With partial gold, marginals, each and sums are the difference between
// the potentials and their restriction to gold; values (2, B) are both log-partitions.
// marginals (N, tags), each (N, tags, tags) and sums (tags, tags) may be null.
// failed[b]: the results of sequence b exceed the range of Real; sums lack it.
// shared memory: three rows of WIDTH.
KERNEL crf(const Score* unary, const Real* matrices, const Real* transposed, const double* edge_shifts,
           const long long* starts, const int* lengths, const int* gold, const signed char* allowed,
           Real* alpha, Real* tops, Real* totals, Score* marginals, Score* each, double* sums,
           double* values, int* failed, int size, int tags) {
    const Gold annotation{gold, allowed, tags};
    if (lengths[blockIdx.x] == 0) return;
    if (transposed)
        run<true>(unary, matrices, transposed, edge_shifts, starts, lengths, annotation, alpha, tops,
                  totals, marginals, each, sums, values, failed, size);
    else
        run<false>(unary, matrices, transposed, edge_shifts, starts, lengths, annotation, alpha, tops,
                   totals, marginals, each, sums, values, failed, size);
}
