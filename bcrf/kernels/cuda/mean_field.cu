// Mean field: parallel updates of all tokens of a sequence, and the backward pass through them.
#include "registers.cuh"
#include "gold.cuh"

// With -DBCRF_WIDTH, the threads hold the shared transitions in registers, and the sums of their gradients.
constexpr bool HELD = WIDTH > 0;
constexpr int TEAM = WARPS * WARP;

// One sequence, whose tokens have the positions j = 0, 1, ... Rows of tokens have size() numbers, 0 from `tags` on.
// A team computes the messages to a token from one side, and a warp what needs sums over a token's tags. So threads
// meet only between these steps. The block has two warps or more, with WIDTH two teams or more.
struct Field {
    const Real *w, *transposed;  // see prepare.cu; 0 where transitions are forbidden
    const Score* unary;          // from the first token on
    long long first, stride;
    int length, tags;
    Real *of_side, *ins, *outs;  // (length, size()): messages from the team's side, from before, from after
    int side, team, teams;       // side: -1 if the team's neighbors stand before, 1 if after; the team among its side's
    Column column;
    Real arcs[CELLS];  // the gradients of the transitions between tag `lane` and the tags of the team's neighbors

    __device__ int size() const { return WIDTH ? WIDTH : tags; }

    // Call visit(here, t) for the tags of token j of this thread's warp, `here` the cell of its row.
    template <class Visit> __device__ void for_tags(int j, Visit visit) const {
        for (int t = threadIdx.x % WARP; t < tags; t += WARP) visit((long long)j * size() + t, t);
    }

    // Set all messages from the rows x. heads, or null: add the products of their rows with their neighbors' to arcs.
    __device__ void send(const Real* x, const Real* heads) {
        __syncthreads();
        for (int j = team; j < length; j += teams) {
            const int from = j + side;
            const bool has_neighbor = from >= 0 && from < length;
            const Real* row = x + (long long)from * size();
            for (int t = threadIdx.x % TEAM; t < tags; t += TEAM) {
                const long long here = (long long)j * size() + t, edge = first + (side < 0 ? from : j);
                Real sum = 0;
                if constexpr (HELD) {
                    if (has_neighbor) sum = heads ? column.message(row, heads[here], arcs) : column.message(row);
                } else if (has_neighbor) {
                    sum = side < 0 ? message_in(row, w + edge * stride, t, tags)
                                   : message_out(row, w + edge * stride, transposed, t, tags);
                }
                of_side[here] = sum;
            }
        }
        __syncthreads();
    }

    // Set r = softmax(unary + messages), or softmax(unary) without `messages`. Set failed if a token has no allowed
    // tag. Return this thread's part of -log r[gold], or of the entropy of r if gold is null.
    __device__ double update(Real* r, bool messages, const int* gold, bool& failed) const {
        double value = 0;
        for (int j = threadIdx.x / WARP; j < length; j += blockDim.x / WARP) {
            // Computed again in each loop: a number that was just stored takes longer.
            const auto logit = [&](long long here, int t) {
                const Real x = unary[(long long)j * tags + t];
                return messages ? x + (ins[here] + outs[here]) : x;
            };
            Real top = -infinity(), total = 0, mean = 0;
            for_tags(j, [&](long long here, int t) { top = larger(top, logit(here, t)); });
            top = combine_warp<Real>(top, larger<Real>);
            const bool feasible = !(top == -infinity());
            for_tags(j, [&](long long here, int t) {
                // Without the largest logit first, x would lose digits.
                const Real x = logit(here, t) - top, p = exp(x);
                total += p;
                if (gold ? gold[j] == t : p > 0) mean += gold ? x : p * x;
            });
            total = combine_warp<Real>(total, add<Real>);
            for_tags(j, [&](long long here, int t) {
                r[here] = feasible ? exp(logit(here, t) - top) / total : Real(0);
            });
            if (!feasible) failed = true;
            if (!feasible || (gold && gold[j] < 0)) continue;
            value -= gold ? mean : mean / total;
            if (threadIdx.x % WARP == 0) value += log(total);
        }
        return value;
    }

    // Set `before`, the gradients of the logits of iterate r, from the messages of the gradients of the next ones. Add
    // it to `gradient` (length, tags).
    __device__ void backward(const Real* r, Real* before, Score* gradient) const {
        for (int j = threadIdx.x / WARP; j < length; j += blockDim.x / WARP) {
            Real mean = 0;
            for_tags(j, [&](long long here, int) { mean += r[here] * (ins[here] + outs[here]); });
            mean = combine_warp<Real>(mean, add<Real>);
            for_tags(j, [&](long long here, int t) {
                const Real d = r[here] * (ins[here] + outs[here] - mean);
                before[here] = d;
                gradient[(long long)j * tags + t] += d;
            });
        }
    }
};

// Grid (B,), one block a sequence. In r, delta and messages, token i of sequence b has row i + b: a row of zeros
// follows each sequence, so that the host can multiply r and delta of neighboring rows.
// numbers: (N + B) size. w, transposed: see Field.
// r (n_iter + 1, N + B, size): the iterates; without gold (1, N + B, size), the last one.
// delta: the gradients of their logits, or null without gold. kept: `numbers` for all, 0 for those of the last pass.
// messages (2, N + B, size): workspace.
// value (B,): losses; without gold <w, r> + H(r), -inf if a token has no allowed tag.
// result (N, tags): the gradient of the unary scores; without gold, the last iterate.
// each (N, tags, tags), or sums, zeros before, and edges (tags, tags) with -DBCRF_WIDTH: the gradients of the
// transitions. They may be null. counter: see convert_sums.
// shared memory: a double for each thread.
KERNEL mean_field(const Score* unary, const Score* transitions, const Real* w, const Real* transposed,
                  const long long* starts, const int* lengths, const int* gold, Real* r, Real* delta, Real* messages,
                  Score* value, Score* result, Score* each, double* sums, Score* edges, int* counter, int n_iter,
                  long long numbers, long long kept, int tags, long long stride) {
    const int b = blockIdx.x, length = lengths[b], team = threadIdx.x / TEAM, lane = threadIdx.x % TEAM;
    const int size = WIDTH ? WIDTH : tags;
    const long long first = starts[b], cells = (long long)tags * tags, row = (first + b) * size;
    const long long step = gold ? numbers : 0, end = (long long)length * size;
    r += row, messages += row, result += first * tags;
    if (gold) gold += first, delta += row;
    Field field{w, transposed, unary + first * tags, first, stride, length, tags, messages + team % 2 * numbers,
                messages, messages + numbers, team % 2 ? 1 : -1, team / 2, int(blockDim.x) / TEAM / 2};
    if constexpr (HELD) field.column.load(team % 2 ? transposed : w, lane, tags);
#pragma unroll
    for (int c = 0; c < CELLS; ++c) field.arcs[c] = 0;
    for (int j = threadIdx.x / WARP; j <= length; j += blockDim.x / WARP)
        for (int t = threadIdx.x % WARP + (j < length ? tags : 0); t < size; t += WARP)
            for (int k = 0; k <= (gold ? n_iter : 0); ++k) {
                r[k * step + (long long)j * size + t] = 0;
                if (gold) delta[k * kept + (long long)j * size + t] = 0;
            }

    bool failed = false;
    double total = field.update(r, false, gold, failed);
    for (int k = 1; k <= n_iter; ++k) {
        field.send(r + (k - 1) * step, nullptr);
        total = field.update(r + k * step, true, gold, failed);
    }
    // The edge counts for its later token.
    if (!gold) field.send(r, nullptr);
    failed = largest_of(int(failed), (int*)shared_memory);
    const Real* last = r + n_iter * step;
    for (int j = threadIdx.x / WARP; j < length; j += blockDim.x / WARP)
        field.for_tags(j, [&](long long here, int t) {
            const bool known = !failed && (!gold || gold[j] >= 0);
            const Real p = known ? last[here] : Real(0);
            if (!gold && p > 0) total += p * (double(field.unary[(long long)j * tags + t]) + field.ins[here]);
            result[(long long)j * tags + t] = p - Real(known && gold && t == gold[j]);
            if (gold) delta[n_iter * kept + here] = result[(long long)j * tags + t];
        });
    total = sum_of(total, shared_memory);
    if (threadIdx.x == 0) value[b] = failed ? Score(-infinity()) : Score(total);
    if (!gold) return;

    for (int k = n_iter - 1; k >= 0; --k) {
        field.send(delta + (k + 1) * kept, r + k * step);
        field.backward(r + k * step, delta + k * kept, result);
    }
    // No barrier: what this reads was written before the last send.
    for (long long c = threadIdx.x; each && c < length * cells; c += blockDim.x) {
        const long long here = c / cells * size + c % cells / tags, next = (c / cells + 1) * size + c % tags;
        Real sum = 0;
        for (int k = 0; k < n_iter && next < end; ++k) {
            const Real *x = r + k * step, *d = delta + (k + 1) * kept;
            sum += x[here] * d[next] + d[here] * x[next];
        }
        each[first * cells + c] = transitions[first * cells + c] > -infinity() ? sum : Real(0);
    }
#pragma unroll
    for (int c = 0; c < CELLS; ++c) {
        const int cell = team % 2 ? lane * tags + c : c * tags + lane;
        if (HELD && c < tags && lane < tags && transitions[cell] > -infinity())
            atomicAdd(&sums[cell], double(field.arcs[c]));
    }
    convert_sums(sums, edges, tags, counter);
}
