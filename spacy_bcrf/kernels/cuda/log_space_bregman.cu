// The values of sequences after the Bregman projections, one block a sequence. A sequence fails if its
// scores exceed the range of probability space or if it has no allowed labeling. This file computes
// failed sequences again in log space and double precision.
#include "block.cuh"
#include "../shared/projection.hh"

// The factors of one sequence, on logarithms. Tokens are flat indices.
struct LogProjections {
    const Score *unary, *transitions;
    double *u, *f, *g;  // (N, tags)
    long long first, last, stride;
    int tags;
    double scale;
    double *a, *b, *scratch;  // in shared memory: two rows, and one double for each thread

    __device__ double w(long long i, int s, int t) const {
        return scale * transitions[i * stride + (long long)s * tags + t];
    }
    __device__ double message_in(long long i, int t) const {
        return log_sum(tags, [&](int s) { return w(i - 1, s, t) + g[(i - 1) * tags + s]; });
    }
    __device__ double message_out(long long i, int t) const {
        return log_sum(tags, [&](int v) { return w(i, t, v) + f[(i + 1) * tags + v]; });
    }
    __device__ double total(const double* row) const {
        return log_sum(tags, [&](int t) { return row[t]; });
    }

    // Set u of the tags that an allowed labeling uses, and the first f and g. Return false if no
    // labeling is allowed.
    __device__ bool initialize() const {
        const double forbidden = -infinity();
        for (long long i = first; i <= last; ++i) {
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                bool has_in = i == first;
                for (int s = 0; s < tags && !has_in; ++s)
                    has_in = u[(i - 1) * tags + s] > forbidden && w(i - 1, s, t) > forbidden;
                u[i * tags + t] = has_in ? scale * unary[i * tags + t] : forbidden;
            }
            __syncthreads();
        }
        for (long long i = last; i >= first; --i) {
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                bool has_out = i == last;
                for (int v = 0; v < tags && !has_out; ++v)
                    has_out = u[(i + 1) * tags + v] > forbidden && w(i, t, v) > forbidden;
                if (!has_out) u[i * tags + t] = forbidden;
                const double x = u[i * tags + t];
                f[i * tags + t] = i == last ? x : x / 2;
                g[i * tags + t] = i == first ? x : x / 2;
            }
            __syncthreads();
        }
        return total(u + first * tags) > forbidden;
    }

    // Project token i. Return the violation before the projection.
    __device__ double project(long long i, double excess) const {
        double *fi = f + i * tags, *gi = g + i * tags, gap = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x)
            a[t] = fi[t] + message_in(i, t), b[t] = gi[t] + message_out(i, t);
        __syncthreads();
        const double sum_in = total(a), sum_out = total(b);
        __syncthreads();
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            if (u[i * tags + t] == -infinity()) continue;
            const double step =
                bcrf::projection::log_step(a[t] - sum_in, b[t] - sum_out, excess, gap);
            fi[t] += step, a[t] += step;
            gi[t] -= step, b[t] -= step;
        }
        __syncthreads();
        const double to_f = total(a), to_g = total(b);
        for (int t = threadIdx.x; t < tags; t += blockDim.x) fi[t] -= to_f, gi[t] -= to_g;
        return sum_of(gap, scratch);
    }

    __device__ void iterate(int n_iter, double relaxation, double tolerance) const {
        bcrf::projection::Relaxation state;
        for (int k = 0; k < n_iter; ++k) {
            double violation = 0;
            for (long long i = first + bcrf::projection::first_position(k); i < last; i += 2)
                violation = larger(violation, project(i, state.omega - 1));
            if (state.update(k, violation, relaxation, tolerance)) return;
        }
    }

    // Write the result of each token, see projection::Unary. Return this thread's part of the value;
    // add to `common` the part that all threads know.
    __device__ double finish(Score* unary, Score* each, double* sums, int rule, bool lower,
                             double& common) const {
        using bcrf::projection::CHAIN;
        const bool halved = rule == bcrf::projection::MEAN;
        double value = 0;
        for (long long i = first; i < last; ++i) {
            const double *gi = g + i * tags, *next_f = f + (i + 1) * tags;
            for (int t = threadIdx.x; t < tags; t += blockDim.x) a[t] = gi[t] + message_out(i, t);
            __syncthreads();
            const double z = total(a);
            __syncthreads();
            if (!lower) {
                const long long row = i * tags;
                common += z;
                if (i > first) common -= bcrf::projection::log_scale(tags, u + row, f + row, g + row);
            }
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                const double share = i == first || !halved ? 1 : 0.5;
                const double next_share = i + 1 == last ? 1 : halved ? 0.5 : 0;
                const Score p = share * exp(a[t] - z);
                Score &here = unary[i * tags + t], &next = unary[(i + 1) * tags + t];
                here = i == first ? p : here + p;
                next = next_share * exp(next_f[t] + message_in(i + 1, t) - z);
                if (rule == CHAIN) {
                    // a - g: the log of the sum of the arcs out over g.
                    here = u[i * tags + t] == -infinity() ? -infinity()
                           : i == first                   ? gi[t] - z
                                                          : f[i * tags + t] + gi[t] - a[t];
                    if (i + 1 == last) next = next_f[t];
                }
                for (int v = 0; v < tags; ++v) {
                    const double q = exp(gi[t] + w(i, t, v) + next_f[v] - z);
                    if (q > 0 && sums) atomicAdd(&sums[(long long)t * tags + v], q);
                    if (each) each[(i * tags + t) * tags + v] = Score(q);
                }
                if (!lower) continue;
                // b: log of the tag marginals of the Markov chain p in `add_lower_bound`, bregman.cu.
                const double x = i == first ? a[t] - z : b[t];
                const double normalized = x == -infinity() ? x : x - (a[t] - gi[t]);
                a[t] = normalized;
                if (x > -infinity())
                    value += exp(x) * (i == first ? u[i * tags + t] - normalized : -normalized);
            }
            if (!lower) continue;
            __syncthreads();
            for (int v = threadIdx.x; v < tags; v += blockDim.x) {
                const double x =
                    next_f[v] + log_sum(tags, [&](int t) { return a[t] + w(i, t, v); });
                b[v] = x;
                if (x > -infinity()) value += exp(x) * (u[(i + 1) * tags + v] - next_f[v]);
            }
            __syncthreads();
        }
        return value;
    }
};

// logs (N,): parts of the values. shifts (N,), edge_shifts (1,) or (N,): NaN if scores are NaN.
// workspace (3, N, tags). left, right (N, tags), or null: cleared in failed sequences.
// shared memory: (2 tags + threads) doubles.
KERNEL values(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* failed, const double* logs, const double* shifts,
              const double* edge_shifts, double* workspace, Real* left, Real* right, Score* value,
              Score* result, Score* each, double* sums, int n_iter, double relaxation,
              double tolerance, int rule, int lower, double scale, long long tokens, int tags,
              long long stride) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b], last = first + length - 1, cells = tokens * tags;
    double x = 0, common = 0;
    if (!failed[b]) {
        for (int k = threadIdx.x; k < length; k += blockDim.x) x += logs[first + k];
        x = sum_of(x, scratch);
        if (threadIdx.x == 0) value[b] = Score(x);
        return;
    }
    double *u = workspace, *f = u + cells, *g = f + cells;
    const LogProjections chain{unary,  transitions, u,     f,    g,           first,  last,
                               stride, tags,        scale, rows, rows + tags, scratch};
    const bool feasible = chain.initialize();
    for (long long k = first * tags + threadIdx.x; k < (last + 1) * tags; k += blockDim.x) {
        if (left) left[k] = right[k] = 0;
        if (feasible && length > 1) continue;
        const double log_p = feasible ? u[k] - chain.total(u + first * tags) : -infinity();
        result[k] = rule == bcrf::projection::CHAIN && feasible ? log_p : exp(log_p);
    }
    const long long end = last * tags * tags;
    for (long long k = first * tags * tags + threadIdx.x; each && k < end; k += blockDim.x) each[k] = 0;
    if (!feasible) {
        common = -infinity();
    } else if (length == 1) {
        common = chain.total(u + first * tags);
    } else {
        chain.iterate(n_iter, relaxation, tolerance);
        __syncthreads();
        x = sum_of(chain.finish(result, each, sums, rule, lower, common), scratch);
    }
    double nan = 0;
    for (long long i = first + threadIdx.x; i <= last; i += blockDim.x)
        nan += 0 * (shifts[i] + (i < last ? edge_shifts[stride ? i : 0] : 0));
    nan = sum_of(nan, scratch);
    if (threadIdx.x == 0) value[b] = Score(common + x + nan);
}
