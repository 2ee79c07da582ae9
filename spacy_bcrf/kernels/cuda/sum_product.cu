// The forward-backward algorithm of the linear-chain CRF in probability space. The sum of the previous
// token's row scales each row, so the recursion needs no exp, log or reduction.
#include "scan.cuh"
#include "../shared/precision.hh"

// out = exp(scale (x - max x)) for each row of x. shifts: scale max x. lows: the smallest finite
// logarithm in out. One block for one or more rows.
KERNEL exponentials(const Score* x, Real* out, double* shifts, double* lows, long long rows,
                    long long columns, double scale) {
    double* scratch = shared_memory;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const Score* in = x + row * columns;
        double top = -infinity();
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) top = larger(top, double(in[c]));
        top = largest_of(top, scratch);
        if (top == -infinity()) top = 0;
        double low = 0;
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) {
            const Real y = Real(in[c] - Score(top)) * Real(scale);
            out[row * columns + c] = exp(y);
            if (y < low && y > -infinity()) low = y;
        }
        low = -largest_of(-low, scratch);
        if (threadIdx.x == 0) shifts[row] = top * scale, lows[row] = low;
    }
}

// The weight that a tag gets from the previous token, sum_u x[u] k[u] / total. total: the sum of x. Products
// before the division could underflow.
__device__ Real transfer(const Real* previous, Real total, const Real* k, int from, int tags) {
    const Real by = total > 0 ? 1 / total : Real(0);
    Real y = 0;
    for (int u = 0; u < tags; ++u) y += previous[u] * by * k[(long long)u * from];
    return y;
}

// alpha (N, tags): the forward weights, with the token's emissions. beta (N, tags): the backward
// weights, without them. Segment s and direction d of grid (segments, 2).
// bounds (2, segments, tags): the forward row ahead of each segment, and the backward weights at its
// end; null if segments are whole sequences. is_start[s]: whether s starts its sequence.
KERNEL forward_backward(const Real* emission, const Real* matrices, const long long* starts,
                        const int* lengths, const Real* bounds, const int* is_start, Real* alpha,
                        Real* beta, int tags, long long stride, int cached) {
    const int s = blockIdx.x;
    const bool backward = blockIdx.y;
    const long long row = (backward ? (long long)gridDim.x : 0) + s;
    const Real* bound = bounds ? bounds + row * tags : nullptr;
    const Real* initial = backward || (is_start && is_start[s]) ? nullptr : bound;
    scan<true>(emission, matrices, tags, stride, cached, backward, starts[s], lengths[s], initial,
               [&](long long token, int t, Real e, const Real* previous, Real total, const Real* k,
                   int from) {
                   Real y = backward && bound ? bound[t] : Real(1);
                   if (previous) y = transfer(previous, total, k, from, tags);
                   (backward ? beta : alpha)[token * tags + t] = backward ? y : e * y;
                   return e * y;
               });
}

// Parallel scan over segments. Segment s and tag r of grid (segments, tags): the forward weights at
// the last token of s, if tag r has all weight ahead of s. They are rows[s, r] exp(scales[s, r]). A
// segment that starts its sequence has the row r = 0 only.
// rows (segments, tags, tags), scales (segments, tags), identity (tags, tags).
KERNEL segment_transfers(const Real* emission, const Real* matrices, const long long* starts,
                         const int* lengths, const int* is_start, const Real* identity, Real* rows,
                         double* scales, int tags, long long stride, int cached) {
    const int s = blockIdx.x, r = blockIdx.y;
    if (lengths[s] == 0 || (is_start[s] && r > 0)) return;
    LogProduct product;
    const Real* last = scan<true>(
        emission, matrices, tags, stride, cached, false, starts[s], lengths[s],
        is_start[s] ? nullptr : identity + (long long)r * tags,
        [&](long long, int t, Real e, const Real* previous, Real total, const Real* k, int from) {
            if (!previous) return e;
            const Real y = transfer(previous, total, k, from, tags);
            if (t == 0) product.multiply(total);
            return e * y;
        });
    const long long at = (long long)s * tags + r;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) rows[at * tags + t] = last[t];
    if (threadIdx.x == 0) scales[at] = product.log_value();
}

// Set the bounds (2, segments, tags) of `forward_backward`. Sequence b and direction d of grid (B, 2);
// sequence b has counts[b] segments from firsts[b] on.
KERNEL segment_bounds(const Real* rows, const double* scales, const long long* firsts,
                      const int* counts, Real* bounds, int segments, int tags) {
    double *here = shared_memory, *weights = here + tags, *scratch = weights + tags;
    const bool backward = blockIdx.y;
    const long long first = firsts[blockIdx.x], last = first + counts[blockIdx.x] - 1;
    const int step = backward ? -1 : 1;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        here[t] = backward ? 1 : rows[first * tags * tags + t];
        if (backward) bounds[(segments + last) * tags + t] = 1;
    }
    __syncthreads();
    for (long long s = backward ? last : first; backward ? s > first : s < last; s += step) {
        // `here` already holds the forward weights of the first segment.
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
            bounds[(backward ? segments + s - 1 : s + 1) * tags + t] = weight;
        }
        __syncthreads();
    }
}

// One block a token. marginals (N, tags), or null: tag marginals. alpha and beta become the factors
// left and right of the edge marginals left[i, u] k[u, v] right[i + 1, v]; rows without an edge are 0.
// logs: the token's part of the log-partition, without the shifts if these are null.
// failed: sequences that underflow may have changed. The test is on the overlap of alpha and beta,
// because beta is normalized by itself. The CPU kernels divide beta by the overlap and test beta.
KERNEL tag_marginals(const Real* emission, Real* alpha, Real* beta, const double* shifts,
                     const double* edge_shifts, const int* segment_ids, const long long* starts,
                     const int* lengths, Score* marginals, double* logs, int* failed, int tags,
                     int shared) {
    Real* scratch = (Real*)shared_memory;
    const long long i = blockIdx.x;
    const int b = segment_ids[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    alpha += i * tags, beta += i * tags, emission += i * tags;
    Real total = 0, overlap = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        total += alpha[t];
        overlap += alpha[t] * beta[t];
    }
    total = sum_of(total, scratch);
    overlap = sum_of(overlap, scratch);
    const bool precise = overlap > bcrf::Precision<Real>::MIN_OVERLAP;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real a = alpha[t], y = beta[t];
        if (marginals) marginals[i * tags + t] = precise ? Score(a * y / overlap) : Score(0);
        alpha[t] = precise && !is_last ? a / total : 0;
        beta[t] = precise && !is_first ? emission[t] * y / overlap : 0;
    }
    if (threadIdx.x) return;
    if (!precise) failed[b] = 1;
    logs[i] = log(double(total));
    if (shifts) logs[i] += shifts[i] + (is_last ? 0.0 : edge_shifts[shared ? 0 : i]);
}

// each (N, tags, tags): edge marginals; 0 in the rows of last tokens. One block an edge.
KERNEL edge_marginals(const Real* left, const Real* right, const Real* matrices, Score* each, int tags,
                      long long stride) {
    const long long i = blockIdx.x;
    const int cells = tags * tags;
    for (int k = threadIdx.x; k < cells; k += blockDim.x) {
        const Real l = left[i * tags + k / tags];
        each[i * cells + k] =
            l > 0 ? Score(l * matrices[i * stride + k] * right[(i + 1) * tags + k % tags]) : Score(0);
    }
}

// out (N, n): marginals of tag heads[m] at a token and tails[m] at the next. One block a token.
KERNEL pair_marginals(const Real* left, const Real* right, const Real* matrices, const int* heads,
                      const int* tails, Score* out, int n, int tags, long long stride) {
    const long long i = blockIdx.x;
    for (int m = threadIdx.x; m < n; m += blockDim.x) {
        const Real l = left[i * tags + heads[m]];
        const Real k = matrices[i * stride + heads[m] * tags + tails[m]];
        out[i * n + m] = l > 0 ? Score(l * k * right[(i + 1) * tags + tails[m]]) : Score(0);
    }
}

// Add to logs the expected shift - score of each token and of its edge. If logs has no shifts, the sum
// over tokens is then the entropy, log-partition - E[score]. One block a token.
KERNEL subtract_expected_scores(const Score* unary, const Score* transitions, const Real* left,
                                const Real* right, const Real* matrices, const double* shifts,
                                const double* edge_shifts, const Score* marginals, double* logs,
                                int tags, long long stride) {
    double* scratch = shared_memory;
    const long long i = blockIdx.x;
    double expected = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Score p = marginals[i * tags + t];
        if (p > 0) expected += p * (shifts[i] - unary[i * tags + t]);
    }
    for (int k = threadIdx.x; k < tags * tags; k += blockDim.x) {
        const Real l = left[i * tags + k / tags];
        if (!(l > 0)) continue;
        const double q = l * matrices[i * stride + k] * right[(i + 1) * tags + k % tags];
        if (q > 0) expected += q * (edge_shifts[stride ? i : 0] - transitions[i * stride + k]);
    }
    expected = sum_of(expected, scratch);
    if (threadIdx.x == 0) logs[i] += expected;
}
