// Iterative Bregman projections on the factors f and g of ../shared/projection.hh.
//
// One block runs all steps on a sequence. For few, long sequences, one block runs one step on a chunk:
// each step is then a launch, because a step reads what the last one wrote to the chunks next to it.
#include "registers.cuh"
#include "gold.cuh"
#include "outputs.cuh"
#include "../shared/projection.hh"

using Limits = bcrf::Precision<Real>;

// In the order of bregman.py.
enum Step { ALL, EXPONENTIATE, PRUNE, PRUNE_SCAN, INITIALIZE, PROJECT, FINISH };

// Rounds that prune tags without a neighbor at all tokens at once, before a scan prunes the others.
constexpr int LOCAL_PRUNINGS = 3;

// With -DBCRF_WIDTH, the threads hold the shared transitions in registers, and the sums of their
// marginals. A block of THREADS then has teams, which project a token each. Otherwise it is one team.
constexpr bool HELD = WIDTH > 0;
constexpr int THREADS = 128, TEAM = WARPS * WARP, TEAMS = HELD ? THREADS / TEAM : 1;
constexpr int PART = CELLS / TEAMS;

// Combine x of the threads of a team. All threads of the block call it. scratch: one number a warp.
template <class R>
__device__ R team_reduce(R x, R* scratch, R (*combine)(R, R)) {
    if (!HELD) return reduce<R>(x, scratch, combine);
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
__device__ R team_sum(R x, R* scratch) {
    return team_reduce<R>(x, scratch, add<R>);
}

struct Options {
    int n_iter;
    double relaxation, tolerance;  // 0: estimate it; negative: run all iterations
    int rule, lower;
    double scale;
};

// One sequence, whose tokens have the positions j = 0, 1, ...
struct Projections {
    const Real *matrices, *transposed;  // exp(transitions), and its transpose or null
    const double *edge_shifts, *edge_lows;
    long long stride, first;
    int length, tags;
    Options options;
    Real *e, *f, *g;  // (length, size()): exp(unary) and the factors
    Real* totals;     // (length,): the sums of the arcs out of each token
    Real* rows;       // in shared memory: two rows for each team
    double* scratch;  // in shared memory: a double for each thread
    int team, lane;
    Column column_in, column_out;
    Real arcs[PART];  // the expected arcs from tag `lane` to this team's part of the tags, divided by k

    __device__ int size() const { return WIDTH ? WIDTH : tags; }
    __device__ int lanes() const { return HELD ? TEAM : int(blockDim.x); }
    __device__ long long edge(int j) const { return stride ? first + j : 0; }

    // The sums of the arcs into tag t of token j, from the row g of the token before, and out of it.
    __device__ Real sum_in(int j, int t, const Real* row) const {
        if (HELD) return column_in.message(row);
        return message_in(row, matrices + edge(j - 1) * stride, t, tags);
    }
    __device__ Real sum_in(int j, int t) const {
        return j > 0 ? sum_in(j, t, g + (long long)(j - 1) * size()) : Real(0);
    }
    __device__ Real sum_out(int j, int t) const {
        if (j + 1 == length) return 0;
        const Real* row = f + (long long)(j + 1) * size();
        if (HELD) return column_out.message(row);
        return message_out(row, matrices + edge(j) * stride, transposed, t, tags);
    }

    // Call visit(j, active) for the tokens from, from + step, ... before `end`. All threads call it.
    // Teams without a token visit one that another team has, and are not active.
    template <class Visit>
    __device__ void for_each_token(int from, int step, int end, Visit visit) {
        for (int base = from; base < end; base += step * TEAMS) {
            const bool active = base + step * team < end;
            visit(active ? base + step * team : base, active);
        }
    }

    // Set e. Add the shifts to `value`. Return whether the scores have too large a range.
    __device__ bool exponentiate(const Scores& scores, int from, int end, double& value) {
        bool is_wide = false;
        for_each_token(from, 1, end, [&](int j, bool active) {
            Real top = -infinity(), low = 0;
            for (int t = lane; t < tags; t += lanes()) top = larger(top, Real(scores(first + j, t)));
            top = team_reduce<Real>(top, (Real*)scratch, larger<Real>);
            if (top == -infinity()) top = 0;
            for (int t = lane; t < size(); t += lanes()) {
                const Real x = t < tags ? Real(scores(first + j, t)) : Real(-infinity());
                const Real y = (x - top) * Real(options.scale);
                if (active) e[(long long)j * size() + t] = exp(y);
                if (y < low && y > -infinity()) low = y;
            }
            low = -team_reduce<Real>(-low, (Real*)scratch, larger<Real>);
            if (!active) return;
            const bool is_last = j + 1 == length;
            if (low + (is_last ? 0 : edge_lows[edge(j)]) < -Limits::MAX_RANGE) is_wide = true;
            if (lane == 0) value += top * options.scale + (is_last ? 0 : edge_shifts[edge(j)]);
        });
        return is_wide;
    }

    // Whether an arc into tag t of token j, or out of it, is allowed.
    __device__ bool has_arc(int j, int u, int v) const {
        const Real* row = e + (long long)j * size();
        return row[u] > 0 && row[size() + v] > 0 &&
               matrices[edge(j) * stride + (long long)u * tags + v] > 0;
    }
    __device__ bool has_in(int j, int t) const {
        for (int u = 0; u < tags && j > 0; ++u)
            if (has_arc(j - 1, u, t)) return true;
        return j == 0;
    }
    __device__ bool has_out(int j, int t) const {
        for (int v = 0; v < tags && j + 1 < length; ++v)
            if (has_arc(j, t, v)) return true;
        return j + 1 == length;
    }

    // Clear e of the tags without an arc in or without an arc out. Return whether it cleared one.
    __device__ int prune(int from, int end) {
        int cleared = 0;
        for (int j = from + team; j < end; j += TEAMS)
            for (int t = lane; t < tags; t += lanes()) {
                Real& x = e[(long long)j * size() + t];
                if (!(x > 0) || (has_in(j, t) && has_out(j, t))) continue;
                x = 0;
                cleared = 1;
            }
        return largest_of(cleared, (int*)scratch);
    }

    // Clear e of all tags that no allowed labeling uses.
    __device__ void prune_scan() {
        for (int k = 1; k < 2 * length - 1; ++k) {
            const int j = k < length ? k : 2 * length - 2 - k;
            for (int t = threadIdx.x; t < tags; t += blockDim.x)
                if (!(k < length ? has_in(j, t) : has_out(j, t))) e[(long long)j * size() + t] = 0;
            __syncthreads();
        }
    }

    // Set the first f and g. Return whether a token has no tag.
    __device__ bool initialize(int from, int end) {
        bool is_empty = false;
        for_each_token(from, 1, end, [&](int j, bool active) {
            Real total = 0;
            for (int t = lane; t < size(); t += lanes()) {
                const long long here = (long long)j * size() + t;
                const Real x = e[here], root = sqrt(x);
                total += x;
                if (!active) continue;
                f[here] = j + 1 == length ? x : root;
                g[here] = j == 0 ? x : root;
            }
            if (!(team_sum(total, (Real*)scratch) > 0)) is_empty = true;
        });
        return is_empty;
    }

    // Project the inner tokens of the parity of iteration k. Return the largest violation before, if
    // `measured`.
    __device__ double project(int k, int from, int end, Real excess, bool measured) {
        const int least = bcrf::projection::first_position(k);
        const int start = from < least ? least : from + (from - least) % 2;
        Real largest = 0;
        for_each_token(start, 2, end < length ? end : length - 1, [&](int j, bool active) {
            Real sum_f = 0, sum_g = 0, total_gap = 0;
            for (int t = lane; t < size(); t += lanes()) {
                const long long here = (long long)j * size() + t;
                const Real in = sum_in(j, t), out = sum_out(j, t);
                Real ft = f[here], gt = g[here], square, gap;
                bcrf::projection::project(e[here], in, out, excess, excess != 0, ft, gt, square, gap);
                const Real h = sqrt(square);
                ft *= h, gt *= h;
                sum_f += ft * in, sum_g += gt * out, total_gap += gap;
                if (active) f[here] = ft, g[here] = gt;
            }
            sum_f = team_sum(sum_f, (Real*)scratch), sum_g = team_sum(sum_g, (Real*)scratch);
            for (int t = lane; t < size() && active; t += lanes()) {
                const long long here = (long long)j * size() + t;
                f[here] /= sum_f, g[here] /= sum_g;
            }
            if (!measured) return;
            total_gap = team_sum(total_gap, (Real*)scratch);
            if (active) largest = larger(largest, total_gap);
        });
        return measured ? largest_of(largest, (Real*)scratch) : Real(0);
    }

    // Set the result of each tag, or subtract it, and add to `value` the tokens' part of the dual
    // value. left (N, tags), or null: the factors of the edge marginals left[i, u] k[u, v] f[i + 1, v].
    // Return whether Real lacks the range.
    __device__ bool finish(int from, int end, const Outputs& to, Real* left, bool lower,
                           double& value) {
        using bcrf::projection::CHAIN;
        using bcrf::projection::MEAN;
        const double low = 1 / double(Limits::MAX_FACTOR);
        Real *masses_in = rows + 2 * team * size(), *masses_out = masses_in + size();
        bool out_of_range = false;
        for_each_token(from, 1, end, [&](int j, bool active) {
            const bool is_first = j == 0, is_last = j + 1 == length;
            const long long row = (long long)j * size();
            double z_in = 0, z_out = 0, scale = -infinity();
            Real most = -1;
            int best = 0;
            for (int t = lane; t < size(); t += lanes()) {
                const Real ft = f[row + t], gt = g[row + t], by = sum_out(j, t);
                const Real in = is_first ? is_last ? e[row + t] : gt * by : ft * sum_in(j, t);
                const Real out = is_last ? in : gt * by;
                masses_in[t] = in, masses_out[t] = out;
                z_in += in, z_out += out;
                if (in + out > most) most = in + out, best = t;
                if (!(e[row + t] > 0)) continue;
                if (!is_first && !is_last && !Limits::holds(ft, gt)) out_of_range = true;
                if (options.rule == CHAIN && !is_first && !is_last && !(by >= Limits::MIN_NORMAL))
                    out_of_range = true;
            }
            z_in = team_sum(z_in, scratch), z_out = team_sum(z_out, scratch);
            // f g is e up to a scale. Real may have lost the factors of a tag of little mass.
            if (most == team_reduce<Real>(most, (Real*)scratch, larger<Real>) && e[row + best] > 0)
                scale = log(double(e[row + best])) - log(double(f[row + best])) -
                        log(double(g[row + best]));
            scale = team_reduce<double>(scale, scratch, larger<double>);
            if (!active) return;
            // A projection normalizes the arcs around its token. No projection may have reached the
            // first and the last edge.
            if (!(z_in > low && z_out > low)) out_of_range = true;
            if (lane == 0) {
                totals[j] = Real(z_out);
                if (!lower || length == 1) {
                    if (!is_first && !is_last) value += scale;
                    if (!is_first || is_last) value += log(z_in);
                }
            }
            for (int t = lane; t < tags; t += lanes()) {
                const double flow_in = masses_in[t] / z_in, flow_out = masses_out[t] / z_out;
                if (left) left[(first + j) * tags + t] = is_last ? 0 : Real(g[row + t] / z_out);
                Score& x = to.marginals[(first + j) * tags + t];
                if (options.rule == CHAIN)
                    x = chain_score(j, t, z_out);
                else
                    to.put(x, Score(options.rule == MEAN ? (flow_in + flow_out) / 2 : flow_out));
            }
        });
        return out_of_range;
    }

    // The score of a tag in the Markov chain of the arcs, without the normalizer: see `write_chain` of
    // ../cpu/bregman.hh.
    __device__ Score chain_score(int j, int t, double z_out) const {
        const bool is_first = j == 0, is_last = j + 1 == length;
        const long long here = (long long)j * size() + t;
        if (!(e[here] > 0)) return Score(-infinity());
        const Real by = is_first || is_last ? Real(1) : sum_out(j, t);
        const Real mass = !is_first ? f[here] : is_last ? e[here] : g[here];
        const double shift = is_last ? 0 : edge_shifts[edge(j)];
        return Score(log(double(mass)) - log(double(by)) - shift - (is_first ? log(z_out) : 0));
    }

    __device__ void visit_edges(int from, int end, const Outputs& to) const {
        for (int j = from; j < end; ++j) {
            const Real *here = g + (long long)j * size(), *next = f + (long long)(j + 1) * size();
            const Real* k = matrices + edge(j) * stride;
            if (j + 1 == length)
                to.last(first + j);
            else
                to.edge(
                    first + j,
                    [&](int u, int v) {
                        return here[u] * k[(long long)u * tags + v] * next[v] / totals[j];
                    },
                    [](int, int, Real) {});
        }
    }

    // Add sign times the arcs to the sums of this thread.
    __device__ void add_arcs(Real sign) {
        for (int j = 0; j + 1 < length && lane < tags; ++j) {
            const Real head = sign * g[j * WIDTH + lane] / totals[j];
            const Real* next = f + (j + 1) * WIDTH + team * PART;
#pragma unroll
            for (int v = 0; v < PART; ++v) arcs[v] += head * next[v];
        }
    }

    __device__ void flush(double* sums) const {
#pragma unroll
        for (int v = 0; v < PART; ++v) {
            const int to = team * PART + v;
            if (lane < tags && to < tags)
                atomicAdd(&sums[lane * tags + to], double(arcs[v] * transposed[to * tags + lane]));
        }
    }

    // Return <p, w> + H(p) without the shifts, where p is a point of the polytope: the Markov chain
    // with q's first marginals and q's transition probabilities. Two tokens or more. Each thread of
    // team 0 returns its part.
    __device__ double lower_bound() {
        double value = 0;
        for (int j = 0; j < length; ++j) {
            // p, then p divided by the sum of the arcs out.
            Real *x = rows + (j & 1) * size(), *last = rows + (~j & 1) * size(), total = 0;
            for (int t = lane; t < size() && team == 0; t += lanes()) {
                const long long here = (long long)j * size() + t;
                x[t] = j == 0 ? g[here] * sum_out(j, t) : f[here] * sum_in(j, t, last);
                total += x[t];
            }
            total = team_sum(total, (Real*)scratch);
            for (int t = lane; t < size() && team == 0; t += lanes()) {
                const long long here = (long long)j * size() + t;
                const double p = x[t] / double(total), out = j + 1 < length ? sum_out(j, t) : Real(1);
                x[t] = p > 0 ? Real(p / out) : Real(0);
                if (!(p > 0)) continue;
                value += p * log(double(e[here]));
                if (j > 0) value -= p * log(double(f[here]));
                if (j + 1 < length) value += p * (log(out) - log(p));
            }
            __syncthreads();
        }
        return value;
    }

    // Run all steps. Return the value of the bound of one pass. is_failed: Real lacks the range, or
    // no labeling is allowed.
    __device__ double run(const Scores& scores, const Outputs& to, Real* left, bool sums, bool lower,
                          bool& is_failed) {
        double value = 0;
        int bad = exponentiate(scores, 0, length, value);
        bool changed = true;
        for (int round = 0; round < LOCAL_PRUNINGS && changed; ++round) {
            __syncthreads();
            changed = prune(0, length);
        }
        if (changed) prune_scan();
        __syncthreads();
        bad |= initialize(0, length);
        is_failed = largest_of(bad, (int*)scratch);
        if (is_failed) return 0;
        const bool measured = options.relaxation == 0 || options.tolerance >= 0;
        bcrf::projection::Relaxation state;
        for (int k = 0; k < options.n_iter; ++k) {
            __syncthreads();
            const double found = project(k, 0, length, Real(state.omega - 1), measured);
            if (state.update(k, found, options.relaxation, options.tolerance)) break;
        }
        __syncthreads();
        bad = finish(0, length, to, left, lower, value);
        is_failed = largest_of(bad, (int*)scratch);
        if (is_failed) return 0;
        if (lower && length > 1) value += lower_bound();
        if (HELD && sums) add_arcs(to.subtract ? -1 : 1);
        if (to.each) visit_edges(0, length, to);
        return sum_of(value, scratch);
    }

    // Run iteration k on a chunk. states (n_iter, B, 4): the Relaxation of each iteration, and whether to
    // stop; violations (n_iter, B): the bits of the largest one, 0 before.
    __device__ void project_chunk(int k, int from, int end, double* states, long long* violations,
                                  int b, int batch) {
        bcrf::projection::Relaxation state;
        bool is_done = false;
        if (k > 0) {
            const double* last = states + 4 * ((long long)(k - 1) * batch + b);
            state = {last[0], last[1], last[2]};
            const double found = __longlong_as_double(violations[(long long)(k - 1) * batch + b]);
            is_done = last[3] || state.update(k - 1, found, options.relaxation, options.tolerance);
        }
        if (from == 0 && threadIdx.x == 0) {
            double* now = states + 4 * ((long long)k * batch + b);
            now[0] = state.omega, now[1] = state.sweep, now[2] = state.latest, now[3] = is_done;
        }
        if (is_done) return;
        const double found = project(k, from, end, Real(state.omega - 1), true);
        // The bits of non-negative doubles have the same order.
        if (threadIdx.x == 0)
            atomicMax(&violations[(long long)k * batch + b], __double_as_longlong(found));
    }
};

// Grid (tiles,). The tiles are sequences, whose `step` is ALL, or the chunks of chunks.py, each step a
// launch. With -DBCRF_WIDTH: THREADS threads.
// k: the iteration to PROJECT, or the round of PRUNE. changed (LOCAL_PRUNINGS, B): whether the round
// cleared a tag, 0 before. states, violations: see `project_chunk`. These are null if step is ALL.
// With partial gold, result, each and sums are the difference between the potentials and their
// restriction to gold, and values (2, tiles) both bounds.
// result (N, tags): see projection::Unary, which `rule` selects. sums (tags, tags): with -DBCRF_WIDTH,
// the sums of the edge marginals. Without it, see `finish` about left (N, tags). each (N, tags, tags),
// left and sums may be null.
// failed[b]: Real lacks the range for sequence b, or no labeling is allowed; sums lack it.
// workspace (3 rows + 1, N): for sequences longer than `capacity`.
// shared memory: a double for each thread, two rows for each team, 3 rows and a number for each token
// of `capacity`.
KERNEL bregman(const Score* unary, const Real* matrices, const Real* transposed,
               const double* edge_shifts, const double* edge_lows, const long long* starts,
               const int* lengths, const long long* chunk_starts, const int* chunk_lengths,
               const int* sequences, const int* gold, const signed char* allowed, Real* workspace,
               Real* left, Score* result, Score* each, double* sums, double* values, int* failed,
               int* changed, double* states, long long* violations, int n_iter, double relaxation,
               double tolerance, int rule, int lower, double scale, int capacity, int batch,
               long long tokens, int tags, long long stride, int step, int k) {
    const int s = blockIdx.x, b = sequences ? sequences[s] : s, length = lengths[b];
    const int from = sequences ? int(chunk_starts[s] - starts[b]) : 0;
    const int end = sequences ? from + chunk_lengths[s] : length;
    if (end <= from || (step > EXPONENTIATE && failed[b])) return;
    const int size = WIDTH ? WIDTH : tags;
    Real *rows = (Real*)(shared_memory + blockDim.x), *e = rows + 2 * TEAMS * size;
    long long cells = (long long)capacity * size;
    if (length > capacity) cells = tokens * size, e = workspace + starts[b] * size;
    Real* totals = length > capacity ? workspace + 3 * cells + starts[b] : e + 3 * cells;
    const int lanes = HELD ? TEAM : blockDim.x;
    Projections chain{matrices,
                      transposed,
                      edge_shifts,
                      edge_lows,
                      stride,
                      starts[b],
                      length,
                      tags,
                      {n_iter, relaxation, tolerance, rule, lower, scale},
                      e,
                      e + cells,
                      e + 2 * cells,
                      totals,
                      rows,
                      shared_memory,
                      int(threadIdx.x) / lanes,
                      int(threadIdx.x) % lanes};
    const Gold annotation{gold, allowed, tags};
    Outputs to{tags, result, each};
    double value = 0;
    int bad = 0;
    if (step == ALL) {
        if (HELD) {
            chain.column_in.load(matrices, chain.lane, tags);
            chain.column_out.load(transposed, chain.lane, tags);
        }
#pragma unroll
        for (int v = 0; v < PART; ++v) chain.arcs[v] = 0;
        const int passes = annotation.kind(starts[b], length, (int*)shared_memory) == PARTIAL ? 2 : 1;
        bool is_failed = false;
        for (int pass = 0; pass < passes && !is_failed; ++pass) {
            to.subtract = pass == 1;
            // The bounds of the two values keep the loss from being negative.
            value = chain.run({unary, annotation, to.subtract}, to, left, sums, lower || to.subtract,
                              is_failed);
            if (threadIdx.x == 0) values[pass * batch + b] = value;
            __syncthreads();
        }
        if (is_failed && threadIdx.x == 0) failed[b] = 1;
        if (HELD && sums && !is_failed) chain.flush(sums);
        return;
    }
    if (step == EXPONENTIATE) {
        bad = chain.exponentiate({unary, annotation, false}, from, end, value);
    } else if (step == PRUNE) {
        int* now = changed + (long long)k * batch + b;
        if (k > 0 && !now[-batch]) return;
        if (chain.prune(from, end) && threadIdx.x == 0) *now = 1;
    } else if (step == PRUNE_SCAN) {
        if (from == 0 && changed[(LOCAL_PRUNINGS - 1) * batch + b]) chain.prune_scan();
    } else if (step == INITIALIZE) {
        bad = chain.initialize(from, end);
    } else if (step == PROJECT) {
        chain.project_chunk(k, from, end, states, violations, b, batch);
    } else if (step == FINISH) {
        bad = chain.finish(from, end, to, left, lower, value);
        __syncthreads();
        if (lower && length > 1 && from == 0) value += chain.lower_bound();
        if (each) chain.visit_edges(from, end, to);
    }
    value = sum_of(value, shared_memory);
    bad = largest_of(bad, (int*)shared_memory);
    if (threadIdx.x) return;
    if (bad) failed[b] = 1;
    if (step == EXPONENTIATE) values[s] = value;
    if (step == FINISH) values[s] += value;
}
