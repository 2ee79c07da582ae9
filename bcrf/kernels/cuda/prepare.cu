// What all sequences of a batch share, ahead of a kernel with one block a sequence.
#include "block.cuh"

// starts (B,), passes (B,), counter (1,) and sums (tags, tags): start values. starts and sums may be null.
// matrices (rows, tags, tags): k = exp(scale (w - max w)), or if scale is 0 k = w with 0 for -inf. transposed: k^T, or
// null. edge_shifts and edge_lows (rows,): scale max w, and the smallest finite logarithm in k.
struct Args {
    const int* lengths;
    long long* starts;
    int *passes, *counter;
    double *sums, *edge_shifts, *edge_lows;
    const Score* transitions;
    Real *matrices, *transposed;
    int size, tags;
    long long rows;
    double scale;
};

// Block 0 sets the start values, and the other blocks the matrices.
KERNEL prepare(const Args args) {
    const int size = args.size, tags = args.tags;
    const double scale = args.scale;
    double* scratch = shared_memory;
    const long long columns = (long long)tags * tags;
    if (blockIdx.x == 0) {
        long long* parts = (long long*)shared_memory;
        const int chunk = (size + blockDim.x - 1) / blockDim.x, from = threadIdx.x * chunk;
        const int to = from + chunk < size ? from + chunk : size;
        long long total = 0;
        for (int b = from; b < to; ++b) total += args.lengths[b];
        parts[threadIdx.x] = total;
        __syncthreads();
        long long start = 0;
        for (int m = 0; m < int(threadIdx.x); ++m) start += parts[m];
        for (int b = from; b < to; ++b) {
            if (args.starts) args.starts[b] = start;
            start += args.lengths[b], args.passes[b] = 0;
        }
        for (long long c = threadIdx.x; args.sums && c < columns; c += blockDim.x) args.sums[c] = 0;
        if (threadIdx.x == 0) *args.counter = 0;
        return;
    }
    for (long long row = blockIdx.x - 1; row < args.rows; row += gridDim.x - 1) {
        const Score* in = args.transitions + row * columns;
        double top = -infinity(), low = 0;
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) top = larger(top, double(in[c]));
        top = largest_of(top, scratch);
        if (top == -infinity()) top = 0;
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) {
            const Real y = Real(in[c] - Score(top)) * Real(scale), finite = in[c] == -infinity() ? Score(0) : in[c];
            const Real x = scale > 0 ? exp(y) : finite;
            args.matrices[row * columns + c] = x;
            if (args.transposed) args.transposed[row * columns + c % tags * tags + c / tags] = x;
            if (y < low && y > -infinity()) low = y;
        }
        low = -largest_of(-low, scratch);
        if (threadIdx.x == 0) args.edge_shifts[row] = top * scale, args.edge_lows[row] = low;
    }
}
