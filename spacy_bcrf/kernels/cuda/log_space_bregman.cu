// The end of Bregman projections: values of sequences, and those again in log space and double
// precision whose scores span more than the fast projections can represent, or that have no allowed
// labeling. One block a sequence.
#include "block.cuh"
#include "relaxation.cuh"

// Everything of one sequence that the projections read and write, as logarithms; tokens are flat.
struct Chain {
    const Score *unary, *transitions;
    double *u, *f, *g;  // (N, tags)
    long long first, last, stride;
    int tags;
    double scale;
    double *a, *b, *slots;  // rows in shared memory, and one double for each thread

    __device__ double w(long long i, int s, int t) const {
        return scale * transitions[i * stride + (long long)s * tags + t];
    }
    __device__ double into(long long i, int t) const {
        return log_sum(tags, [&](int s) { return w(i - 1, s, t) + g[(i - 1) * tags + s]; });
    }
    __device__ double out_of(long long i, int t) const {
        return log_sum(tags, [&](int v) { return w(i, t, v) + f[(i + 1) * tags + v]; });
    }
    __device__ double total(const double* row) const {
        return log_sum(tags, [&](int t) { return row[t]; });
    }

    // u of tags that an allowed labeling uses, and the f and g to start from; false if a token has
    // no such tag.
    __device__ bool begin() const {
        const double dead = -infinity();
        for (long long i = first; i <= last; ++i) {
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                bool reached = i == first;
                for (int s = 0; s < tags && !reached; ++s)
                    reached = u[(i - 1) * tags + s] > dead && w(i - 1, s, t) > dead;
                u[i * tags + t] = reached ? scale * unary[i * tags + t] : dead;
            }
            __syncthreads();
        }
        for (long long i = last; i >= first; --i) {
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                bool left = i == last;
                for (int v = 0; v < tags && !left; ++v)
                    left = u[(i + 1) * tags + v] > dead && w(i, t, v) > dead;
                if (!left) u[i * tags + t] = dead;
                const double x = u[i * tags + t];
                f[i * tags + t] = i == last ? x : x / 2;
                g[i * tags + t] = i == first ? x : x / 2;
            }
            __syncthreads();
        }
        return total(u + first * tags) > dead;
    }

    __device__ double project(long long i, double excess) const {
        double *fi = f + i * tags, *gi = g + i * tags, gap = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            a[t] = fi[t] + into(i, t), b[t] = gi[t] + out_of(i, t);
        __syncthreads();
        const double sum_in = total(a), sum_out = total(b);
        __syncthreads();
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            if (u[i * tags + t] == -infinity()) continue;
            const double log_in = a[t] - sum_in, log_out = b[t] - sum_out;
            const double m = exp(log_in), n = exp(log_out);
            gap += fabs(m - n);
            const double up = (1 + excess) * n + (1 - excess) * m + SMALL;
            const double down = (1 - excess) * n + (1 + excess) * m + SMALL;
            const double step = (log_out - log_in + log(up / down)) / 2;
            fi[t] += step, a[t] += step;
            gi[t] -= step, b[t] -= step;
        }
        __syncthreads();
        const double to_f = total(a), to_g = total(b);
        for (int t = threadIdx.x; t < tags; t += blockDim.x) fi[t] -= to_f, gi[t] -= to_g;
        return sum_of(gap, slots);
    }

    __device__ void iterate(int n_iter, double relaxation, double tolerance) const {
        double omega = 1, before = infinity();
        for (int k = 0; k < n_iter; ++k) {
            double violation = 0;
            for (int parity = 1; parity <= 2; ++parity)
                for (long long i = first + parity; i < last; i += 2)
                    violation = larger(violation, project(i, omega - 1));
            if (k == 0) {
                omega = relaxation == 0 ? 1 : relaxation;
                continue;
            }
            if (violation <= tolerance) return;
            if (relaxation == 0) omega = estimate_relaxation(violation, before, omega);
            before = violation;
        }
    }

    // By how much f + g exceeds u at an inner token.
    __device__ double excess(long long i) const {
        int best = 0;
        const double *fi = f + i * tags, *gi = g + i * tags;
        for (int t = 1; t < tags; ++t)
            if (fi[t] + gi[t] > fi[best] + gi[best]) best = t;
        return fi[best] + gi[best] - u[i * tags + best];
    }

    // What each thread adds to the value, `wide` that of all of them alike.
    __device__ double finish(Score* node, Score* each, double* sums, bool lower, double& wide) const {
        double value = 0;
        for (long long i = first; i < last; ++i) {
            const double *gi = g + i * tags, *f_next = f + (i + 1) * tags;
            // b: log of p, the Markov chain that starts as q and moves by its conditionals.
            for (int t = threadIdx.x; t < tags; t += blockDim.x) a[t] = gi[t] + out_of(i, t);
            __syncthreads();
            const double z = total(a);
            __syncthreads();
            if (!lower) wide += z - (i > first ? excess(i) : 0);
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                const double before = i == first ? 1 : 0.5, after = i + 1 == last ? 1 : 0.5;
                const Score p = before * exp(a[t] - z);
                node[i * tags + t] = i == first ? p : node[i * tags + t] + p;
                node[(i + 1) * tags + t] = after * exp(f_next[t] + into(i + 1, t) - z);
                for (int v = 0; v < tags; ++v) {
                    const double q = exp(gi[t] + w(i, t, v) + f_next[v] - z);
                    if (q > 0 && sums) atomicAdd(&sums[(long long)t * tags + v], q);
                    if (each) each[(i * tags + t) * tags + v] = Score(q);
                }
                if (!lower) continue;
                const double x = i == first ? a[t] - z : b[t];
                const double left = x == -infinity() ? x : x - (a[t] - gi[t]);
                a[t] = left;
                if (x > -infinity())
                    value += exp(x) * (i == first ? u[i * tags + t] - left : -left);
            }
            if (!lower) continue;
            __syncthreads();
            for (int v = threadIdx.x; v < tags; v += blockDim.x) {
                const double x =
                    f_next[v] + log_sum(tags, [&](int t) { return a[t] + w(i, t, v); });
                b[v] = x;
                if (x > -infinity()) value += exp(x) * (u[(i + 1) * tags + v] - f_next[v]);
            }
            __syncthreads();
        }
        return value;
    }
};

// logs (N,): parts of the values; shifts (N,), edge_shifts (1,) or (N,): NaN if scores are.
// scratch (3, N, tags). left, right (N, tags), or null: cleared where
// nothing is to be read from them. shared memory: (2 tags + threads) doubles.
KERNEL conclude(const Score* unary, const Score* transitions, const long long* starts,
                const int* lengths, const int* failed, const double* logs, const double* shifts,
                const double* edge_shifts, double* scratch,
                Real* left, Real* right, Score* value, Score* node, Score* each, double* sums,
                int n_iter, double relaxation, double tolerance, int lower, double scale,
                long long tokens, int tags, long long stride) {
    double *rows = shared_memory, *slots = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b], last = first + length - 1, cells = tokens * tags;
    double x = 0, wide = 0;
    if (!failed[b]) {
        for (int k = threadIdx.x; k < length; k += blockDim.x) x += logs[first + k];
        x = sum_of(x, slots);
        if (threadIdx.x == 0) value[b] = Score(x);
        return;
    }
    const Chain chain{unary,  transitions, scratch, scratch + cells, scratch + 2 * cells, first, last,
                      stride, tags,        scale,   rows,            rows + tags,         slots};
    const bool possible = chain.begin();
    for (long long k = first * tags + threadIdx.x; k < (last + 1) * tags; k += blockDim.x) {
        if (left) left[k] = right[k] = 0;
        if (!possible || length == 1)
            node[k] = possible ? exp(chain.u[k] - chain.total(chain.u + first * tags)) : 0;
    }
    for (long long k = first * tags * tags + threadIdx.x; each && k < last * tags * tags; k += blockDim.x)
        each[k] = 0;
    if (!possible) {
        wide = -infinity();
    } else if (length == 1) {
        wide = chain.total(chain.u + first * tags);
    } else {
        chain.iterate(n_iter, relaxation, tolerance);
        __syncthreads();
        x = sum_of(chain.finish(node, each, sums, lower, wide), slots);
    }
    double nan = 0;
    for (long long i = first + threadIdx.x; i <= last; i += blockDim.x)
        nan += 0 * (shifts[i] + (i < last ? edge_shifts[stride ? i : 0] : 0));
    nan = sum_of(nan, slots);
    if (threadIdx.x == 0) value[b] = Score(wide + x + nan);
}
