// Numbers of the recursions: Real, or Log for sequences that exceed its range.
#ifndef BCRF_CUDA_NUMBERS_CUH
#define BCRF_CUDA_NUMBERS_CUH
#include "block.cuh"

// A number of at least 0, as its logarithm. No product, quotient or sum with 0 is NaN: a sequence without an allowed
// labeling has quotients 0 / 0, which are 0.
struct Log {
    double log;

    Log() = default;
    __device__ Log(double x) : log(::log(x)) {}
    static __device__ Log of(double log) {
        Log x(1);
        x.log = log;
        return x;
    }
    __device__ bool is_zero() const { return log == -infinity(); }
    __device__ friend Log operator*(Log a, Log b) { return a.is_zero() ? a : b.is_zero() ? b : of(a.log + b.log); }
    __device__ friend Log operator/(Log a, Log b) { return a.is_zero() ? a : b.is_zero() ? b : of(a.log - b.log); }
    // A selection: a recursive call would be a function with a stack, and the threads of a warp would leave it apart.
    __device__ friend Log operator+(Log a, Log b) {
        const bool swapped = b.log > a.log;
        const double top = swapped ? b.log : a.log, low = swapped ? a.log : b.log;
        return of(low == -infinity() ? top : top + log1p(exp(low - top)));
    }
    __device__ void operator+=(Log x) { *this = *this + x; }
    __device__ friend bool operator>(Log a, Log b) { return a.log > b.log; }
    __device__ friend bool operator!=(Log a, Log b) { return a.log != b.log; }
};

// Return exp(scale (x - top)).
template <class N> __device__ N exponential(Score x, Score top, double scale = 1) {
    return exp((Real(x) - Real(top)) * Real(scale));
}
template <> __device__ inline Log exponential<Log>(Score x, Score top, double scale) {
    return Log::of((double(x) - top) * scale);
}

template <class N> constexpr bool IS_LOG = false;
template <> constexpr bool IS_LOG<Log> = true;

// Return x of another thread of the warp.
__device__ inline Log shuffle(Log x, int distance) {
    return Log::of(__shfl_xor_sync(ALL_LANES, x.log, distance));
}

__device__ inline Real plain(Real x) { return x; }
__device__ inline double plain(Log x) { return exp(x.log); }
__device__ inline double log_of(double x) { return log(x); }
__device__ inline double log_of(Log x) { return x.log; }
__device__ inline Log sqrt(Log x) { return Log::of(x.log / 2); }

// The logarithm of a product of many factors. A logarithm of each would cost more than the recursion.
struct LogProduct {
    double product = 1, logs = 0;

    __device__ void multiply(double x) {
        using Limits = bcrf::ProductLimits;
        if (x < 1 / Limits::FACTOR || x > Limits::FACTOR) {
            logs += log(x);
            return;
        }
        product *= x;
        if (product < 1 / Limits::PRODUCT || product > Limits::PRODUCT)
            logs += log(product), product = 1;
    }
    __device__ void multiply(Log x) { logs += x.log; }
    __device__ double log_value() const { return logs + log(product); }
};

// What `prepare` sets. transposed: null if each edge has a matrix.
struct Matrices {
    const Real *matrices, *transposed;
    const double *edge_shifts, *edge_lows;
};

// exp of the transitions of each edge times `scale`, and messages to a tag from the row x of a neighboring token.
template <class N> struct Arcs {
    Batch batch;
    Matrices of;
    double scale;

    __device__ double shift(long long edge) const { return of.edge_shifts[batch.matrix(edge)]; }

    __device__ N at(long long edge, int u, int v) const {
        const long long cell = edge * batch.stride + (long long)u * batch.tags + v;
        if constexpr (IS_LOG<N>)
            return Log::of(scale * batch.transitions[cell] - shift(edge));
        else
            return of.matrices[cell];
    }

    // sum_u x[u] k[u, t]: the message to tag t from the previous token's row x.
    __device__ N in(const N* x, long long edge, int t) const {
        N sum = 0;
        for (int u = 0; u < batch.tags; ++u) sum += x[u] * at(edge, u, t);
        return sum;
    }

    // sum_v k[t, v] x[v]: the message to tag t from the next token's row x. Adjacent threads read the columns of
    // `transposed` together.
    __device__ N out(const N* x, long long edge, int t) const {
        N sum = 0;
        if constexpr (!IS_LOG<N>)
            if (of.transposed) {
                for (int v = 0; v < batch.tags; ++v) sum += x[v] * of.transposed[(long long)v * batch.tags + t];
                return sum;
            }
        for (int v = 0; v < batch.tags; ++v) sum += at(edge, t, v) * x[v];
        return sum;
    }
};

#endif
