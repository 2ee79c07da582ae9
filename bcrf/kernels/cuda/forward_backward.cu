// The forward-backward algorithm in probability space.
#include "forward_backward.cuh"

// Grid (B,), one block a sequence.
// sums (tags, tags): with -DBCRF_WIDTH, the sums of the edge marginals; WARPS warps. Without it, alpha
// and right (N, tags), or with gold (2, N, tags), become their factors, see `backward` and products.cu.
// values (2, B): the log-partition of each sequence, or with `entropies` its entropy. With
// partial gold, the second row is the restriction to gold, and the other results are differences.
// passes[b]: the passes of sequence b, 2 with partial gold; not set if its results exceed the range of Real. Sums lack
// it then.
// Other results: see Outputs.
// shared memory: three rows, and a double for each thread.
KERNEL forward_backward(const Score* unary, const Real* matrices, const Real* transposed,
                        const double* edge_shifts, const long long* starts,
                        const int* lengths, const int* gold,
                        const signed char* allowed, Real* alpha, Score* tops, Real* totals, Real* right,
                        Score* marginals, Score* each, double* sums, Score* pairs, const int* heads,
                        const int* tails, int n, int entropies, double* values, int* passes, long long tokens,
                        int tags, long long stride) {
    const int b = blockIdx.x, length = lengths[b];
    if (length == 0) return;
    Real *rows = (Real*)shared_memory, *scratch = (Real*)(shared_memory + 3 * (WIDTH ? WIDTH : tags));
    const Gold annotation{gold, allowed, tags};
    const Outputs to{tags, marginals, each, nullptr, pairs, heads, tails, n, !HELD && entropies, false};
    Chain<Real> chain{{matrices, transposed, edge_shifts, stride, tags}, starts[b], length, tags,
                      alpha, tops, totals, rows, scratch};
    const int n_passes = annotation.kind(starts[b], length, (int*)scratch) == PARTIAL ? 2 : 1;
    const long long second = tokens * tags;
    const bool is_precise = chain.run(n_passes, unary, annotation, to, sums, right, second, values + b, gridDim.x);
    if (is_precise && threadIdx.x == 0) passes[b] = n_passes;
}
