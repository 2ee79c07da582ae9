// Padded tensors before and after the kernels of ragged batches. These kernels read each number of a tensor where
// its strides say. The ragged batch keeps the padded layout: sequence b has `steps` rows from b * steps on, of which
// kernels touch the first lengths[b].
#include "gold.cuh"

// A tensor (sequence, step, tag, tag), with fewer axes or all; strides in numbers.
struct Strides {
    long long sequence, step, from, to;

    __device__ long long operator()(long long b, long long k, long long t = 0, long long u = 0) const {
        return b * sequence + k * step + t * from + u * to;
    }
};

// Whether a number of a mask is not 0. top: the bits of its last byte without a sign.
__device__ bool is_on(const unsigned char* number, int bytes, int top) {
    int any = number[bytes - 1] & top;
    for (int k = 0; k + 1 < bytes; ++k) any |= number[k];
    return any;
}

// Grid (B,), one block a sequence: the arguments of the other kernels, from tensors.
// mask: numbers of so many `bytes`, or null. start, end (tags,) may be null. transitions: per edge, or null if all
// edges share them. tags: -100 for unknown, or null; allowed: bytes, or null.
// Sets unary (B steps, tags), each (B steps, tags, tags), gold, sets, lengths (B,) and starts (B,), and clears
// counter (1,). A sequence
// whose mask has a hole or no first token gets the length 0 and an error.
KERNEL read_padded(const Score* emissions, long long e_sequence, long long e_step, long long e_tag,
                   const Score* start, const Score* end, const Score* transitions, long long w_sequence,
                   long long w_step, long long w_from, long long w_to, const unsigned char* mask,
                   long long m_sequence, long long m_step, int bytes, int top, const long long* tags,
                   const signed char* allowed, long long g_sequence, long long g_step, long long g_tag,
                   Score* unary, Score* each, int* gold, signed char* sets, int* lengths, long long* starts,
                   int* counter, int* errors, int steps, int n_tags) {
    int* scratch = (int*)shared_memory;
    const int b = blockIdx.x;
    const Strides of_emissions{e_sequence, e_step, e_tag, 0}, of_edges{w_sequence, w_step, w_from, w_to},
        of_gold{g_sequence, g_step, g_tag, 0}, of_mask{m_sequence, m_step, 0, 0};
    const auto has_token = [&](int k) { return !mask || is_on(mask + of_mask(b, k) * bytes, bytes, top); };
    int count = 0, stop = 0;
    for (int k = threadIdx.x; k < steps; k += blockDim.x)
        if (has_token(k)) ++count, stop = k + 1;
    count = sum_of(count, scratch), stop = largest_of(stop, scratch);
    const int length = count == stop ? count : 0;
    const long long first = (long long)b * steps;
    if (threadIdx.x == 0) {
        lengths[b] = length, starts[b] = first;
        if (b == 0) *counter = 0;
        if (!length) atomicMin(errors, PROBLEMS * b + (has_token(0) ? HOLE : NO_TOKEN));
    }
    for (int c = threadIdx.x; c < length * n_tags; c += blockDim.x) {
        const int k = c / n_tags, t = c % n_tags;
        Score x = emissions[of_emissions(b, k, t)];
        if (start && k == 0) x += start[t];
        if (end && k + 1 == length) x += end[t];
        unary[first * n_tags + c] = x;
        if (allowed) sets[first * n_tags + c] = allowed[of_gold(b, k, t)];
    }
    for (int k = threadIdx.x; tags && k < length; k += blockDim.x) {
        const long long tag = tags[of_gold(b, k)];
        // `finish` reports tags out of range.
        gold[first + k] = tag == -100 ? -1 : tag < 0 || tag >= n_tags ? n_tags : int(tag);
    }
    const long long columns = (long long)n_tags * n_tags;
    for (long long c = threadIdx.x; transitions && c < (length - 1) * columns; c += blockDim.x) {
        const long long k = c / columns, pair = c % columns;
        each[first * columns + c] = transitions[of_edges(b, k, pair / n_tags, pair % n_tags)];
    }
}

// What the losses (B,) and their gradient become: a log-likelihood, times `factor`, and its gradient in padded
// tensors, zero in padding. A block for each sequence, for each tag, and one for the value.
// value: (B,), or their sum if `reduced`. by_token: divide by the number of tokens. unary (B steps, tags); edges
// (tags, tags), or (B steps, tags, tags) if `each`. d_emissions, d_edges: contiguous but for the order of
// sequences and steps, whose strides are in rows.
KERNEL write_padded(const Score* losses, const Score* unary, const Score* edges, const int* lengths, Score* value,
                    Score* d_emissions, Score* d_edges, Score* d_start, Score* d_end, long long by_sequence,
                    long long by_step, int size, int steps, int tags, int each, int reduced, int by_token,
                    double factor) {
    const int b = blockIdx.x, columns = tags * tags;
    if (by_token) {
        double tokens = 0;
        for (int s = threadIdx.x; s < size; s += blockDim.x) tokens += lengths[s];
        tokens = sum_of(tokens, shared_memory);
        factor /= tokens > 1 ? tokens : 1;
    }
    const Score by = Score(factor);
    if (b < size) {
        const Strides rows{by_sequence, by_step, 0, 0};
        const int length = lengths[b];
        const long long first = (long long)b * steps;
        for (int c = threadIdx.x; c < steps * tags; c += blockDim.x) {
            const int k = c / tags;
            d_emissions[rows(b, k) * tags + c % tags] = k < length ? unary[first * tags + c] * by : 0;
        }
        for (long long c = threadIdx.x; each && c < (long long)steps * columns; c += blockDim.x) {
            const int k = int(c / columns);
            d_edges[rows(b, k) * columns + c % columns] = k + 1 < length ? edges[first * columns + c] * by : 0;
        }
    } else if (b < size + tags) {
        const int t = b - size;
        double first = 0, last = 0;
        for (int s = threadIdx.x; s < size; s += blockDim.x) {
            const int length = lengths[s];
            if (!length) continue;
            first += unary[(long long)s * steps * tags + t];
            last += unary[((long long)s * steps + length - 1) * tags + t];
        }
        first = sum_of(first, shared_memory), last = sum_of(last, shared_memory);
        if (threadIdx.x == 0) d_start[t] = Score(first * factor), d_end[t] = Score(last * factor);
        for (int u = threadIdx.x; !each && u < tags; u += blockDim.x)
            d_edges[t * tags + u] = edges[t * tags + u] * by;
    } else {
        double sum = 0;
        for (int s = threadIdx.x; s < size; s += blockDim.x) {
            // A sequence without a length has no loss: an error follows.
            const double loss = lengths[s] ? double(losses[s]) : infinity() - infinity();
            if (!reduced) value[s] = Score(loss * factor);
            sum += loss;
        }
        sum = sum_of(sum, shared_memory);
        if (reduced && threadIdx.x == 0) value[0] = Score(sum * factor);
    }
}

// Grid (B,), one block a sequence. rows (B, steps): the best labeling with -100 in padding; sizes (B,): lengths.
// scores (B,) of the labelings: -inf or NaN is an error. The last block moves the flag of errors to sizes[B].
// counter: of finished blocks, 0 before.
KERNEL write_labelings(const int* best, const Score* scores, const int* lengths, long long* rows, long long* sizes,
                       int* errors, int* counter, int size, int steps) {
    const int b = blockIdx.x, length = lengths[b];
    for (int k = threadIdx.x; k < steps; k += blockDim.x)
        rows[(long long)b * steps + k] = k < length ? best[(long long)b * steps + k] : -100;
    if (threadIdx.x) return;
    sizes[b] = length;
    const Score score = scores[b];
    if (length && !(score > -infinity() && score < infinity()))
        atomicMin(errors, PROBLEMS * b + (score == -infinity() ? FORBIDDEN : NOT_FINITE));
    __threadfence();
    if (atomicAdd(counter, 1) != size - 1) return;
    __threadfence();
    sizes[size] = atomicMin(errors, 0x7fffffff);
    *errors = 0x7fffffff;
}
