// Iterative Bregman projections on the factors f and g of ../shared/projection.hh. One block a token,
// unless a kernel says otherwise. rows[i] is the row of token i in f and g. The tokens of one parity
// have adjacent rows, so their messages through shared transitions are one matrix product:
// messages_in are the rows of g k, and messages_out the rows of f k^T. Both are null if the kernels
// compute the messages themselves. transposed: k^T of shared transitions, or null.
#include "messages.cuh"
#include "../shared/projection.hh"

using Limits = bcrf::Precision<Real>;

// Clear e of tags that have no arc in or no arc out. changed[b]: whether it cleared one. If the
// previous round changed nothing in the sequence (previous[b] is 0), this one has nothing to do.
KERNEL prune_locally(Real* e, const Real* matrices, const int* segment_ids, const long long* starts,
                     const int* lengths, const int* previous, int* changed, int tags,
                     long long stride) {
    const long long i = blockIdx.x;
    const int b = segment_ids[i];
    if (previous && !previous[b]) return;
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    const Real *k_in = matrices + (i - 1) * stride, *k_out = matrices + i * stride;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        if (!(e[i * tags + t] > 0)) continue;
        bool has_in = is_first, has_out = is_last;
        for (int u = 0; u < tags && !has_in; ++u)
            has_in = e[(i - 1) * tags + u] > 0 && k_in[(long long)u * tags + t] > 0;
        for (int v = 0; v < tags && !has_out; ++v)
            has_out = e[(i + 1) * tags + v] > 0 && k_out[(long long)t * tags + v] > 0;
        if (has_in && has_out) continue;
        e[i * tags + t] = 0;
        changed[b] = 1;
    }
}

// Clear e of all tags that no allowed labeling uses, in the sequences that the last round of
// prune_locally changed. One block a sequence, which it scans forwards and backwards.
KERNEL prune(Real* e, const Real* matrices, const long long* starts, const int* lengths,
             const int* changed, int tags, long long stride) {
    const int b = blockIdx.x;
    if (!changed[b]) return;
    const long long first = starts[b], last = first + lengths[b] - 1;
    for (long long i = first + 1; i <= last; ++i) {
        const Real* k = matrices + (i - 1) * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            bool has_in = false;
            for (int u = 0; u < tags && !has_in; ++u)
                has_in = e[(i - 1) * tags + u] > 0 && k[(long long)u * tags + t] > 0;
            if (!has_in) e[i * tags + t] = 0;
        }
        __syncthreads();
    }
    for (long long i = last - 1; i >= first; --i) {
        const Real* k = matrices + i * stride;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            bool has_out = false;
            for (int v = 0; v < tags && !has_out; ++v)
                has_out = e[(i + 1) * tags + v] > 0 && k[(long long)t * tags + v] > 0;
            if (!has_out) e[i * tags + t] = 0;
        }
        __syncthreads();
    }
}

// Set the first f and g. failed[b]: the sequence has too large a range for Real, or no allowed
// labeling. The test adds the ranges of the token and of its edge; the CPU kernels take the widest
// edge of the sequence, which here would need another pass.
KERNEL initialize(const Real* e, const double* lows, const double* edge_lows, const int* segment_ids,
                  const int* rows, const long long* starts, const int* lengths, Real* f, Real* g,
                  int* failed, int tags, int shared) {
    Real* scratch = (Real*)shared_memory;
    const long long i = blockIdx.x, row = (long long)rows[i] * tags;
    const int b = segment_ids[i];
    const bool is_first = i == starts[b], is_last = i == starts[b] + lengths[b] - 1;
    Real total = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real x = e[i * tags + t], root = sqrt(x);
        total += x;
        f[row + t] = is_last ? x : root;
        g[row + t] = is_first ? x : root;
    }
    total = sum_of(total, scratch);
    const double low = lows[i] + (is_last ? 0.0 : edge_lows[shared ? 0 : i]);
    if (threadIdx.x == 0 && (!(total > 0) || low < -Limits::MAX_RANGE)) failed[b] = 1;
}

// Project inner token i. violation: null, or the running maximum of violations before a projection.
__device__ void project_token(long long i, const Real* e, const Real* matrices, const Real* transposed,
                              const int* rows, const Real* messages_in, const Real* messages_out,
                              Real* f, Real* g, Real excess, long long* violation, int tags,
                              long long stride) {
    Real *new_f = (Real*)shared_memory, *new_g = new_f + tags, *scratch = new_g + tags;
    const long long here = (long long)rows[i] * tags, next = (long long)rows[i + 1] * tags;
    const long long previous = (long long)rows[i - 1] * tags;
    const Real *k_in = matrices + (i - 1) * stride, *k_out = matrices + i * stride;
    Real sum_in = 0, sum_out = 0, total_gap = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real in =
            messages_in ? messages_in[previous + t] : message_in(g + previous, k_in, t, tags);
        const Real out =
            messages_out ? messages_out[next + t] : message_out(f + next, k_out, transposed, t, tags);
        Real ft = f[here + t], gt = g[here + t], square, gap;
        bcrf::projection::project(e[i * tags + t], in, out, excess, excess != 0, ft, gt, square, gap);
        const Real h = sqrt(square);
        new_f[t] = h * ft, new_g[t] = h * gt;
        sum_in += new_f[t] * in;
        sum_out += new_g[t] * out;
        total_gap += gap;
    }
    sum_in = sum_of(sum_in, scratch);
    sum_out = sum_of(sum_out, scratch);
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        f[here + t] = new_f[t] / sum_in;
        g[here + t] = new_g[t] / sum_out;
    }
    if (!violation) return;
    total_gap = sum_of(total_gap, scratch);
    // The bits of non-negative doubles have the same order.
    if (threadIdx.x == 0) atomicMax(violation, __double_as_longlong(double(total_gap)));
}

// Project the inner tokens at odd positions of their sequences, or at even ones (odd = 0). One block
// for two tokens, because in most pairs one has the parity.
// omegas, violations and done (B,); null if all sequences run all iterations with the same `excess`.
KERNEL project(const Real* e, const Real* matrices, const Real* transposed, const int* segment_ids,
               const int* rows, const long long* starts, const int* lengths, const Real* messages_in,
               const Real* messages_out, Real* f, Real* g, const int* failed, double excess,
               const double* omegas, long long* violations, const int* done, int odd, long long tokens,
               int tags, long long stride) {
    const long long pair = 2 * (long long)blockIdx.x;
    for (long long i = pair; i < pair + 2 && i < tokens; ++i) {
        const int b = segment_ids[i];
        const long long position = i - starts[b];
        if (position % 2 != odd || position == 0 || position + 1 == lengths[b]) continue;
        if (failed[b] || (done && done[b])) continue;
        project_token(i, e, matrices, transposed, rows, messages_in, messages_out, f, g,
                      Real(omegas ? omegas[b] - 1 : excess), violations ? violations + b : nullptr,
                      tags, stride);
        __syncthreads();
    }
}

// After an iteration: stop sequences, or set the omega of their next iteration. One thread a sequence.
// violations: of this iteration; cleared for the next. omegas, sweeps, latest: see Relaxation.
KERNEL update_relaxation(long long* violations, double* omegas, double* sweeps, double* latest,
                         int* done, int size, int iteration, double relaxation, double tolerance) {
    for (int b = blockIdx.x * blockDim.x + threadIdx.x; b < size; b += gridDim.x * blockDim.x) {
        const double violation = __longlong_as_double(violations[b]);
        violations[b] = 0;
        if (done[b]) continue;
        bcrf::projection::Relaxation state{omegas[b], sweeps[b], latest[b]};
        done[b] = state.update(iteration, violation, relaxation, tolerance);
        omegas[b] = state.omega;
        sweeps[b] = state.sweep;
        latest[b] = state.latest;
    }
}

// unary (N, tags): see projection::Unary, which `rule` selects; logs (N,): each token's part of the
// dual value; left and right (N, tags), or null: the factors of the edge marginals
// left[i, u] k[u, v] right[i + 1, v].
KERNEL finish(const Real* e, const Real* matrices, const Real* transposed, const double* shifts,
              const double* edge_shifts, const int* segment_ids, const int* rows,
              const long long* starts, const int* lengths, const Real* messages_in,
              const Real* messages_out, const Real* f, const Real* g, Score* unary, Real* left,
              Real* right, double* logs, int* failed, int rule, int lower, int tags,
              long long stride) {
    using bcrf::projection::CHAIN;
    using bcrf::projection::MEAN;
    using bcrf::projection::OUTGOING;
    Real *flow_in = (Real*)shared_memory, *flow_out = flow_in + tags;
    double* scratch = shared_memory + 2 * tags;
    const long long i = blockIdx.x;
    const int b = segment_ids[i], length = lengths[b];
    if (failed[b]) {
        for (int t = threadIdx.x; t < tags && left; t += blockDim.x)
            left[i * tags + t] = right[i * tags + t] = 0;
        return;
    }
    const bool is_first = i == starts[b], is_last = i == starts[b] + length - 1;
    const long long here = (long long)rows[i] * tags;
    const double shift = is_last ? 0.0 : edge_shifts[stride ? i : 0];
    double sum_e = 0, sum_fg = 0, z_in = 0, z_out = 0, out_of_range = 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const Real ft = f[here + t], gt = g[here + t], et = e[i * tags + t];
        Real in = 0, out = 0;
        if (!is_first) {
            const long long row = (long long)rows[i - 1] * tags;
            in = messages_in ? messages_in[row + t]
                             : message_in(g + row, matrices + (i - 1) * stride, t, tags);
        }
        if (!is_last) {
            const long long row = (long long)rows[i + 1] * tags;
            out = messages_out ? messages_out[row + t]
                               : message_out(f + row, matrices + i * stride, transposed, t, tags);
        }
        const Real mass_in = is_first ? is_last ? et : gt * out : ft * in;
        const Real mass_out = is_last ? mass_in : gt * out;
        flow_in[t] = mass_in, flow_out[t] = mass_out;
        z_in += mass_in, z_out += mass_out;
        if (et > 0 && !is_first && !is_last && !Limits::holds(ft, gt)) out_of_range = 1;
        sum_e += et;
        sum_fg += double(ft) * gt;
        if (left) left[i * tags + t] = is_last ? Real(0) : gt;
        if (right) right[i * tags + t] = is_first ? Real(0) : ft;
        if (rule != CHAIN) continue;
        // The score without the normalizer, see `write_chain` of ../cpu/bregman.hh.
        const Real from = is_first ? is_last ? et : gt : ft;
        const Real by = is_first || is_last ? Real(1) : out;
        if (et > 0 && !(by >= Limits::MIN_NORMAL)) out_of_range = 1;
        unary[i * tags + t] =
            Score(et > 0 ? log(double(from)) - log(double(by)) - shift : -infinity());
    }
    out_of_range = largest_of(out_of_range, scratch);
    z_in = sum_of(z_in, scratch), z_out = sum_of(z_out, scratch);
    // f g is e up to a scale.
    sum_e = sum_of(sum_e, scratch), sum_fg = sum_of(sum_fg, scratch);
    // A projection normalizes the arcs around its token. No projection may have reached the first
    // and the last edge.
    const double low = 1 / double(Limits::MAX_FACTOR);
    if (!(z_in > low && z_out > low)) out_of_range = 1;
    double log_value = is_first || is_last ? 0 : log(sum_e / sum_fg);
    if (!is_first || is_last) log_value += log(z_in);
    const double log_z = is_first ? log(z_out) : 0;
    for (int t = threadIdx.x; t < tags; t += blockDim.x) {
        const double in = flow_in[t] / z_in, out = flow_out[t] / z_out;
        Score& x = unary[i * tags + t];
        x = Score(rule == MEAN ? (in + out) / 2 : rule == OUTGOING ? out : x - log_z);
        if (right) right[i * tags + t] /= Real(z_in);
    }
    if (threadIdx.x) return;
    if (out_of_range > 0) failed[b] = 1;
    logs[i] = shifts[i] + shift;
    if (!lower || length == 1) logs[i] += log_value;
}

// Add <p, w> + H(p), without the shifts, to logs[first token], for sequences of two tokens or more.
// p is a point of the polytope: the Markov chain with q's first marginals and q's transition
// probabilities. One block a sequence.
KERNEL add_lower_bound(const Real* e, const Real* matrices, const Real* transposed, const int* rows,
                       const long long* starts, const int* lengths, const Real* f, const Real* g,
                       const int* failed, double* logs, int tags, long long stride) {
    double *p = shared_memory, *scratch = p + tags;
    Real* x = (Real*)(scratch + blockDim.x);
    const int b = blockIdx.x, length = lengths[b];
    if (length < 2 || failed[b]) return;
    const long long first = starts[b], last = first + length - 1;
    double value = 0;
    for (long long i = first; i <= last; ++i) {
        const Real *here = f + (long long)rows[i] * tags, *k = matrices + i * stride;
        const Real* next = i < last ? f + (long long)rows[i + 1] * tags : nullptr;
        double total = 0;
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            if (i == first)
                p[t] = double(g[(long long)rows[i] * tags + t]) *
                       message_out(next, k, transposed, t, tags);
            else
                p[t] = double(here[t]) * message_in(x, k - stride, t, tags);
            total += p[t];
        }
        total = sum_of(total, scratch);
        for (int t = threadIdx.x; t < tags; t += blockDim.x) {
            const double pt = p[t] / total;
            const double out = next ? message_out(next, k, transposed, t, tags) : 1;
            x[t] = pt > 0 ? Real(pt / out) : Real(0);
            if (!(pt > 0)) continue;
            value += pt * log(double(e[i * tags + t]));
            if (i > first) value -= pt * log(double(here[t]));
            if (next) value += pt * (log(out) - log(pt));
        }
        __syncthreads();
    }
    value = sum_of(value, scratch);
    if (threadIdx.x == 0) logs[first] += value;
}
