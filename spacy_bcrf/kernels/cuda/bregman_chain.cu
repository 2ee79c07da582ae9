// All iterations of the Bregman projections of ../shared/projection.hh on one sequence, in one block.
// SLOTS groups of threads project tokens of one parity at once, one thread a tag. The factors f and g
// stay in shared memory if they fit.
#include "registers.cuh"
#include "gold.cuh"
#include "../shared/projection.hh"

using Limits = bcrf::Precision<Real>;

constexpr int SLOT = WARPS * WARP, THREADS = 128, SLOTS = THREADS / SLOT, PART = WIDTH / SLOTS;
constexpr int LOCAL_PRUNINGS = 3;

// Sum x over the threads of a slot. All threads of the block call it.
// scratch: one number a warp.
template <class R>
__device__ R slot_reduce(R x, R* scratch, R (*combine)(R, R)) {
    x = combine_warp(x, combine);
    if (WARPS == 1) return x;
    const int warp = threadIdx.x / WARP;
    if (threadIdx.x % WARP == 0) scratch[warp] = x;
    __syncthreads();
    x = combine(scratch[warp / WARPS * WARPS], scratch[warp / WARPS * WARPS + WARPS - 1]);
    __syncthreads();
    return x;
}

template <class R>
__device__ R slot_sum(R x, R* scratch) {
    return slot_reduce<R>(x, scratch, add<R>);
}

struct Options {
    int n_iter;
    double relaxation, tolerance;  // 0: estimate it; negative: run all iterations
    int rule, lower;
    double scale;
};

// One sequence. SHARED: all edges share the transitions.
template <bool SHARED>
struct Projections {
    const Real *matrices, *transposed;
    const double *edge_shifts, *edge_lows;
    long long first;
    int length, tags;
    Options options;
    Real *e, *f, *g;  // (length, WIDTH): exp(unary) and the factors
    Real* totals;     // (length,): the sums of the arcs out of each token
    Real* rows;       // in shared memory: two rows
    double* scratch;  // in shared memory: a double a warp
    int slot, t;
    Column column_in, column_out;
    Real arcs[PART];  // the expected arcs from tag t to this slot's part of the tags, divided by k

    // The sums of the arcs into tag t of token j and out of it.
    __device__ Real sum_in(const Real* row, int j) const {
        if (SHARED) return column_in.message(row);
        const Real* k = matrices + (first + j - 1) * tags * tags + t;
        Real sum = 0;
        for (int u = 0; u < tags && t < tags; ++u) sum += row[u] * k[u * tags];
        return sum;
    }
    __device__ Real sum_out(const Real* row, int j) const {
        if (SHARED) return column_out.message(row);
        const Real* k = matrices + (first + j) * tags * tags + (long long)t * tags;
        Real sum = 0;
        for (int v = 0; v < tags && t < tags; ++v) sum += row[v] * k[v];
        return sum;
    }

    // Call visit(j, active, in, out) for tokens from, from + step, ... before `end`. in, out: the sums of the arcs
    // into tag t and out of it, without f and g. Threads without a token visit one that others have, and are not
    // active.
    template <class Visit>
    __device__ void for_each_token(int from, int step, int end, Visit visit) {
        for (int base = from; base < end; base += step * SLOTS) {
            const bool active = base + step * slot < end;
            const int j = active ? base + step * slot : base;
            Real in = 0, out = 0;
            if (j > 0) in = sum_in(g + (j - 1) * WIDTH, j);
            if (j + 1 < length) out = sum_out(f + (j + 1) * WIDTH, j);
            visit(j, active, in, out);
        }
    }

    // Whether the arc of edge j, from token j to j + 1, is allowed.
    __device__ bool has_arc(int j, int u, int v) const {
        return e[j * WIDTH + u] > 0 && e[(j + 1) * WIDTH + v] > 0 &&
               matrices[(SHARED ? 0 : (first + j) * tags * tags) + u * tags + v] > 0;
    }

    // Whether an arc into tag t of token j, or out of it, is allowed.
    __device__ bool has_in(int j) const {
        for (int u = 0; u < tags; ++u)
            if (has_arc(j - 1, u, t)) return true;
        return j == 0;
    }
    __device__ bool has_out(int j) const {
        for (int v = 0; v < tags; ++v)
            if (has_arc(j, t, v)) return true;
        return false;
    }

    // Set e. Add the shifts to `value`. Return whether the scores have too large a range.
    __device__ bool exponentiate(const Scores& scores, double& value) {
        bool is_wide = false;
        for (int base = 0; base < length; base += SLOTS) {
            const int j = base + slot;
            const bool active = j < length;
            const Real x = active && t < tags ? Real(scores(first + j, t)) : Real(-infinity());
            Real top = slot_reduce<Real>(x, (Real*)scratch, larger<Real>);
            if (top == -infinity()) top = 0;
            const Real y = (x - top) * Real(options.scale);
            const Real low =
                -slot_reduce<Real>(y > -infinity() ? -y : Real(0), (Real*)scratch, larger<Real>);
            if (!active) continue;
            if (t < WIDTH) e[j * WIDTH + t] = exp(y);
            const long long edge = SHARED ? 0 : first + j;
            const bool is_last = j + 1 == length;
            if (low + (is_last ? 0 : edge_lows[edge]) < -Limits::MAX_RANGE) is_wide = true;
            if (t == 0) value += top * options.scale + (is_last ? 0 : edge_shifts[edge]);
        }
        return is_wide;
    }

    // Clear e of the tags that no allowed labeling uses.
    __device__ void prune() {
        bool changed = true;
        for (int round = 0; round < LOCAL_PRUNINGS && changed; ++round) {
            __syncthreads();
            int cleared = 0;
            for (int j = slot; j < length; j += SLOTS) {
                if (t >= tags || !(e[j * WIDTH + t] > 0)) continue;
                if ((j == 0 || has_in(j)) && (j + 1 == length || has_out(j))) continue;
                e[j * WIDTH + t] = 0;
                cleared = 1;
            }
            changed = largest_of(cleared, (int*)scratch);
        }
        if (!changed) return;
        for (int j = 1; j < length; ++j) {
            if (slot == 0 && t < tags && e[j * WIDTH + t] > 0 && !has_in(j)) e[j * WIDTH + t] = 0;
            __syncthreads();
        }
        for (int j = length - 2; j >= 0; --j) {
            if (slot == 0 && t < tags && e[j * WIDTH + t] > 0 && !has_out(j)) e[j * WIDTH + t] = 0;
            __syncthreads();
        }
    }

    // Set the first f and g. Return whether a token has no tag.
    __device__ bool initialize() {
        bool is_empty = false;
        for (int base = 0; base < length; base += SLOTS) {
            const int j = base + slot;
            const Real x = j < length && t < WIDTH ? e[j * WIDTH + t] : Real(0), root = sqrt(x);
            const Real total = slot_sum(x, (Real*)scratch);
            if (j >= length) continue;
            if (!(total > 0)) is_empty = true;
            if (t >= WIDTH) continue;
            f[j * WIDTH + t] = j + 1 == length ? x : root;
            g[j * WIDTH + t] = j == 0 ? x : root;
        }
        return is_empty;
    }

    // Project the inner tokens of one parity. Return the largest violation before, if `measured`.
    __device__ double project(int from, Real excess, bool measured) {
        Real largest = 0;
        for_each_token(from, 2, length - 1, [&](int j, bool active, Real in, Real out) {
            const int here = j * WIDTH + (t < WIDTH ? t : 0);
            Real ft = f[here], gt = g[here], square, gap;
            bcrf::projection::project(t < tags ? e[here] : Real(0), in, out, excess, excess != 0, ft, gt, square,
                                      gap);
            const Real h = sqrt(square);
            ft *= h, gt *= h;
            const Real sum_in = slot_sum(ft * in, (Real*)scratch);
            const Real sum_out = slot_sum(gt * out, (Real*)scratch);
            if (active && t < WIDTH) f[here] = ft / sum_in, g[here] = gt / sum_out;
            if (measured) {
                gap = slot_sum(t < tags ? gap : Real(0), (Real*)scratch);
                if (active) largest = larger(largest, gap);
            }
        });
        return measured ? largest_of(largest, (Real*)scratch) : Real(0);
    }

    __device__ void iterate() {
        const bool measured = options.relaxation == 0 || options.tolerance >= 0;
        bcrf::projection::Relaxation state;
        for (int k = 0; k < options.n_iter; ++k) {
            __syncthreads();
            const double violation =
                project(bcrf::projection::first_position(k), Real(state.omega - 1), measured);
            if (state.update(k, violation, options.relaxation, options.tolerance)) break;
        }
        __syncthreads();
    }

    // Set the results of each tag, or subtract them. Add to `value` the token's part of the dual
    // value. Return whether Real lacks the range.
    __device__ bool set_unary(Score* unary, bool subtract, bool lower, double& value) {
        using bcrf::projection::CHAIN;
        using bcrf::projection::MEAN;
        using bcrf::projection::OUTGOING;
        const double low = 1 / double(Limits::MAX_FACTOR);
        bool out_of_range = false;
        for_each_token(0, 1, length, [&](int j, bool active, Real to, Real from) {
            const bool is_tag = t < tags, is_first = j == 0, is_last = j + 1 == length;
            const int here = j * WIDTH + (is_tag ? t : 0);
            const Real et = is_tag ? e[here] : Real(0), ft = is_tag ? f[here] : Real(0);
            const Real gt = is_tag ? g[here] : Real(0);
            const Real mass_in = is_first ? is_last ? et : gt * from : ft * to;
            const Real mass_out = is_last ? mass_in : gt * from;
            const double z_in = slot_sum(double(mass_in), scratch);
            const double z_out = slot_sum(double(mass_out), scratch);
            // f g is e up to a scale. Real may have lost the factors of a tag of little mass.
            const Real mass = mass_in + mass_out, top = slot_reduce<Real>(mass, (Real*)scratch, larger<Real>);
            double scale = -infinity();
            if (mass == top && et > 0) scale = log(double(et)) - log(double(ft)) - log(double(gt));
            scale = slot_reduce<double>(scale, scratch, larger<double>);
            if (!active) return;
            if (et > 0 && !is_first && !is_last && !Limits::holds(ft, gt)) out_of_range = true;
            // A projection normalizes the arcs around its token. No projection may have reached the
            // first and the last edge.
            if (!(z_in > low && z_out > low)) out_of_range = true;
            if (t == 0) {
                totals[j] = Real(z_out);
                if (!lower || length == 1) {
                    if (!is_first && !is_last) value += scale;
                    if (!is_first || is_last) value += log(z_in);
                }
            }
            if (!is_tag || !unary) return;
            Score& x = unary[(first + j) * tags + t];
            const double flow_in = mass_in / z_in, flow_out = mass_out / z_out;
            if (options.rule == MEAN) {
                const Score p = Score((flow_in + flow_out) / 2);
                x = subtract ? x - p : p;
            } else if (options.rule == OUTGOING) {
                x = Score(flow_out);
            } else {
                // The score without the normalizer, see `write_chain` of ../cpu/bregman.hh.
                const Real by = is_first || is_last ? Real(1) : from;
                if (et > 0 && !(by >= Limits::MIN_NORMAL)) out_of_range = true;
                const double shift = is_last ? 0 : edge_shifts[SHARED ? 0 : first + j];
                const double score = log(double(is_first ? is_last ? et : gt : ft)) - log(double(by)) -
                                     shift - (is_first ? log(z_out) : 0);
                x = et > 0 ? Score(score) : Score(-infinity());
            }
        });
        return out_of_range;
    }

    // Add sign times the arcs to the sums of this thread.
    __device__ void add_arcs(Real sign) {
        for (int j = 0; j + 1 < length && t < tags; ++j) {
            const Real head = sign * g[j * WIDTH + t] / totals[j];
            const Real* next = f + (j + 1) * WIDTH + slot * PART;
#pragma unroll
            for (int v = 0; v < PART; ++v) arcs[v] += head * next[v];
        }
    }

    __device__ void flush(double* sums) const {
#pragma unroll
        for (int v = 0; v < PART; ++v) {
            const int to = slot * PART + v;
            if (t < tags && to < tags)
                atomicAdd(&sums[t * tags + to], double(arcs[v] * transposed[to * tags + t]));
        }
    }

    // Set the marginals of each edge, or subtract them; 0 in the row of the last token.
    __device__ void set_each(Score* each, bool subtract) const {
        for (int j = slot; j < length && t < tags; j += SLOTS) {
            const long long at = (first + j) * tags * tags;
            const Real* k = matrices + (SHARED ? 0 : at);
            for (int u = 0; u < tags; ++u) {
                Score& x = each[at + u * tags + t];
                Score q = 0;
                if (j + 1 < length)
                    q = Score(g[j * WIDTH + u] * k[u * tags + t] * f[(j + 1) * WIDTH + t] / totals[j]);
                x = subtract ? x - q : q;
            }
        }
    }

    // Return <p, w> + H(p) without the shifts, where p is a point of the polytope: the Markov chain
    // with q's first marginals and q's transition probabilities. Two tokens or more. Each thread of
    // slot 0 returns its part.
    __device__ double lower_bound() {
        double value = 0;
        for (int j = 0; j < length; ++j) {
            const int here = j * WIDTH + (t < WIDTH ? t : 0);
            const Real* x = rows + (j + 1) % 2 * WIDTH;
            double out = 1, p = 0;
            if (j + 1 < length) out = sum_out(f + (j + 1) * WIDTH, j);
            if (t < tags && j == 0) p = g[here] * out;
            if (j > 0) p = double(sum_in(x, j)) * f[here];
            if (t >= tags) p = 0;
            p /= slot_sum(p, scratch);
            if (slot == 0 && t < WIDTH) rows[j % 2 * WIDTH + t] = p > 0 ? Real(p / out) : Real(0);
            if (slot == 0 && t < tags && p > 0) {
                value += p * log(double(e[here]));
                if (j > 0) value -= p * log(double(f[here]));
                if (j + 1 < length) value += p * (log(out) - log(p));
            }
            __syncthreads();
        }
        return value;
    }

    // Return the value of the bound of one pass, and set the results or subtract the marginals from
    // them. is_failed: Real lacks the range, or no labeling is allowed.
    __device__ double run(const Scores& scores, bool lower, Score* unary, Score* each, bool sums,
                          bool& is_failed) {
        const bool subtract = scores.restricted;
        double value = 0;
        int bad = exponentiate(scores, value);
        prune();
        __syncthreads();
        bad |= initialize();
        is_failed = largest_of(bad, (int*)scratch);
        if (is_failed) return 0;
        iterate();
        bad = set_unary(unary, subtract, lower, value);
        is_failed = largest_of(bad, (int*)scratch);
        if (is_failed) return 0;
        if (lower && length > 1) value += lower_bound();
        if (SHARED && sums) add_arcs(subtract ? -1 : 1);
        if (each) set_each(each, subtract);
        return sum_of(value, scratch);
    }
};

struct Arguments {
    const Score* unary;
    const Real *matrices, *transposed;
    const double *edge_shifts, *edge_lows;
    const long long* starts;
    const int* lengths;
    Real* workspace;
    Score *result, *each;
    double *sums, *values;
    int* failed;
    int size, capacity;
    long long tokens;
};

template <bool SHARED>
__device__ void run(const Arguments& to, const Gold& gold, const Options& options) {
    const int b = blockIdx.x, length = to.lengths[b];
    const long long first = to.starts[b];
    double* scratch = shared_memory;
    Real *rows = (Real*)(scratch + THREADS / WARP), *e = rows + 2 * WIDTH;
    long long cells = (long long)to.capacity * WIDTH;
    if (length > to.capacity) cells = to.tokens * WIDTH, e = to.workspace + first * WIDTH;
    Real* totals = length > to.capacity ? to.workspace + 3 * cells + first : e + 3 * cells;
    Projections<SHARED> chain{to.matrices,
                              to.transposed,
                              to.edge_shifts,
                              to.edge_lows,
                              first,
                              length,
                              gold.tags,
                              options,
                              e,
                              e + cells,
                              e + 2 * cells,
                              totals,
                              rows,
                              scratch,
                              int(threadIdx.x) / SLOT,
                              int(threadIdx.x) % SLOT};
    if (SHARED) {
        chain.column_in.load(to.matrices, chain.t, gold.tags);
        chain.column_out.load(to.transposed, chain.t, gold.tags);
    }
#pragma unroll
    for (int v = 0; v < PART; ++v) chain.arcs[v] = 0;
    const int passes = gold.kind(first, length, (int*)scratch) == PARTIAL ? 2 : 1;
    bool is_failed = false;
    for (int pass = 0; pass < passes && !is_failed; ++pass) {
        // The bounds of the two values keep the loss from being negative.
        const bool lower = options.lower || pass == 1;
        const double value =
            chain.run({to.unary, gold, pass == 1}, lower, to.result, to.each, to.sums, is_failed);
        if (threadIdx.x == 0) to.values[pass * to.size + b] = value;
        __syncthreads();
    }
    if (is_failed) {
        if (threadIdx.x == 0) to.failed[b] = 1;
    } else if (SHARED && to.sums) {
        chain.flush(to.sums);
    }
}

// Grid (B,), THREADS threads. With partial gold, result, each and sums are the difference between the
// potentials and their restriction to gold; values (2, B) are both bounds.
// result (N, tags): see projection::Unary, which `rule` selects. each (N, tags, tags) and sums
// (tags, tags) may be null. failed[b]: Real lacks the range for sequence b, or no labeling is allowed;
// sums lack it. workspace (3 WIDTH + 1, N): for sequences longer than `capacity`.
// shared memory: a double a warp, 2 WIDTH and (3 WIDTH + 1) capacity numbers.
KERNEL bregman_chain(const Score* unary, const Real* matrices, const Real* transposed,
                     const double* edge_shifts, const double* edge_lows, const long long* starts,
                     const int* lengths, const int* gold, const signed char* allowed, Real* workspace,
                     Score* result, Score* each, double* sums, double* values, int* failed, int n_iter,
                     double relaxation, double tolerance, int rule, int lower, double scale,
                     int capacity, int size, long long tokens, int tags) {
    if (lengths[blockIdx.x] == 0) return;
    const Gold annotation{gold, allowed, tags};
    const Options options{n_iter, relaxation, tolerance, rule, lower, scale};
    const Arguments to{unary,   matrices,  transposed, edge_shifts, edge_lows, starts,
                       lengths, workspace, result,     each,        sums,      values,
                       failed,  size,      capacity,   tokens};
    if (transposed)
        run<true>(to, annotation, options);
    else
        run<false>(to, annotation, options);
}
