// Numbers of the recursions: Real, or Log for sequences that exceed its range.
#ifndef BCRF_CUDA_NUMBERS_CUH
#define BCRF_CUDA_NUMBERS_CUH
#include "messages.cuh"

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

// exp of the transitions of each edge, and messages to a tag from the row x of a neighboring token. Transitions begin
// at edge * stride; stride is 0 if all edges share them. shifts: the largest score of each matrix.
template <class N> struct Arcs;

template <> struct Arcs<Real> {
    const Real *matrices, *transposed;  // see prepare.cu
    const double* shifts;
    long long stride;
    int tags;

    __device__ long long matrix(long long edge) const { return stride ? edge : 0; }
    __device__ double shift(long long edge) const { return shifts[matrix(edge)]; }
    __device__ Real at(long long edge, int u, int v) const {
        return matrices[edge * stride + (long long)u * tags + v];
    }
    __device__ Real in(const Real* x, long long edge, int t) const {
        return message_in(x, matrices + edge * stride, t, tags);
    }
    __device__ Real out(const Real* x, long long edge, int t) const {
        return message_out(x, matrices + edge * stride, transposed, t, tags);
    }
};

template <> struct Arcs<Log> {
    const Score* transitions;
    double scale;
    const double* shifts;
    long long stride;
    int tags;

    __device__ long long matrix(long long edge) const { return stride ? edge : 0; }
    __device__ double shift(long long edge) const { return shifts[matrix(edge)]; }
    __device__ Log at(long long edge, int u, int v) const {
        return Log::of(scale * transitions[edge * stride + (long long)u * tags + v] - shift(edge));
    }
    __device__ Log in(const Log* x, long long edge, int t) const {
        Log sum = 0;
        for (int u = 0; u < tags; ++u) sum += x[u] * at(edge, u, t);
        return sum;
    }
    __device__ Log out(const Log* x, long long edge, int t) const {
        Log sum = 0;
        for (int v = 0; v < tags; ++v) sum += at(edge, t, v) * x[v];
        return sum;
    }
};

#endif
