// The forward-backward algorithm of the linear-chain CRF. One block runs on a sequence.
#ifndef BCRF_CUDA_FORWARD_BACKWARD_CUH
#define BCRF_CUDA_FORWARD_BACKWARD_CUH
#include "registers.cuh"
#include "gold.cuh"
#include "numbers.cuh"
#include "outputs.cuh"

// With -DBCRF_WIDTH, the threads hold the shared transitions in registers, and the sums of their
// marginals. Its edges then have no other output.
constexpr bool HELD = WIDTH > 0;

__device__ void sync_row() {
    if (HELD && WARPS == 1)
        __syncwarp();
    else
        __syncthreads();
}

// Whether Real has kept the weights of a token. overlap: the scalar product of its forward and backward
// weights; before: the smallest sum before they were divided.
__device__ inline bool is_kept(Real overlap, Real before) {
    // The weights are at most 1. Underflow comes before the divisions, by the smallest sum.
    return overlap * (before < 1 ? before : Real(1)) > bcrf::Precision<Real>::MIN_OVERLAP;
}
__device__ inline bool is_kept(Log, Log) { return true; }

// values (2, B): the log-partition of each sequence, or with `to.entropies` its entropy. With partial gold, the second
// row is the restriction to gold, and the other results are differences.
// passes[b]: the passes of sequence b, 2 with partial gold; 0 if its results exceed the range of Real. Sums lack it then.
// alpha (tokens, tags): workspace. With right (2, tokens, tags), or without gold (tokens, tags), both become factors of
// the edge marginals, see `backward` and products.cu.
struct Args {
    Batch batch;
    Matrices k;
    Gold gold;
    Outputs to;
    Losses loss;
    double *values, *workspace, *totals;  // workspace (tokens, tags) and totals (tokens,): Real or Log
    int* passes;
    Real *alpha, *right;
    Score* tops;  // (tokens,): workspace
};

// The recursions on one sequence, over numbers N.
template <class N> struct Chain {
    const Args& args;
    Outputs to;
    N *alpha, *right;   // see Args; right may be null
    N *rows, *scratch;  // in shared memory: three rows, and a number for each thread
    Arcs<N> transitions{args.batch, args.k, 1};
    N* totals = (N*)args.totals;
    const int tags = args.batch.tags, length = args.batch.lengths[blockIdx.x];
    const long long first = args.batch.starts[blockIdx.x];
    N total = 0;  // the sum of the last forward row
    Column column;
    Real arcs[CELLS];  // the expected arcs from this thread's tag, divided by k

    __device__ int size() const { return WIDTH ? WIDTH : tags; }
    __device__ N* row(int j) const { return rows + (j & 1) * size(); }

    // Return the log-partition without the shifts of the scores. Add these to `shifts`.
    __device__ double forward(const Scores& scores, double& shifts) {
        if constexpr (HELD) column.load(args.k.matrices, threadIdx.x, tags);
        LogProduct product;
        N part = 0;
        for (int j = 0; j < length; ++j) {
            const long long i = first + j;
            Score top = -infinity();
            for (int t = threadIdx.x; t < tags; t += blockDim.x) top = larger(top, scores(i, t));
            top = largest_of(top, (Score*)scratch);
            if (top == -infinity()) top = 0;
            shifts += top;
            if (j > 0) {
                total = sum_of(part, scratch);
                shifts += transitions.shift(i - 1);
                product.multiply(total);
                if (threadIdx.x == 0) totals[i - 1] = total;
            }
            part = 0;
            for (int t = threadIdx.x; t < size(); t += blockDim.x) {
                N y = t < tags ? exponential<N>(scores(i, t), top) : N(0);
                if (j > 0) {
                    N in;
                    if constexpr (HELD)
                        in = column.message(row(j - 1));
                    else
                        in = transitions.in(row(j - 1), i - 1, t);
                    y = total > 0 ? y * in / total : N(0);
                }
                part += row(j)[t] = y;
                if (t < tags) alpha[i * tags + t] = y;
            }
            if (threadIdx.x == 0) args.tops[i] = top;
            sync_row();
        }
        total = sum_of(part, scratch);
        if (threadIdx.x == 0) totals[first + length - 1] = total;
        sync_row();
        product.multiply(total);
        return product.log_value();
    }

    // Visit each token and edge. With `right`, alpha and right become the factors of the edge marginals
    // alpha[i, u] k[u, v] right[i + 1, v]. Add this thread's part of the entropy to `entropy`: H(last tag), and
    // H(tag | next tag) of the other tokens. Return whether N has the range.
    __device__ bool backward(const Scores& scores, double& entropy) {
        if constexpr (HELD) column.load(args.k.transposed, threadIdx.x, tags);
        N *masses = rows + 2 * size(), part = 0, weight = 0;
        bool is_precise = true;
        for (int j = length - 1; j >= 0; --j) {
            const long long i = first + j;
            const bool has_next = j + 1 < length, has_previous = j > 0;
            const N sum = has_next ? sum_of(part, scratch) : N(1);
            N *here = row(j), overlap = 0;
            part = 0;
            for (int t = threadIdx.x; t < size(); t += blockDim.x) {
                const bool is_tag = t < tags;
                const N a = is_tag ? alpha[i * tags + t] : N(0);
                const N e = is_tag ? exponential<N>(scores(i, t), args.tops[i]) : N(0);
                N beta = is_tag;
                if (has_next) {
                    N out;
                    if constexpr (HELD) {
                        const N head = args.to.sums ? weight * (a / totals[i]) : N(0);
                        out = column.message(row(j + 1), to.subtract ? -head : head, arcs);
                    } else {
                        out = transitions.out(row(j + 1), i, t);
                    }
                    beta = sum > 0 ? out / sum : N(0);
                }
                overlap += masses[t] = a * beta;
                part += here[t] = e * beta;
            }
            overlap = sum_of(overlap, scratch);
            weight = 1 / overlap;
            const N total_before = has_previous ? totals[i - 1] : N(1);
            is_precise &= is_kept(overlap, sum > total_before ? total_before : sum);
            const Share share = normalize(tags, [&](int t) { return masses[t]; }, overlap);
            const auto probability = [&](int t) { return share.of(masses[t]); };
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                const double p = probability(t);
                to.tag(i, t, Score(p));
                if (to.entropies && !has_next && p > 0) entropy -= p * log(p);
            }
            if (!HELD && has_previous) {
                const N *previous = alpha + (i - 1) * tags, by = 1 / total_before;
                const auto arc = [&](int u, int v) {
                    return previous[u] * by * (here[v] * weight) * transitions.at(i - 1, u, v);
                };
                const int cells = to.has_edges() ? tags * tags : 0;
                const Share of_arcs = normalize(cells, [&](int c) { return arc(c / tags, c % tags); }, 1);
                to.edge(
                    i - 1, [&](int u, int v) { return of_arcs.of(arc(u, v)); },
                    [&](int, int v, double q) {
                        const double p = probability(v);
                        if (p > q) entropy += q * (log(p) - log(q));
                    });
            }
            if (!HELD && !has_next) to.last(i);
            if constexpr (!HELD && !IS_LOG<N>)
                for (int t = threadIdx.x; t < tags && right; t += blockDim.x) {
                    right[i * tags + t] = here[t] * weight, alpha[i * tags + t] = alpha[i * tags + t] / totals[i];
                }
        }
        return is_precise;
    }

    // The share of a number in the sum of several, top * sum.
    struct Share {
        N top;
        decltype(plain(N())) sum;

        __device__ auto of(N x) const { return plain(x / top) / sum; }
    };

    // Return the shares of x(c), whose sum is `total` but for the rounding errors of logarithms. A huge logarithm
    // has no digits for a sum, so the sum is of numbers that are divided by the largest one.
    template <class X> __device__ Share normalize(int cells, X x, N total) const {
        if constexpr (IS_LOG<N>) {
            N top = 0;
            for (int c = threadIdx.x; c < cells; c += blockDim.x) top = larger(top, x(c));
            top = largest_of(top, scratch);
            double sum = 0;
            for (int c = threadIdx.x; c < cells; c += blockDim.x) sum += plain(x(c) / top);
            sum = sum_of(sum, (double*)scratch);
            return {top, sum > 0 ? sum : 1};
        }
        return {total, 1};
    }

    // Run a pass, or with partial gold two. Return whether N has the range.
    __device__ bool run(GoldKind kind) {
#pragma unroll
        for (int v = 0; v < CELLS; ++v) arcs[v] = 0;
        bool is_precise = true;
        for (int pass = 0; pass < (kind == PARTIAL ? 2 : 1); ++pass) {
            to.subtract = pass == 1;
            if (!HELD && pass == 1 && right) alpha += args.batch.tokens * tags, right += args.batch.tokens * tags;
            const Scores scores{args.batch.unary, args.gold, to.subtract};
            double shifts = 0, entropy = 0;
            double value = forward(scores, shifts);
            value += shifts;
            is_precise &= backward(scores, entropy);
            entropy = sum_of(entropy, (double*)scratch);
            if (threadIdx.x == 0)
                args.values[pass * gridDim.x + blockIdx.x] = to.entropies && total > 0 ? larger(entropy, 0.0) : value;
            sync_row();
        }
        if constexpr (HELD) {
            const int t = threadIdx.x;
#pragma unroll
            for (int v = 0; v < CELLS; ++v)
                if (args.to.sums && is_precise && v < tags && t < tags)
                    atomicAdd(&args.to.sums[t * tags + v], double(arcs[v] * column.k[v]));
        }
        return is_precise;
    }
};

#endif
