// What all kernels share. A block works on one sequence, token or matrix, its threads on the tags,
// in strides, so that a block may have any number of threads. No CUDA headers: NVRTC compiles this
// text without an include path, and tests/kernels/cuda_host.hh with any C++ compiler.
//
// Compiled with -DBCRF_SCORE, the type of scores and results, and -DBCRF_REAL, that of the inner
// loops, each float or double.
typedef BCRF_SCORE Score;
typedef BCRF_REAL Real;

#define KERNEL extern "C" __global__ void

// Aligned for doubles; each kernel lays it out by hand.
extern __shared__ double shared_memory[];

__device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000LL); }

// NaN if either is: what goes in as NaN has to come out as NaN.
template <class R> __device__ R larger(R x, R y) { return x > y || x != x ? x : y; }

template <class R> __device__ R add(R x, R y) { return x + y; }

// x of all threads brought together by `combine`, in an order that depends on nothing but their
// number. slots: one R for each thread.
template <class R> __device__ R reduce(R x, R* slots, R (*combine)(R, R)) {
    slots[threadIdx.x] = x;
    __syncthreads();
    for (int n = blockDim.x; n > 1; n = (n + 1) / 2) {
        const int half = (n + 1) / 2;
        if (int(threadIdx.x) < n / 2)
            slots[threadIdx.x] = combine(slots[threadIdx.x], slots[threadIdx.x + half]);
        __syncthreads();
    }
    const R all = slots[0];
    __syncthreads();
    return all;
}

template <class R> __device__ R sum_of(R x, R* slots) { return reduce<R>(x, slots, add<R>); }

template <class R> __device__ R largest_of(R x, R* slots) { return reduce<R>(x, slots, larger<R>); }

// A ragged batch: sequence b has `lengths[b]` tokens from the flat index `starts[b]` on.
// Transitions of the edge from flat token i to i + 1 begin at i * stride, 0 if they are shared.

// log of the sum of exp(x(t)) over tags, by one thread.
template <class X> __device__ double log_sum(int tags, X x) {
    double top = -infinity(), total = 0;
    for (int t = 0; t < tags; ++t) top = larger(top, double(x(t)));
    if (top == -infinity()) return top;
    for (int t = 0; t < tags; ++t) total += exp(double(x(t)) - top);
    return top + log(total);
}
