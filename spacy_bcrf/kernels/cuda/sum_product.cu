// Forward-backward of the linear-chain CRF in probability space, each token's row scaled by the sum
// of the one before it, so that there is no exp, log or reduction in the recursion.
#include "scan.cuh"

// A token's probability mass, of rows that sum to one, above which nothing that matters was lost to
// underflow: what was is below the smallest normal number.
constexpr Real TINY = sizeof(Real) == 4 ? Real(1e-24) : Real(1e-200);

// out = exp(scale (x - the largest x)) for each row of x; shifts: what was subtracted, lows: the
// smallest logarithm left, either may be null. One block a row, or several rows.
KERNEL exponentials(const Score* x, Real* out, double* shifts, double* lows, long long rows,
                    long long columns, double scale) {
    double* slots = shared_memory;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const Score* in = x + row * columns;
        double top = -infinity();
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) top = larger(top, double(in[c]));
        top = largest_of(top, slots);
        if (top == -infinity()) top = 0;
        double low = 0;
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) {
            const Real y = Real(in[c] - Score(top)) * Real(scale);
            out[row * columns + c] = exp(y);
            if (y < low && y > -infinity()) low = y;
        }
        if (lows) low = -largest_of(-low, slots);
        if (threadIdx.x == 0) {
            if (shifts) shifts[row] = top * scale;
            if (lows) lows[row] = low;
        }
    }
}

// The weight that arrives at a tag, y = (sum_u x[u] k[u]) / (sum_u x[u]), from the token before.
__device__ Real arrive(const Real* before, const Real* k, int from, int tags, Real& total) {
    Real y = total = 0;
    for (int u = 0; u < tags; ++u) {
        total += before[u];
        y += before[u] * k[(long long)u * from];
    }
    return total > 0 ? y / total : 0;
}

// alpha: x of the walk forwards; beta: y of the walk backwards. Segment s and direction d of grid
// (segments, 2). bounds (2, segments, tags), or null where segments are whole sequences: the row
// ahead of a segment, and the weight that arrives at its end backwards; opens[s]: whether it begins
// its sequence.
KERNEL passes(const Real* emission, const Real* matrices, const long long* starts,
              const int* lengths, const Real* bounds, const int* opens, Real* alpha, Real* beta,
              int tags, long long stride, int staged) {
    const int s = blockIdx.x;
    const bool back = blockIdx.y;
    const Real* bound = bounds ? bounds + ((back ? (long long)gridDim.x : 0) + s) * tags : nullptr;
    const Real* ahead = back || (opens && opens[s]) ? nullptr : bound;
    walk(emission, matrices, tags, stride, staged, back, starts[s], lengths[s], ahead,
         [&](long long token, int t, Real e, const Real* before, const Real* k, int from) {
             Real total, y = back && bound ? bound[t] : Real(1);
             if (before) y = arrive(before, k, from, tags, total);
             (back ? beta : alpha)[token * tags + t] = back ? y : e * y;
             return e * y;
         });
}

// The parallel scan: sequences in segments. Of segment s and tag r of grid (segments, tags), the row
// of weights at its last token, times exp(scales[s, r]), where all weight is at r before its first;
// if it opens its sequence, where it starts as that does, at r = 0. rows (segments, tags, tags),
// identity (tags, tags).
KERNEL transfers(const Real* emission, const Real* matrices, const long long* starts,
                 const int* lengths, const int* opens, const Real* identity, Real* rows,
                 double* scales, int tags, long long stride, int staged) {
    const int s = blockIdx.x, r = blockIdx.y;
    if (lengths[s] == 0 || (opens[s] && r > 0)) return;
    double product = 1, scale = 0;
    const Real* last =
        walk(emission, matrices, tags, stride, staged, false, starts[s], lengths[s],
             opens[s] ? nullptr : identity + (long long)r * tags,
             [&](long long, int t, Real e, const Real* before, const Real* k, int from) {
                 if (!before) return e;
                 Real total;
                 const Real y = arrive(before, k, from, tags, total);
                 if (t == 0) product *= total;
                 if (product < 1e-200 || product > 1e200) scale += log(product), product = 1;
                 return e * y;
             });
    const long long at = (long long)s * tags + r;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) rows[at * tags + t] = last[t];
    if (threadIdx.x == 0) scales[at] = scale + log(product);
}

// bounds (2, segments, tags) of `passes`. Sequence b and direction d of grid (B, 2); its segments are
// counts[b] from firsts[b] on.
KERNEL join(const Real* rows, const double* scales, const long long* firsts, const int* counts,
            Real* bounds, int segments, int tags) {
    double *here = shared_memory, *weights = here + tags, *slots = weights + tags;
    const bool back = blockIdx.y;
    const long long first = firsts[blockIdx.x], last = first + counts[blockIdx.x] - 1;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        here[t] = back ? 1 : rows[first * tags * tags + t];
        if (back) bounds[(segments + last) * tags + t] = 1;
    }
    __syncthreads();
    for (long long s = back ? last : first; back ? s > first : s < last; s += back ? -1 : 1) {
        // Forwards the first segment's weights are there already.
        double top = -infinity();
        for (int r = threadIdx.x; r < tags; r += blockDim.x) {
            double weight = here[r];
            if (back) {
                weight = 0;
                for (int t = 0; t < tags; ++t) weight += rows[(s * tags + r) * tags + t] * here[t];
            }
            weights[r] = log(weight) + (back || s > first ? scales[s * tags + r] : 0);
            top = larger(top, weights[r]);
        }
        top = largest_of(top, slots);
        for (int r = threadIdx.x; r < tags; r += blockDim.x)
            weights[r] = top > -infinity() ? exp(weights[r] - top) : 0;
        __syncthreads();
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            double weight = weights[t];
            if (!back && s > first) {
                weight = 0;
                for (int r = 0; r < tags; ++r) weight += weights[r] * rows[(s * tags + r) * tags + t];
            }
            here[t] = weight;
            bounds[(back ? segments + s - 1 : s + 1) * tags + t] = weight;
        }
        __syncthreads();
    }
}

// Of each token, one a block: marginals, where wanted; and what the arcs' probabilities are made of,
// left[i, u] k[u, v] right[i + 1, v], in place of alpha and beta, rows without an edge zero.
// logs: the token's part of log Z, shifts apart if those are null. failed: sequences in which
// something may have been lost to underflow.
KERNEL posteriors(const Real* emission, Real* alpha, Real* beta, const double* shifts,
                  const double* edge_shifts, const int* owners, const long long* starts,
                  const int* lengths, Score* node, double* logs, int* failed, int tags, int shared) {
    Real* slots = (Real*)shared_memory;
    const long long i = blockIdx.x;
    const int b = owners[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    alpha += i * tags, beta += i * tags, emission += i * tags;
    Real total = 0, mass = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        total += alpha[t];
        mass += alpha[t] * beta[t];
    }
    total = sum_of(total, slots);
    mass = sum_of(mass, slots);
    const bool certain = mass > TINY;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real a = alpha[t], y = beta[t];
        if (node) node[i * tags + t] = certain ? Score(a * y / mass) : Score(0);
        alpha[t] = certain && !is_last ? a / total : 0;
        beta[t] = certain && !is_first ? emission[t] * y / mass : 0;
    }
    if (threadIdx.x) return;
    if (!certain) failed[b] = 1;
    logs[i] = log(double(total));
    if (shifts) logs[i] += shifts[i] + (is_last ? 0.0 : edge_shifts[shared ? 0 : i]);
}

// (N, tags, tags), of each edge; zeros in the rows of last tokens. One block an edge.
KERNEL arcs(const Real* left, const Real* right, const Real* matrices, Score* each, int tags,
            long long stride) {
    const long long i = blockIdx.x;
    const int cells = tags * tags;
    for (int k = threadIdx.x; k < cells; k += blockDim.x) {
        const Real l = left[i * tags + k / tags];
        each[i * cells + k] =
            l > 0 ? Score(l * matrices[i * stride + k] * right[(i + 1) * tags + k % tags]) : Score(0);
    }
}

// (N, n), of tag heads[m] at a token and tails[m] at the next. One block a token.
KERNEL pairs(const Real* left, const Real* right, const Real* matrices, const int* heads,
             const int* tails, Score* out, int n, int tags, long long stride) {
    const long long i = blockIdx.x;
    for (int m = threadIdx.x; m < n; m += blockDim.x) {
        const Real l = left[i * tags + heads[m]];
        const Real k = matrices[i * stride + heads[m] * tags + tails[m]];
        out[i * n + m] = l > 0 ? Score(l * k * right[(i + 1) * tags + tails[m]]) : Score(0);
    }
}

// Adds to logs the expectation of what the token's scores, and those of its edge, fall behind their
// largest: with the log of the sum of what is left of Z that is the entropy. One block a token.
KERNEL costs(const Score* unary, const Score* transitions, const Real* left, const Real* right,
             const Real* matrices, const double* shifts, const double* edge_shifts,
             const Score* node, double* logs, int tags, long long stride) {
    double* slots = shared_memory;
    const long long i = blockIdx.x;
    double cost = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x)
        if (node[i * tags + t] > 0) cost += node[i * tags + t] * (shifts[i] - unary[i * tags + t]);
    for (int k = threadIdx.x; k < tags * tags; k += blockDim.x) {
        const Real l = left[i * tags + k / tags];
        if (!(l > 0)) continue;
        const double q = l * matrices[i * stride + k] * right[(i + 1) * tags + k % tags];
        if (q > 0) cost += q * (edge_shifts[stride ? i : 0] - transitions[i * stride + k]);
    }
    cost = sum_of(cost, slots);
    if (threadIdx.x == 0) logs[i] += cost;
}
