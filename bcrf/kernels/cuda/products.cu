// The sums of edge marginals from their factors, for matrices that registers do not hold.
#include "block.cuh"

// A block computes a square of TILE x TILE cells, from as many edges at a time. A thread has CELLS of one column.
constexpr int TILE = WARP, ROWS = 4, CELLS = TILE / ROWS;

// left, right (2, tokens, tags): factors of each pass. passes[b]: of sequence b, 0 to 2. matrices (tags, tags): k.
struct Args {
    const Real *matrices, *left, *right;
    const long long* starts;
    const int *lengths, *passes;
    double* sums;
    int size, tags;
    long long tokens;
};

// Add left[i, u] k[u, v] right[i + 1, v] of all edges to sums (tags, tags), less those of the second pass.
// Grid: for each square as many blocks as groups of sequences. shared memory: two squares.
KERNEL add_products(const Args args) {
    const int tags = args.tags;
    Real(*a)[TILE] = (Real(*)[TILE])shared_memory, (*c)[TILE] = a + TILE;
    const int across = (tags + TILE - 1) / TILE, squares = across * across, square = blockIdx.x % squares;
    const int u = square / across * TILE, v = square % across * TILE;
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    double total[CELLS] = {};
    for (int b = blockIdx.x / squares; b < args.size; b += gridDim.x / squares) {
        const int edges = args.lengths[b] - 1;
        for (int pass = 0; pass < args.passes[b]; ++pass)
            for (int from = 0; from < edges; from += TILE) {
                const int n = edges - from < TILE ? edges - from : TILE;
                for (int k = y; k < n; k += ROWS) {
                    const long long i = (pass * args.tokens + args.starts[b] + from + k) * tags;
                    a[k][x] = u + x < tags ? args.left[i + u + x] : Real(0);
                    c[k][x] = v + x < tags ? args.right[i + tags + v + x] : Real(0);
                }
                __syncthreads();
                Real part[CELLS] = {};
                for (int k = 0; k < n; ++k)
#pragma unroll
                    for (int m = 0; m < CELLS; ++m) part[m] += a[k][y + ROWS * m] * c[k][x];
#pragma unroll
                for (int m = 0; m < CELLS; ++m) total[m] += pass ? -part[m] : part[m];
                __syncthreads();
            }
    }
#pragma unroll
    for (int m = 0; m < CELLS; ++m) {
        const int row = u + y + ROWS * m;
        const long long cell = (long long)row * tags + v + x;
        if (row < tags && v + x < tags) atomicAdd(&args.sums[cell], total[m] * args.matrices[cell]);
    }
}
