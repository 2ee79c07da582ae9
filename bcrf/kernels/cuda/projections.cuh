// Iterative Bregman projections on the factors f and g of ../shared/projection.hh, over numbers N.
// One block runs on a sequence.
#ifndef BCRF_CUDA_PROJECTIONS_CUH
#define BCRF_CUDA_PROJECTIONS_CUH
#include "registers.cuh"
#include "gold.cuh"
#include "numbers.cuh"
#include "outputs.cuh"
#include "../shared/projection.hh"

using Limits = bcrf::Precision<Real>;

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

// Sum x, and y, of the threads of a team. With HELD, both wait at the same barriers.
template <class R>
__device__ void team_sums(R& x, R& y, R* scratch) {
    if constexpr (!HELD) {
        x = team_sum(x, scratch), y = team_sum(y, scratch);
    } else {
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            const R of_x = shuffle(x, distance), of_y = shuffle(y, distance);
            x = x + of_x, y = y + of_y;
        }
        if (WARPS == 1) return;
        const int warp = threadIdx.x / WARP, first = warp / WARPS * WARPS, last = first + WARPS - 1;
        R* other = scratch + THREADS / WARP;
        if (threadIdx.x % WARP == 0) scratch[warp] = x, other[warp] = y;
        __syncthreads();
        x = scratch[first] + scratch[last], y = other[first] + other[last];
        __syncthreads();
    }
}

struct Options {
    int n_iter;
    double relaxation, tolerance;  // 0: estimate it; negative: run all iterations
    int rule, lower;               // rule: see projection::Unary
    double scale;
};

// With partial gold, `to` is the difference between the potentials and their restriction to gold, and values (2, B)
// both bounds. Without -DBCRF_WIDTH, left (tokens, tags), or with gold (2, tokens, tags), and f become the factors of
// the sums in `to`: see `finish` and products.cu. left may be null.
// passes[b]: the passes of sequence b, 2 with partial gold; 0 if Real lacks the range, or no labeling is allowed.
// Sums lack it then.
struct Args {
    Batch batch;
    Matrices k;
    Gold gold;
    Outputs to;
    Losses loss;
    Options options;
    double *values, *workspace;  // workspace (3 tags + 1, tokens): Log
    int* passes;
    Real *factors, *left;  // factors: see `bregman`
    int capacity;
};

__device__ inline bool holds(Real f, Real g) {
    const Real low = 1 / Limits::MAX_FACTOR, high = Limits::MAX_FACTOR;
    return f < high && g < high && f > low && g > low;
}
__device__ inline bool holds(Log, Log) { return true; }
__device__ inline bool is_normal(Real x) { return x >= Limits::MIN_NORMAL; }
__device__ inline bool is_normal(Log) { return true; }

// projection::project on logarithms. f and g are not a step from the last ones, which may have lost the
// digits of e beside a huge score.
__device__ inline void project(Log e, Log in, Log out, double excess, bool, Log& f, Log& g, Log& square,
                               double& gap) {
    const double m = plain(f * in), n = plain(g * out);
    double up = 1, down = 1;
    bcrf::projection::over_relax(up, n, m, excess);
    bcrf::projection::over_relax(down, m, n, excess);
    gap = fabs(m - n);
    const double half = (out.log - in.log + log(up / down)) / 2;
    f = e > 0 ? Log::of(e.log / 2 + half) : 0;
    g = e > 0 ? Log::of(e.log / 2 - half) : 0;
    square = 1;
}

// One sequence, whose tokens have the positions j = 0, 1, ...
template <class N> struct Projections {
    using Plain = decltype(plain(N()));
    using Sum = decltype(N() * 1.0);

    const Args& args;
    N *e, *f, *g;     // (length, size()): exp(unary) and the factors
    N* totals;        // (length,): the sums of the arcs out of each token
    N* rows;          // in shared memory: two rows for each team
    double* scratch;  // in shared memory: a double for each thread
    Outputs to = args.to;
    const Options options = args.options;
    const int tags = args.batch.tags, length = args.batch.lengths[blockIdx.x];
    const long long first = args.batch.starts[blockIdx.x];
    Arcs<N> transitions{args.batch, args.k, options.scale};
    const int team = HELD ? threadIdx.x / TEAM : 0, lane = HELD ? threadIdx.x % TEAM : threadIdx.x;
    Column column_in, column_out;
    Real arcs[PART];  // the expected arcs from tag `lane` to this team's part of the tags, divided by k

    __device__ int size() const { return WIDTH ? WIDTH : tags; }
    __device__ int lanes() const { return HELD ? TEAM : int(blockDim.x); }

    // The sums of the arcs into tag t of token j, from the row g of the token before, and out of it.
    __device__ N sum_in(int j, int t, const N* row) const {
        if constexpr (HELD)
            return column_in.message(row);
        else
            return transitions.in(row, first + j - 1, t);
    }
    __device__ N sum_in(int j, int t) const {
        return j > 0 ? sum_in(j, t, g + (long long)(j - 1) * size()) : N(0);
    }
    __device__ N sum_out(int j, int t) const {
        if (j + 1 == length) return 0;
        const N* row = f + (long long)(j + 1) * size();
        if constexpr (HELD)
            return column_out.message(row);
        else
            return transitions.out(row, first + j, t);
    }

    // Call visit(j, stop) for the tokens from, from + step, ... before `end`. All threads call it, since teams meet at
    // barriers. A visitor loops over tags below `stop`: 0 for teams without a token, which touch no memory.
    template <class Visit>
    __device__ void for_each_token(int from, int step, int end, Visit visit) {
        for (int base = from; base < end; base += step * TEAMS) {
            const int j = base + step * team;
            visit(j < end ? j : base, j < end ? size() : 0);
        }
    }

    // Call visit(t, here) for the tags of token j that this thread takes, below `stop`; here: the cell of its row.
    template <class Visit>
    __device__ void for_tags(int j, int stop, Visit visit) const {
        for (int t = lane; t < stop; t += lanes()) visit(t, (long long)j * size() + t);
    }

    // Set e. Add the shifts to `value`. Return whether the scores have too large a range.
    __device__ bool exponentiate(const Scores& scores, double& value) {
        bool is_wide = false;
        for_each_token(0, 1, length, [&](int j, int stop) {
            Score top = -infinity(), low = infinity();
            for (int t = lane; t < tags && t < stop; t += lanes()) top = larger(top, scores(first + j, t));
            top = team_reduce<Score>(top, (Score*)scratch, larger<Score>);
            if (top == -infinity()) top = 0;
            for_tags(j, stop, [&](int t, long long here) {
                const Score x = t < tags ? scores(first + j, t) : Score(-infinity());
                e[here] = exponential<N>(x, top, options.scale);
                if (x < low && x > -infinity()) low = x;
            });
            low = -team_reduce<Score>(-low, (Score*)scratch, larger<Score>);
            if (!stop) return;
            const bool is_last = j + 1 == length;
            const double range = low < top ? (double(top) - low) * options.scale : 0;
            if (!IS_LOG<N> && (is_last ? 0 : args.k.edge_lows[args.batch.matrix(first + j)]) - range < -Limits::MAX_RANGE)
                is_wide = true;
            if (lane == 0) value += top * options.scale + (is_last ? 0 : transitions.shift(first + j));
        });
        return is_wide;
    }

    // Whether an arc into tag t of token j, or out of it, is allowed.
    __device__ bool has_arc(int j, int u, int v) const {
        const N* row = e + (long long)j * size();
        return row[u] > 0 && row[size() + v] > 0 && transitions.at(first + j, u, v) > 0;
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

    // Clear e of the tags without an arc in or without an arc out. Return whether it cleared one. f, which has no value
    // yet, gets the new e, because other threads read the old one.
    __device__ int prune() {
        int cleared = 0;
        for (int j = team; j < length; j += TEAMS)
            for_tags(j, tags, [&](int t, long long here) {
                const bool dead = e[here] > 0 && !(has_in(j, t) && has_out(j, t));
                f[here] = dead ? N(0) : e[here];
                cleared |= dead;
            });
        __syncthreads();
        for (int j = team; j < length; j += TEAMS)
            for_tags(j, tags, [&](int, long long here) { e[here] = f[here]; });
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
    __device__ bool initialize() {
        bool is_empty = false;
        for_each_token(0, 1, length, [&](int j, int stop) {
            N total = 0;
            for_tags(j, stop, [&](int, long long here) {
                const N x = e[here], root = sqrt(x);
                total += x;
                f[here] = j + 1 == length ? x : root;
                g[here] = j == 0 ? x : root;
            });
            total = team_sum(total, (N*)scratch);
            if (stop && !(total > 0)) is_empty = true;
        });
        return is_empty;
    }

    // Project the inner tokens of the parity of iteration k. Return the largest violation before, if
    // `measured`.
    __device__ double project_all(int k, Plain excess, bool measured) {
        using bcrf::projection::project;
        using ::project;
        Plain largest = 0;
        for_each_token(bcrf::projection::first_position(k), 2, length - 1, [&](int j, int stop) {
            N sum_f = 0, sum_g = 0;
            Plain total_gap = 0;
            // Rounding errors of huge logarithms cancel in normalized arcs.
            N all_in = 0, all_out = 0;
            if (IS_LOG<N>) {
                for_tags(j, stop, [&](int t, long long here) {
                    all_in += f[here] * sum_in(j, t), all_out += g[here] * sum_out(j, t);
                });
                team_sums(all_in, all_out, (N*)scratch);
            }
            for_tags(j, stop, [&](int t, long long here) {
                const N in = sum_in(j, t), out = sum_out(j, t);
                N ft = f[here], gt = g[here], square;
                if (IS_LOG<N>) ft = ft / all_in, gt = gt / all_out;
                Plain gap;
                project(e[here], in, out, excess, excess != 0, ft, gt, square, gap);
                const N h = sqrt(square);
                ft = ft * h, gt = gt * h;
                sum_f += ft * in, sum_g += gt * out, total_gap += gap;
                f[here] = ft, g[here] = gt;
            });
            team_sums(sum_f, sum_g, (N*)scratch);
            for_tags(j, stop, [&](int, long long here) { f[here] = f[here] / sum_f, g[here] = g[here] / sum_g; });
            if (!measured) return;
            total_gap = team_sum(total_gap, (Plain*)scratch);
            if (stop) largest = larger(largest, total_gap);
        });
        return measured ? largest_of(largest, (Plain*)scratch) : Plain(0);
    }

    // Set the result of each tag, or subtract it, and add to `value` the tokens' part of the dual
    // value. left (N, tags), or null: the factors of the edge marginals left[i, u] k[u, v] f[i + 1, v].
    // Return whether N lacks the range.
    __device__ bool finish(N* left, bool lower, double& value) {
        using bcrf::projection::CHAIN;
        using bcrf::projection::MEAN;
        const double low = 1 / double(Limits::MAX_FACTOR);
        N *masses_in = rows + 2 * team * size(), *masses_out = masses_in + size();
        bool out_of_range = false;
        for_each_token(0, 1, length, [&](int j, int stop) {
            const bool is_first = j == 0, is_last = j + 1 == length;
            Sum z_in = 0, z_out = 0;
            double scale = -infinity();
            N most = 0;
            long long best = (long long)j * size();
            for_tags(j, stop, [&](int t, long long here) {
                const N ft = f[here], gt = g[here], by = sum_out(j, t);
                const N in = is_first ? is_last ? e[here] : gt * by : ft * sum_in(j, t);
                const N out = is_last ? in : gt * by;
                masses_in[t] = in, masses_out[t] = out;
                z_in += in, z_out += out;
                if (in + out > most) most = in + out, best = here;
                if (e[here] > 0 && !is_first && !is_last)
                    out_of_range |= !holds(ft, gt) || (options.rule == CHAIN && !is_normal(by));
            });
            team_sums(z_in, z_out, (Sum*)scratch);
            // f g is e up to a scale. N may have lost the factors of a tag of little mass.
            if (!(team_reduce<N>(most, (N*)scratch, larger<N>) != most) && stop && e[best] > 0)
                scale = log_of(e[best]) - log_of(f[best]) - log_of(g[best]);
            scale = team_reduce<double>(scale, scratch, larger<double>);
            if (!stop) return;
            // A projection normalizes the arcs around its token. No projection may have reached the
            // first and the last edge.
            if (!IS_LOG<N> && !(z_in > low && z_out > low)) out_of_range = true;
            if (lane == 0) {
                totals[j] = N(z_out);
                if (!lower || length == 1) {
                    if (!is_first && !is_last) value += scale;
                    if (!is_first || is_last) value += log_of(z_in);
                }
            }
            for_tags(j, tags, [&](int t, long long here) {
                const double flow_in = plain(masses_in[t] / z_in), flow_out = plain(masses_out[t] / z_out);
                if constexpr (!IS_LOG<N>)
                    if (left) left[(first + j) * tags + t] = g[here] / z_out;
                Score& x = to.marginals[(first + j) * tags + t];
                if (options.rule == CHAIN)
                    x = chain_score(j, t, z_out, is_last ? flow_in : flow_out);
                else
                    to.put(x, Score(options.rule == MEAN ? (flow_in + flow_out) / 2 : flow_out));
            });
        });
        return out_of_range;
    }

    // The score of a tag with the probability `flow` in the Markov chain of the arcs, without the
    // normalizer: see `chain_scores` of ../cpu/projections.hh.
    __device__ Score chain_score(int j, int t, Sum z_out, double flow) const {
        const bool is_first = j == 0, is_last = j + 1 == length;
        const long long here = (long long)j * size() + t;
        if (!(e[here] > 0)) return Score(-infinity());
        const N by = is_first || is_last ? N(1) : sum_out(j, t);
        const N mass = !is_first ? f[here] : is_last ? e[here] : g[here];
        const double shift = is_last ? 0 : transitions.shift(first + j);
        const double score = log_of(mass) - log_of(by) - (is_first ? log_of(z_out) : 0);
        return Score(bcrf::projection::chain_score(score, log(flow)) - shift);
    }

    __device__ void visit_edges() const {
        for (int j = 0; j < length; ++j) {
            const N *here = g + (long long)j * size(), *next = f + (long long)(j + 1) * size();
            if (j + 1 == length)
                to.last(first + j);
            else
                to.edge(
                    first + j,
                    [&](int u, int v) { return plain(here[u] * transitions.at(first + j, u, v) * next[v] / totals[j]); },
                    [](int, int, Plain) {});
        }
    }

    // Add the arcs to the sums of this thread, or subtract them.
    __device__ void add_arcs() {
        for (int j = 0; j + 1 < length && lane < tags; ++j) {
            const Real arc = g[j * WIDTH + lane] / totals[j], head = to.subtract ? -arc : arc;
            const Real* next = f + (j + 1) * WIDTH + team * PART;
#pragma unroll
            for (int v = 0; v < PART; ++v) arcs[v] += head * next[v];
        }
    }

    __device__ void flush() const {
#pragma unroll
        for (int v = 0; v < PART; ++v) {
            const int tag = team * PART + v;
            if (lane < tags && tag < tags)
                atomicAdd(&args.to.sums[lane * tags + tag], double(arcs[v] * args.k.transposed[tag * tags + lane]));
        }
    }

    // Return <p, w> + H(p) without the shifts, where p is a point of the polytope: the Markov chain
    // with q's first marginals and q's transition probabilities. Two tokens or more. Each thread of
    // team 0 returns its part.
    __device__ double lower_bound() {
        double value = 0;
        for (int j = 0; j < length; ++j) {
            // p, then p divided by the sum of the arcs out.
            N *x = rows + (j & 1) * size(), *last = rows + (~j & 1) * size(), total = 0;
            for (int t = lane; t < size() && team == 0; t += lanes()) {
                const long long here = (long long)j * size() + t;
                x[t] = j == 0 ? g[here] * sum_out(j, t) : f[here] * sum_in(j, t, last);
                total += x[t];
            }
            total = team_sum(total, (N*)scratch);
            for (int t = lane; t < size() && team == 0; t += lanes()) {
                const long long here = (long long)j * size() + t;
                const N share = x[t] / total, out = j + 1 < length ? sum_out(j, t) : N(1);
                const double p = plain(share);
                x[t] = share > 0 ? share / out : N(0);
                if (!(p > 0)) continue;
                value += p * log_of(e[here]);
                if (j > 0) value -= p * log_of(f[here]);
                if (j + 1 < length) value += p * (log_of(out) - log(p));
            }
            __syncthreads();
        }
        return value;
    }

    // Run all steps of a pass. Return the value of its bound. is_failed: N lacks the range, or no labeling is allowed.
    __device__ double run(N* left, bool& is_failed) {
        // The bounds of the two values keep the loss from being negative.
        const bool lower = options.lower || to.subtract;
        double value = 0;
        int bad = exponentiate({args.batch.unary, args.gold, to.subtract}, value);
        bool changed = true;
        for (int round = 0; round < LOCAL_PRUNINGS && changed; ++round) {
            __syncthreads();
            changed = prune();
        }
        if (changed) prune_scan();
        __syncthreads();
        bad |= initialize();
        is_failed = largest_of(bad, (int*)scratch);
        if (is_failed) return 0;
        const bool measured = options.relaxation == 0 || options.tolerance >= 0;
        bcrf::projection::Relaxation state;
        for (int k = 0; k < options.n_iter; ++k) {
            __syncthreads();
            const double found = project_all(k, Plain(state.omega - 1), measured);
            if (state.update(k, found, options.relaxation, options.tolerance)) break;
        }
        __syncthreads();
        bad = finish(left, lower, value);
        is_failed = largest_of(bad, (int*)scratch);
        if (is_failed) return 0;
        if (lower && length > 1) value += lower_bound();
        if constexpr (HELD)
            if (args.to.sums) add_arcs();
        if (to.has_edges()) visit_edges();
        return sum_of(value, scratch);
    }
};

#endif
