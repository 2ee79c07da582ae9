// Mean field: parallel updates of all tokens of a sequence, and the backward pass through them.
#include "registers.cuh"
#include "gold.cuh"
#include "numbers.cuh"

// With -DBCRF_WIDTH, the threads hold the shared transitions in registers, and the sums of their gradients.
constexpr bool HELD = WIDTH > 0;
constexpr int TEAM = WARPS * WARP;

// k: transitions w, 0 where they are forbidden. In r, delta and messages, token i of sequence b has row i + b: a row of
// zeros follows each sequence, so that the host can multiply neighboring rows. A row has size numbers, 0 from `tags` on.
// r (iterates, N + B, size): the iterates, of which the last ones are kept.
// delta: the gradients of their logits, or null without gold. kept: `numbers` for all, 0 for those of the last pass.
// messages (2, N + B, size): from before and from after. sent: the host sets them.
// value (B,): losses; without gold <w, r> + H(r), -inf if a token has no allowed tag.
// marginals (N, tags): the last iterate; with gold, the gradient of the unary scores.
// each (N, tags, tags), or sums, zeros before, and edges (tags, tags) with -DBCRF_WIDTH: the gradients of the
// transitions. They may be null.
struct Args {
    Batch batch;
    Matrices k;
    Gold gold;
    Losses loss;
    Real *r, *delta, *messages;
    Score *marginals, *each;
    double *sums, *parts;  // parts (2, B, chunks): of the values
    int n_iter, iterates;
    int chunks, start, stop;  // blocks of a sequence; the passes of this launch, all if chunks is 1
    bool sent;
    long long numbers, kept;  // numbers: (N + B) size
};

// A block's tokens, [start, stop) of the positions j = 0, 1, ... of a sequence.
// A team computes the messages to a token from one side, and a warp what needs sums over a token's tags. So threads
// meet only between these steps. The block has two warps or more, with WIDTH two teams or more.
struct Field {
    const Args& args;
    const int b = blockIdx.x / args.chunks, chunk = blockIdx.x % args.chunks, tags = args.batch.tags;
    const int length = args.batch.lengths[b], share = (length + args.chunks - 1) / args.chunks;
    const int start = min(length, chunk * share), stop = min(length, start + share);
    const long long first = args.batch.starts[b], row = (first + b) * size();
    const int* gold = args.gold.gold ? args.gold.gold + first : nullptr;
    const int team = threadIdx.x / TEAM / 2, teams = blockDim.x / TEAM / 2;  // of one side
    const int side = threadIdx.x / TEAM % 2 ? 1 : -1;  // -1 if the team's neighbors stand before, 1 if after
    Arcs<Real> transitions{args.batch, args.k, 1};
    Column column;
    Real arcs[CELLS];  // the gradients of the transitions between tag `lane` and the tags of the team's neighbors

    __device__ int size() const { return WIDTH ? WIDTH : tags; }
    __device__ Real message(long long here) const {
        return args.messages[row + here] + args.messages[args.numbers + row + here];
    }
    __device__ Score unary(int j, int t) const { return args.batch.unary[(first + j) * tags + t]; }
    __device__ Score& result(int j, int t) const { return args.marginals[(first + j) * tags + t]; }
    __device__ Real* iterate(int k) const { return args.r + k % args.iterates * args.numbers + row; }
    __device__ Real* delta(int k) const { return args.delta + k * args.kept + row; }
    __device__ double& part(int c, int k) const { return args.parts[(k * (gridDim.x / args.chunks) + b) * args.chunks + c]; }

    // Call visit(here, t) for the tags of token j of this thread's warp, `here` the cell of its row.
    template <class Visit> __device__ void for_tags(int j, Visit visit) const {
        for (int t = threadIdx.x % WARP; t < tags; t += WARP) visit((long long)j * size() + t, t);
    }

    // Call visit(j) for the tokens of this thread's warp.
    template <class Visit> __device__ void for_tokens(Visit visit) const {
        for (int j = start + threadIdx.x / WARP; j < stop; j += blockDim.x / WARP) visit(j);
    }

    // Set all messages from the rows x. heads, or null: add the products of their rows with their neighbors' to arcs.
    __device__ void send(const Real* x, const Real* heads) {
        __syncthreads();
        for (int j = start + team; j < stop && !args.sent; j += teams) {
            const int from = j + side;
            const bool has_neighbor = from >= 0 && from < length;
            const Real* neighbor = x + (long long)from * size();
            for (int t = threadIdx.x % TEAM; t < tags; t += TEAM) {
                const long long here = (long long)j * size() + t;
                Real sum = 0;
                if constexpr (HELD) {
                    if (has_neighbor)
                        sum = heads ? column.message(neighbor, heads[here], arcs) : column.message(neighbor);
                } else if (has_neighbor) {
                    sum = side < 0 ? transitions.in(neighbor, first + from, t) : transitions.out(neighbor, first + j, t);
                }
                args.messages[(side < 0 ? 0 : args.numbers) + row + here] = sum;
            }
        }
        __syncthreads();
    }

    // Set r = softmax(unary + messages), or softmax(unary) without `messages`. Set failed if a token has no allowed
    // tag. Return this thread's part of -log r[gold], or of the entropy of r if gold is null.
    __device__ double update(Real* r, bool messages, bool& failed) const {
        double value = 0;
        for_tokens([&](int j) {
            // Computed again in each loop: a number that was just stored takes longer.
            const auto logit = [&](long long here, int t) {
                const Real x = unary(j, t);
                return messages ? x + message(here) : x;
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
            if (!feasible || (gold && gold[j] < 0)) return;
            value -= gold ? mean : mean / total;
            if (threadIdx.x % WARP == 0) value += log(total);
        });
        return value;
    }

    // Set `before`, the gradients of the logits of iterate r, from the messages of the gradients of the next ones. Add
    // it to the result.
    __device__ void backward(const Real* r, Real* before) const {
        for_tokens([&](int j) {
            Real mean = 0;
            for_tags(j, [&](long long here, int) { mean += r[here] * message(here); });
            mean = combine_warp<Real>(mean, add<Real>);
            for_tags(j, [&](long long here, int t) {
                const Real d = r[here] * (message(here) - mean);
                before[here] = d;
                result(j, t) += d;
            });
        });
    }

    // Set the zeros of r and delta, and of the first messages from before, which no product of the host sets.
    __device__ void clear() const {
        const int end = chunk + 1 == args.chunks ? length : stop - 1;
        for (int j = start + threadIdx.x / WARP; j <= end; j += blockDim.x / WARP)
            for (int t = threadIdx.x % WARP + (j < length ? tags : 0); t < size(); t += WARP) {
                const long long here = (long long)j * size() + t;
                for (int k = 0; k < args.iterates; ++k) iterate(k)[here] = 0;
                for (int k = 0; gold && k <= args.n_iter; ++k) delta(k)[here] = 0;
            }
        for (int t = threadIdx.x; t < size() && blockIdx.x == 0; t += blockDim.x) args.messages[t] = 0;
    }

    // After the last update: set the result, and this block's part of <w, r>. An edge counts for its later token.
    __device__ void close() {
        bool failed = false;
        for (int c = 0; c < args.chunks; ++c) failed |= part(c, 0) == -infinity();
        const Real* last = iterate(args.n_iter);
        double total = 0;
        for_tokens([&](int j) {
            for_tags(j, [&](long long here, int t) {
                const bool known = !failed && (!gold || gold[j] >= 0);
                const Real p = known ? last[here] : Real(0);
                if (!gold && p > 0) total += p * (double(unary(j, t)) + args.messages[row + here]);
                result(j, t) = p - Real(known && gold && t == gold[j]);
                if (gold) delta(args.n_iter)[here] = result(j, t);
            });
        });
        total = sum_of(total, shared_memory);
        if (threadIdx.x == 0) part(chunk, 1) = total;
        __syncthreads();
    }

    // Set the value of the sequence, and note what is wrong with its gold.
    __device__ void finish() const {
        double value = 0;
        for (int k = 0; k < 2; ++k)
            for (int c = 0; c < args.chunks; ++c) value += part(c, k);
        if (threadIdx.x == 0) args.loss.value[b] = Score(value);
        if (!gold || length == 0) return;
        int* scratch = (int*)shared_memory;
        const bool is_unknown = args.gold.is_unknown(first, length, scratch);
        int negative = 0;
        for (int j = threadIdx.x; j < length; j += blockDim.x) negative |= gold[j] < 0;
        const bool is_partial = !is_unknown && largest_of(negative, scratch);
        const bool is_wrong = args.gold.has_wrong_tag(first, length, scratch);
        double score = 0;
        if (!is_wrong && !is_partial && !is_unknown)
            score = sum_of(score_part(args.batch, args.gold.gold, first, length), shared_memory);
        if (threadIdx.x || is_unknown) return;
        if (is_wrong || is_partial)
            atomicMin(args.loss.errors, PROBLEMS * b + (is_wrong ? WRONG_TAG : PARTLY_KNOWN));
        else if (score == -infinity())
            atomicMin(args.loss.errors, PROBLEMS * b + INFEASIBLE);
        else if (!(score + value < infinity()))
            atomicMin(args.loss.errors, PROBLEMS * b + NOT_FINITE);
    }

    // Set the gradients of the transitions, which need no barrier: what this reads was written before the last send.
    __device__ void set_edges() {
        const long long cells = (long long)tags * tags, end = (long long)length * size();
        Score* each = args.each + first * cells;
        for (long long c = start * cells + threadIdx.x; args.each && c < stop * cells; c += blockDim.x) {
            const long long here = c / cells * size() + c % cells / tags, next = (c / cells + 1) * size() + c % tags;
            Real sum = 0;
            for (int k = 0; k < args.n_iter && next < end; ++k) {
                const Real *x = iterate(k), *d = delta(k + 1);
                sum += x[here] * d[next] + d[here] * x[next];
            }
            each[c] = args.batch.transitions[first * cells + c] > -infinity() ? sum : Real(0);
        }
        const int lane = threadIdx.x % TEAM;
#pragma unroll
        for (int c = 0; c < CELLS; ++c) {
            const int cell = side > 0 ? lane * tags + c : c * tags + lane;
            if (HELD && args.sums && c < tags && lane < tags && args.batch.transitions[cell] > -infinity())
                atomicAdd(&args.sums[cell], double(arcs[c]));
        }
        convert_sums(args.sums, args.loss, tags);
    }
};

// Grid (B chunks,). A launch for each pass replaces the barriers of a block between the passes.
// shared memory: a double for each thread.
KERNEL mean_field(const Args args) {
    Field field{args};
    if constexpr (HELD)
        field.column.load(field.side > 0 ? args.k.transposed : args.k.matrices, threadIdx.x % TEAM, field.tags);
#pragma unroll
    for (int c = 0; c < CELLS; ++c) field.arcs[c] = 0;
    for (int pass = args.start; pass < args.stop; ++pass) {
        const bool is_update = pass <= args.n_iter;
        if (pass == 0) field.clear();
        if (is_update && pass > 0) field.send(field.iterate(pass - 1), nullptr);
        if (is_update) {
            bool failed = false;
            double total = field.update(field.iterate(pass), pass > 0, failed);
            if (pass < args.n_iter) continue;
            total = sum_of(total, shared_memory);
            failed = largest_of(int(failed), (int*)shared_memory);
            if (threadIdx.x == 0) field.part(field.chunk, 0) = failed ? -infinity() : total;
            __syncthreads();
        } else if (pass == args.n_iter + 1) {
            if (!field.gold) field.send(field.iterate(args.n_iter), nullptr);
            field.close();
        } else {
            if (pass == args.n_iter + 2 && field.chunk == 0) field.finish();
            if (!field.gold) return;
            const int k = 2 * args.n_iter + 1 - pass;
            field.send(field.delta(k + 1), field.iterate(k));
            field.backward(field.iterate(k), field.delta(k));
            if (k == 0) field.set_edges();
        }
    }
}
