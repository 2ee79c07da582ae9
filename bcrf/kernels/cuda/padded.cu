// Padded tensors before and after the kernels of ragged batches. These kernels read each number of a tensor where
// its strides say. The ragged batch keeps the padded layout: sequence b has `steps` rows from b * steps on, of which
// kernels touch the first lengths[b].
#include "gold.cuh"

// Strides of a tensor (sequence, step, tag, tag), in numbers; 0 for axes that it lacks.
typedef long long Strides[4];

__device__ long long place(const Strides& by, long long b, long long k, long long t = 0, long long u = 0) {
    return b * by[0] + k * by[1] + t * by[2] + u * by[3];
}

// Whether a number of a mask is not 0. top: the bits of its last byte without a sign.
__device__ bool is_on(const unsigned char* number, int bytes, int top) {
    int any = number[bytes - 1] & top;
    for (int k = 0; k + 1 < bytes; ++k) any |= number[k];
    return any;
}

// Tensors: mask of numbers of so many `bytes`, tags with -100 for unknown, allowed of bytes, and start and end (tags,)
// may be null; transitions are null if all edges share them.
// Results: unary (B steps, tags), each (B steps, tags, tags), gold, sets, lengths (B,), starts (B,) and counter (1,), 0.
struct ReadArgs {
    const Score *emissions, *start, *end, *transitions;
    const unsigned char* mask;
    const long long* gold_tags;
    const signed char* allowed;
    long long by_emissions[4], by_transitions[4], by_mask[4], by_gold[4];
    int bytes, top, steps, tags;
    Score *unary, *each;
    int* gold;
    signed char* sets;
    int *lengths, *counter, *errors;
    long long* starts;
};

// Grid (B,), one block a sequence: the arguments of the other kernels, from tensors. A sequence whose mask has a hole
// or no first token gets the length 0 and an error.
KERNEL read_padded(const ReadArgs args) {
    int* scratch = (int*)shared_memory;
    const int b = blockIdx.x, steps = args.steps, n_tags = args.tags;
    const auto has_token = [&](int k) {
        return !args.mask || is_on(args.mask + place(args.by_mask, b, k) * args.bytes, args.bytes, args.top);
    };
    int count = 0, stop = 0;
    for (int k = threadIdx.x; k < steps; k += blockDim.x)
        if (has_token(k)) ++count, stop = k + 1;
    count = sum_of(count, scratch), stop = largest_of(stop, scratch);
    const int length = count == stop ? count : 0;
    const long long first = (long long)b * steps;
    if (threadIdx.x == 0) {
        args.lengths[b] = length, args.starts[b] = first;
        if (b == 0) *args.counter = 0;
        if (!length) atomicMin(args.errors, PROBLEMS * b + (has_token(0) ? HOLE : NO_TOKEN));
    }
    for (int c = threadIdx.x; c < length * n_tags; c += blockDim.x) {
        const int k = c / n_tags, t = c % n_tags;
        Score x = args.emissions[place(args.by_emissions, b, k, t)];
        if (args.start && k == 0) x += args.start[t];
        if (args.end && k + 1 == length) x += args.end[t];
        args.unary[first * n_tags + c] = x;
        if (args.allowed) args.sets[first * n_tags + c] = args.allowed[place(args.by_gold, b, k, t)];
    }
    for (int k = threadIdx.x; args.gold_tags && k < length; k += blockDim.x) {
        const long long tag = args.gold_tags[place(args.by_gold, b, k)];
        // `finish` reports tags out of range.
        args.gold[first + k] = tag == -100 ? -1 : tag < 0 || tag >= n_tags ? n_tags : int(tag);
    }
    const long long columns = (long long)n_tags * n_tags;
    for (long long c = threadIdx.x; args.transitions && c < (length - 1) * columns; c += blockDim.x) {
        const long long k = c / columns, pair = c % columns;
        const long long from = place(args.by_transitions, b, k, pair / n_tags, pair % n_tags);
        args.each[first * columns + c] = args.transitions[from];
    }
}

// losses (B,), unary (B steps, tags), and edges (tags, tags), or (B steps, tags, tags) if `each`: a loss and its gradient.
// factor: what they are times. by_token: divide by the number of tokens.
// value: (B,), or their sum if `reduced`. d_emissions, d_edges: contiguous but for the order of sequences and steps,
// whose strides are in rows.
struct WriteArgs {
    const Score *losses, *unary, *edges;
    const int* lengths;
    Score *value, *d_emissions, *d_edges, *d_start, *d_end;
    long long by_sequence, by_step;
    int size, steps, tags;
    bool each, reduced, by_token;
    double factor;
};

// A log-likelihood and its gradient in padded tensors, zero in padding. A block for each sequence, for each tag, and
// one for the value.
KERNEL write_padded(const WriteArgs args) {
    const Score *unary = args.unary, *edges = args.edges;
    const int size = args.size, steps = args.steps, tags = args.tags;
    double factor = args.factor;
    const int b = blockIdx.x, columns = tags * tags;
    if (args.by_token) {
        double tokens = 0;
        for (int s = threadIdx.x; s < size; s += blockDim.x) tokens += args.lengths[s];
        tokens = sum_of(tokens, shared_memory);
        factor /= tokens > 1 ? tokens : 1;
    }
    const Score by = Score(factor);
    if (b < size) {
        const auto row = [&](int k) { return b * args.by_sequence + k * args.by_step; };
        const int length = args.lengths[b];
        const long long first = (long long)b * steps;
        for (int c = threadIdx.x; c < steps * tags; c += blockDim.x) {
            const int k = c / tags;
            args.d_emissions[row(k) * tags + c % tags] = k < length ? unary[first * tags + c] * by : 0;
        }
        for (long long c = threadIdx.x; args.each && c < (long long)steps * columns; c += blockDim.x) {
            const int k = int(c / columns);
            args.d_edges[row(k) * columns + c % columns] = k + 1 < length ? edges[first * columns + c] * by : 0;
        }
    } else if (b < size + tags) {
        const int t = b - size;
        double first = 0, last = 0;
        for (int s = threadIdx.x; s < size; s += blockDim.x) {
            const int length = args.lengths[s];
            if (!length) continue;
            first += unary[(long long)s * steps * tags + t];
            last += unary[((long long)s * steps + length - 1) * tags + t];
        }
        first = sum_of(first, shared_memory), last = sum_of(last, shared_memory);
        if (threadIdx.x == 0) args.d_start[t] = Score(first * factor), args.d_end[t] = Score(last * factor);
        for (int u = threadIdx.x; !args.each && u < tags; u += blockDim.x)
            args.d_edges[t * tags + u] = edges[t * tags + u] * by;
    } else {
        double sum = 0;
        for (int s = threadIdx.x; s < size; s += blockDim.x) {
            // A sequence without a length has no loss: an error follows.
            const double loss = args.lengths[s] ? double(args.losses[s]) : infinity() - infinity();
            if (!args.reduced) args.value[s] = Score(loss * factor);
            sum += loss;
        }
        sum = sum_of(sum, shared_memory);
        if (args.reduced && threadIdx.x == 0) args.value[0] = Score(sum * factor);
    }
}

// rows (B, steps): the best labelings with -100 in padding. sizes (B + 1,): lengths, and the flag of errors.
struct LabelingArgs {
    const int *best, *lengths;
    const Score* scores;
    long long *rows, *sizes;
    int *errors, *counter;
    int size, steps;
};

// Grid (B,), one block a sequence. A score of -inf or NaN is an error. The last block moves the flag of errors.
// counter: of finished blocks, 0 before.
KERNEL write_labelings(const LabelingArgs args) {
    const int b = blockIdx.x, length = args.lengths[b];
    for (int k = threadIdx.x; k < args.steps; k += blockDim.x)
        args.rows[(long long)b * args.steps + k] = k < length ? args.best[(long long)b * args.steps + k] : -100;
    if (threadIdx.x) return;
    args.sizes[b] = length;
    const Score score = args.scores[b];
    if (length && !(score > -infinity() && score < infinity()))
        atomicMin(args.errors, PROBLEMS * b + (score == -infinity() ? FORBIDDEN : NOT_FINITE));
    __threadfence();
    if (atomicAdd(args.counter, 1) != args.size - 1) return;
    __threadfence();
    args.sizes[args.size] = atomicMin(args.errors, 0x7fffffff);
    *args.errors = 0x7fffffff;
}
