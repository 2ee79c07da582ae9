// What all sequences of a batch share, ahead of a kernel with one block a sequence.
#include "block.cuh"

// Block 0 sets starts (B,) and clears passes (B,), counter (1,) and sums (cells,). starts and sums may be null.
// The other blocks set k = exp(scale (w - max w)), or if scale is 0 k = w with 0 for -inf, for each of `rows` matrices
// w, `transposed` = k^T unless it is null, the shifts scale max w, and the smallest finite logarithms in k, the lows.
KERNEL prepare(const int* lengths, long long* starts, int* passes, int* counter, double* sums,
               const Score* w, Real* k, Real* transposed, double* shifts, double* lows, int size,
               long long rows, int tags, double scale) {
    double* scratch = shared_memory;
    const long long columns = (long long)tags * tags;
    if (blockIdx.x == 0) {
        long long* parts = (long long*)shared_memory;
        const int chunk = (size + blockDim.x - 1) / blockDim.x, from = threadIdx.x * chunk;
        const int to = from + chunk < size ? from + chunk : size;
        long long total = 0;
        for (int b = from; b < to; ++b) total += lengths[b];
        parts[threadIdx.x] = total;
        __syncthreads();
        long long start = 0;
        for (int m = 0; m < int(threadIdx.x); ++m) start += parts[m];
        for (int b = from; b < to; ++b) {
            if (starts) starts[b] = start;
            start += lengths[b], passes[b] = 0;
        }
        for (long long c = threadIdx.x; sums && c < columns; c += blockDim.x) sums[c] = 0;
        if (threadIdx.x == 0) *counter = 0;
        return;
    }
    for (long long row = blockIdx.x - 1; row < rows; row += gridDim.x - 1) {
        const Score* in = w + row * columns;
        double top = -infinity(), low = 0;
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) top = larger(top, double(in[c]));
        top = largest_of(top, scratch);
        if (top == -infinity()) top = 0;
        for (long long c = threadIdx.x; c < columns; c += blockDim.x) {
            const Real y = Real(in[c] - Score(top)) * Real(scale), finite = in[c] == -infinity() ? Score(0) : in[c];
            const Real x = scale > 0 ? exp(y) : finite;
            k[row * columns + c] = x;
            if (transposed) transposed[row * columns + c % tags * tags + c / tags] = x;
            if (y < low && y > -infinity()) low = y;
        }
        low = -largest_of(-low, scratch);
        if (threadIdx.x == 0) shifts[row] = top * scale, lows[row] = low;
    }
}
