// The values of sequences after the Bregman projections, one block a sequence. A sequence fails if its
// scores exceed the range of probability space or if it has no allowed labeling. This file computes
// failed sequences again in log space and double precision.
#include "gold.cuh"
#include "outputs.cuh"
#include "../shared/projection.hh"

// The over-relaxation of projection::project: return the log of the factor for f^2, and for g^2 its negative. Add
// |m - n| to `gap`. log_in, log_out: log m and log n, normalized.
__device__ inline double log_relaxation(double log_in, double log_out, double excess, double& gap) {
    const double in = exp(log_in), out = exp(log_out);
    gap += fabs(in - out);
    double up = 1, down = 1;
    bcrf::projection::over_relax(up, out, in, excess);
    bcrf::projection::over_relax(down, in, out, excess);
    return log(up / down);
}

// Return the log of the scale by which f g exceeds e, from the logarithms of a token's rows. It is the same for all
// tags, but tags that almost have no mass may have factors so large that their product loses it.
__device__ inline double log_scale(int tags, const double* masses, const double* unary, const double* f,
                                   const double* g) {
    int best = 0;
    for (int t = 1; t < tags; ++t)
        if (masses[t] > masses[best]) best = t;
    return f[best] + g[best] - unary[best];
}

// The factors of one sequence, on logarithms. Tokens are flat indices.
struct LogProjections {
    Scores unary;
    const Score* transitions;
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
                u[i * tags + t] = has_in ? scale * unary(i, t) : forbidden;
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
            a[t] = message_in(i, t), b[t] = message_out(i, t);
        __syncthreads();
        const double sum_in = log_sum(tags, [&](int t) { return fi[t] + a[t]; });
        const double sum_out = log_sum(tags, [&](int t) { return gi[t] + b[t]; });
        __syncthreads();
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const double e = u[i * tags + t];
            if (e > -infinity()) {
                const double more = log_relaxation(fi[t] + a[t] - sum_in, gi[t] + b[t] - sum_out, excess, gap);
                // Not a step from the last factors, which may have lost the digits of e beside a huge score.
                const double half = (b[t] - a[t] + more) / 2;
                fi[t] = e / 2 + half, gi[t] = e / 2 - half;
            }
            a[t] += fi[t], b[t] += gi[t];
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

    // Set x, add to it, or subtract from it in a pass over the restriction to gold.
    __device__ void put(Score& x, Score value, bool set) const {
        x = unary.restricted ? x - value : set ? value : x + value;
    }

    // Write the result of each token, see projection::Unary, and visit the edges. Return this
    // thread's part of the value; add to `common` the part that all threads know.
    __device__ double finish(const Outputs& to, int rule, bool lower, double& common) const {
        Score* result = to.marginals;
        using bcrf::projection::CHAIN;
        const bool halved = rule == bcrf::projection::MEAN;
        double value = 0;
        for (long long i = first; i < last; ++i) {
            const double *gi = g + i * tags, *next_f = f + (i + 1) * tags;
            for (int t = threadIdx.x; t < tags; t += blockDim.x) a[t] = gi[t] + message_out(i, t);
            __syncthreads();
            const double z = total(a);
            if (!lower) {
                const long long row = i * tags;
                common += z;
                if (i > first) common -= log_scale(tags, a, u + row, f + row, g + row);
            }
            __syncthreads();
            to.edge(
                i, [&](int t, int v) { return exp(gi[t] + w(i, t, v) + next_f[v] - z); },
                [](int, int, double) {});
            for (int t = threadIdx.x; t < tags; t += blockDim.x) {
                const double share = i == first || !halved ? 1 : 0.5;
                const double next_share = i + 1 == last ? 1 : halved ? 0.5 : 0;
                const Score p = share * exp(a[t] - z);
                put(result[i * tags + t], p, i == first);
                put(result[(i + 1) * tags + t],
                    Score(next_share * exp(next_f[t] + message_in(i + 1, t) - z)), true);
                if (rule == CHAIN) {
                    // a - g: the log of the sum of the arcs out over g.
                    const double score = i == first ? gi[t] - z : f[i * tags + t] + gi[t] - a[t];
                    result[i * tags + t] =
                        u[i * tags + t] == -infinity() ? -infinity() : bcrf::projection::chain_score(score, a[t] - z);
                    if (i + 1 == last)
                        result[(i + 1) * tags + t] =
                            bcrf::projection::chain_score(next_f[t], next_f[t] + message_in(i + 1, t) - z);
                }
                if (!lower) continue;
                // b: log of the tag marginals of the Markov chain p in `lower_bound`, bregman.cu.
                const double x = i == first ? a[t] - z : b[t];
                const double normalized = x == -infinity() ? x : x - (a[t] - gi[t]);
                a[t] = normalized;
                if (x > -infinity())
                    value += exp(x) * (i == first ? u[i * tags + t] - normalized : -normalized);
            }
            if (!lower) continue;
            __syncthreads();
            for (int v = threadIdx.x; v < tags; v += blockDim.x) {
                const double x = next_f[v] + log_sum(tags, [&](int t) { return a[t] + w(i, t, v); });
                b[v] = x;
                if (x > -infinity()) value += exp(x) * (u[(i + 1) * tags + v] - next_f[v]);
            }
            __syncthreads();
        }
        return value;
    }
};

// Return the value of one sequence, and set its results or subtract the marginals.
__device__ double log_projections(LogProjections chain, const Outputs& to, int n_iter,
                                  double relaxation, double tolerance, int rule, bool lower) {
    const int tags = chain.tags;
    const long long first = chain.first, last = chain.last;
    const bool feasible = chain.initialize(), single = first == last;
    for (long long i = feasible && !single ? last : first; i <= last; ++i) to.last(i);
    if (feasible && !single) {
        chain.iterate(n_iter, relaxation, tolerance);
        __syncthreads();
        double common = 0;
        const double part = chain.finish(to, rule, lower, common);
        return common + sum_of(part, chain.scratch);
    }
    const double total = feasible ? chain.total(chain.u + first * tags) : -infinity();
    for (long long k = first * tags + threadIdx.x; k < (last + 1) * tags; k += blockDim.x) {
        const double log_p = feasible ? chain.u[k] - total : -infinity();
        const bool is_chain = rule == bcrf::projection::CHAIN && feasible;
        to.put(to.marginals[k], Score(is_chain ? log_p : exp(log_p)));
    }
    return total;
}

// After `bregman`: compute its failed sequences again, and set the values (B,), bounds of B(w) without
// gold and losses with it. Arguments as in log_space.cu. edge_shifts (1,) or (N,): NaN if transitions
// are. workspace (3, N, tags). left, right (N, row), or null: the factors of the edge marginals.
// shared memory: (2 tags + threads) doubles.
KERNEL finish(const Score* unary, const Score* transitions, const long long* starts,
              const int* lengths, const int* gold, const signed char* allowed, const double* values,
              const long long* firsts, const int* counts, const int* failed, const double* edge_shifts,
              double* workspace, Real* left, Real* right, Score* value, Score* result, Score* each,
              double* sums, Score* edges, int* errors, int* counter, int n_iter, double relaxation,
              double tolerance, int rule, int lower, double scale, long long tokens, int tags,
              long long stride) {
    double *rows = shared_memory, *scratch = rows + 2 * tags;
    const int b = blockIdx.x, length = lengths[b];
    const long long first = starts[b], last = first + length - 1, cells = tokens * tags;
    const Gold annotation{gold, allowed, tags};
    const GoldKind kind = annotation.kind(first, length, (int*)scratch);
    double free = 0, target = 0;
    if (length > 0 && failed[b]) {
        double *u = workspace, *f = u + cells, *g = f + cells;
        Outputs to{tags, result, each, sums};
        for (int pass = 0; pass < (kind == PARTIAL ? 2 : 1); ++pass) {
            to.subtract = pass == 1;
            const Scores scores{unary, annotation, to.subtract};
            const double x = log_projections({scores, transitions, u, f, g, first, last, stride, tags,
                                              scale, rows, rows + tags, scratch},
                                             to, n_iter, relaxation, tolerance, rule,
                                             lower || to.subtract);
            (pass ? target : free) = x;
            __syncthreads();
        }
        double nan = 0;
        for (long long i = first + threadIdx.x; i <= last; i += blockDim.x) {
            double top = -infinity();
            for (int t = 0; t < tags; ++t) top = larger(top, double(unary[i * tags + t]));
            if (!(top == -infinity())) nan += 0 * top;
            if (i < last) nan += 0 * edge_shifts[stride ? i : 0];
        }
        free += sum_of(nan, scratch);
        clear_factors(left, right, first, length, tags);
    } else if (length > 0) {
        free = sum_tiles(values, firsts, counts);
        if (kind == PARTIAL) target = values[gridDim.x + b];
    }
    finish_loss(annotation, kind, transitions, unary, first, length, free, target, value, result, each,
                sums, errors, scratch, stride);
    convert_sums(sums, edges, tags, counter);
}
