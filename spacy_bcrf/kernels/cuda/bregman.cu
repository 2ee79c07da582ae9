// Iterative Bregman projections on node factors; the mathematics is in ../cpu/bregman.hh. One block a
// token in all kernels but those that say otherwise. Rows of f and g are where `slots` says, those
// of tokens of one parity together, so that their products with shared transitions are one matrix
// product; `before` and `after` are these, rows of k^T g and k f, or null.
#include "messages.cuh"
#include "relaxation.cuh"

// What the finite scores around a token may span, and its factors in the end, for Real to hold
// every product of a score and a factor.
constexpr double MAX_RANGE = sizeof(Real) == 4 ? 60 : 600;
constexpr Real MAX_FACTOR = sizeof(Real) == 4 ? Real(1e30) : Real(1e280);

// Clears e of tags without an open tag before or after them. changed[b]: whether it found one; where
// `last`, the round before, found none, there is nothing to do.
KERNEL support(Real* e, const Real* matrices, const int* owners, const long long* starts,
               const int* lengths, const int* last, int* changed, int tags, long long stride) {
    const long long i = blockIdx.x;
    const int b = owners[i];
    if (last && !last[b]) return;
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    const Real *from = matrices + (i - 1) * stride, *to = matrices + i * stride;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        if (!(e[i * tags + t] > 0)) continue;
        bool reached = is_first, left = is_last;
        for (int u = 0; u < tags && !reached; ++u)
            reached = e[(i - 1) * tags + u] > 0 && from[(long long)u * tags + t] > 0;
        for (int v = 0; v < tags && !left; ++v)
            left = e[(i + 1) * tags + v] > 0 && to[(long long)t * tags + v] > 0;
        if (reached && left) continue;
        e[i * tags + t] = 0;
        changed[b] = 1;
    }
}

// The same from end to end and back, one block a sequence, where support went on finding some.
KERNEL prune(Real* e, const Real* matrices, const long long* starts, const int* lengths,
             const int* changed, int tags, long long stride) {
    const int b = blockIdx.x;
    if (!changed[b]) return;
    const long long first = starts[b], last = first + lengths[b] - 1;
    for (long long i = first + 1; i <= last; ++i) {
        const Real* k = matrices + (i - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            bool reached = false;
            for (int u = 0; u < tags && !reached; ++u)
                reached = e[(i - 1) * tags + u] > 0 && k[(long long)u * tags + t] > 0;
            if (!reached) e[i * tags + t] = 0;
        }
        __syncthreads();
    }
    for (long long i = last - 1; i >= first; --i) {
        const Real* k = matrices + i * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            bool left = false;
            for (int v = 0; v < tags && !left; ++v)
                left = e[(i + 1) * tags + v] > 0 && k[(long long)t * tags + v] > 0;
            if (!left) e[i * tags + t] = 0;
        }
        __syncthreads();
    }
}

// failed[b]: the sequence spans more than Real can hold, or has no allowed labeling.
KERNEL begin(const Real* e, const double* lows, const double* edge_lows, const int* owners,
             const int* slots, const long long* starts, const int* lengths, Real* f, Real* g,
             int* failed, int tags, int shared) {
    Real* sums = (Real*)shared_memory;
    const long long i = blockIdx.x, row = (long long)slots[i] * tags;
    const int b = owners[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    Real any = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real x = e[i * tags + t], root = sqrt(x);
        any += x;
        f[row + t] = is_last ? x : root;
        g[row + t] = is_first ? x : root;
    }
    any = sum_of(any, sums);
    const double low = lows[i] + (is_last ? 0.0 : edge_lows[shared ? 0 : i]);
    if (threadIdx.x == 0 && (!(any > 0) || low < -MAX_RANGE)) failed[b] = 1;
}

// Projects inner token i, relaxed by `excess` over 1.
__device__ void project_token(long long i, const Real* e, const Real* matrices, const int* slots,
                              const Real* before, const Real* after, Real* f, Real* g,
                              Real excess, long long* violation, int tags, long long stride) {
    Real *into_t = (Real*)shared_memory, *out_t = into_t + tags, *sums = out_t + tags;
    const long long here = (long long)slots[i] * tags, next = (long long)slots[i + 1] * tags;
    const long long last = (long long)slots[i - 1] * tags;
    const Real *k_in = matrices + (i - 1) * stride, *k_out = matrices + i * stride;
    Real sum_in = 0, sum_out = 0, gap = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real in = before ? before[last + t] : into(g + last, k_in, t, tags);
        const Real out = after ? after[next + t] : out_of(f + next, k_out, t, tags);
        const Real ev = e[i * tags + t], m = f[here + t] * in, n = g[here + t] * out;
        Real up = out, down = in;
        if (excess != 0) {
            up *= (1 + excess) * n + (1 - excess) * m + Real(SMALL);
            down *= (1 - excess) * n + (1 + excess) * m + Real(SMALL);
        }
        gap += fabs(m - n);
        const Real h = ev > 0 ? sqrt(ev / (up * down)) : Real(0);
        into_t[t] = h * up, out_t[t] = h * down;
        sum_in += into_t[t] * in;
        sum_out += out_t[t] * out;
    }
    sum_in = sum_of(sum_in, sums);
    sum_out = sum_of(sum_out, sums);
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        f[here + t] = into_t[t] / sum_in;
        g[here + t] = out_t[t] / sum_out;
    }
    if (!violation) return;
    gap = sum_of(gap, sums);
    // Doubles that are not negative are in the order of their bits.
    if (threadIdx.x == 0) atomicMax(violation, __double_as_longlong(double(gap)));
}

// Projects the tokens at odd places of their sequences, or the even ones (odd = 0). One block for
// two tokens, since mostly one of two is its business.
// omegas, violations (B,) and done (B,), or null if `excess` is that of all and none is watched.
KERNEL project(const Real* e, const Real* matrices, const int* owners, const int* slots,
               const long long* starts, const int* lengths, const Real* before, const Real* after,
               Real* f, Real* g, const int* failed, double excess, const double* omegas,
               long long* violations, const int* done, int odd, long long tokens, int tags,
               long long stride) {
    for (long long i = 2 * (long long)blockIdx.x; i < 2 * (long long)blockIdx.x + 2 && i < tokens; ++i) {
        const int b = owners[i];
        const long long place = i - starts[b];
        if (place % 2 != odd || place == 0 || place + 1 == lengths[b]) continue;
        if (failed[b] || (done && done[b])) continue;
        project_token(i, e, matrices, slots, before, after, f, g,
                      Real(omegas ? omegas[b] - 1 : excess), violations ? violations + b : nullptr,
                      tags, stride);
        __syncthreads();
    }
}

// After an iteration, a thread for each sequence: whether it is done, and the next relaxation, if 0
// the best by Young's theorem from the rate at which the last one converges.
KERNEL relax(long long* violations, double* last, double* omegas, int* done, int size,
             int is_first, double relaxation, double tolerance) {
    for (int b = blockIdx.x * blockDim.x + threadIdx.x; b < size; b += gridDim.x * blockDim.x) {
        const double violation = __longlong_as_double(violations[b]);
        violations[b] = 0;
        if (is_first) {
            omegas[b] = relaxation == 0 ? 1 : relaxation;
            last[b] = infinity();
        } else if (!done[b]) {
            if (violation <= tolerance) done[b] = 1;
            if (relaxation == 0) omegas[b] = estimate_relaxation(violation, last[b], omegas[b]);
            last[b] = violation;
        }
    }
}

// Marginals, each token's part of the dual value, and the arcs as left[i, u] k[u, v] right[i + 1, v]
// unless these are null.
KERNEL finish(const Real* e, const Real* matrices, const double* shifts, const double* edge_shifts,
              const int* owners, const int* slots, const long long* starts, const int* lengths,
              const Real* before, const Real* after, const Real* f, const Real* g, Score* node,
              Real* left, Real* right, double* logs, int* failed, int lower, int tags, long long stride) {
    double *mass = shared_memory, *slot = mass + tags;
    const long long i = blockIdx.x;
    const int b = owners[i], length = lengths[b];
    if (failed[b]) {
        for (int t = threadIdx.x; t < tags && left; t += blockDim.x)
            left[i * tags + t] = right[i * tags + t] = 0;
        return;
    }
    const bool is_first = i == starts[b], is_last = i == starts[b] + length - 1;
    const long long here = (long long)slots[i] * tags;
    double sum_e = 0, sum_fg = 0, z = 0, outside = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real fi = f[here + t], gi = g[here + t], ev = e[i * tags + t];
        Real in = 0, out = 0;
        if (!is_first) {
            const long long row = (long long)slots[i - 1] * tags;
            in = before ? before[row + t] : into(g + row, matrices + (i - 1) * stride, t, tags);
        }
        if (!is_last) {
            const long long row = (long long)slots[i + 1] * tags;
            out = after ? after[row + t] : out_of(f + row, matrices + i * stride, t, tags);
        }
        const Real m = is_first ? is_last ? ev : gi * out : fi * in;
        const Real n = is_last ? m : gi * out;
        mass[t] = (m + n) / 2;
        z += m;
        if (ev > 0 && !is_first && !is_last) {
            // Every factor of an allowed tag has to be well inside the range, or an arc was lost.
            if (!(fi < MAX_FACTOR && gi < MAX_FACTOR && fi > 1 / MAX_FACTOR && gi > 1 / MAX_FACTOR))
                outside = 1;
        }
        sum_e += ev;
        sum_fg += double(fi) * gi;
        if (left) left[i * tags + t] = is_last ? Real(0) : gi;
        if (right) right[i * tags + t] = is_first ? Real(0) : fi;
    }
    outside = largest_of(outside, slot);
    z = sum_of(z, slot);
    // f g is e up to a scale.
    sum_e = sum_of(sum_e, slot), sum_fg = sum_of(sum_fg, slot);
    double log_scale = is_first || is_last ? 0 : log(sum_fg / sum_e);
    if (length <= 2) {
        // No token was projected, so nothing is normalized yet.
        if (!(z > 1 / double(MAX_FACTOR))) outside = 1;
        if (is_first) log_scale = -log(z);
    } else {
        z = 1;
    }
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        node[i * tags + t] = Score(mass[t] / z);
        if (right) right[i * tags + t] /= Real(z);
    }
    if (threadIdx.x) return;
    if (outside > 0) failed[b] = 1;
    logs[i] = shifts[i] + (is_last ? 0.0 : edge_shifts[stride ? i : 0]);
    if (!lower || length == 1) logs[i] -= log_scale;
}

// Adds to the log of the first token of a sequence of several, one block a sequence, <p, w> + H(p),
// shifts apart, of the Markov chain p that starts as q and moves by q's conditionals: a point of the
// polytope.
KERNEL feasible(const Real* e, const Real* matrices, const int* slots, const long long* starts,
                const int* lengths, const Real* f, const Real* g, const int* failed, double* logs,
                int tags, long long stride) {
    double *p = shared_memory, *sums = p + tags;
    Real* x = (Real*)(sums + blockDim.x);
    const int b = blockIdx.x, length = lengths[b];
    if (length < 2 || failed[b]) return;
    const long long first = starts[b], last = first + length - 1;
    double value = 0;
    for (long long i = first; i <= last; ++i) {
        const Real *here = f + (long long)slots[i] * tags, *k = matrices + i * stride;
        const Real* next = i < last ? f + (long long)slots[i + 1] * tags : nullptr;
        double total = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            if (i == first)
                p[t] = double(g[(long long)slots[i] * tags + t]) * out_of(next, k, t, tags);
            else
                p[t] = double(here[t]) * into(x, k - stride, t, tags);
            total += p[t];
        }
        total = sum_of(total, sums);
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const double q = p[t] / total;
            const double out = next ? out_of(next, k, t, tags) : 1;
            x[t] = q > 0 ? Real(q / out) : Real(0);
            if (!(q > 0)) continue;
            value += q * log(double(e[i * tags + t]));
            if (i > first) value -= q * log(double(here[t]));
            if (next) value += q * (log(out) - log(q));
        }
        __syncthreads();
    }
    value = sum_of(value, sums);
    if (threadIdx.x == 0) logs[first] += value;
}
