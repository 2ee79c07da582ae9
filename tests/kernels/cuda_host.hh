// Emulation of CUDA for a C++17 compiler. Blocks run one after the other. A fiber runs each CUDA
// thread until the next barrier of its block or warp, and shared memory starts with garbage.
//
// The threads of a warp take turns in ascending order, after the next barrier in descending order, and
// so do the warps of a block. So a kernel that reads what another thread writes without a barrier
// between gives wrong results.
//
// With BCRF_REAL float, subnormal numbers are zero, as with CuPy's option -ftz=true.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <csetjmp>
#include <cstring>
#include <ucontext.h>
#include <utility>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

using std::exp;
using std::fabs;
using std::log;
using std::max;
using std::min;
using std::size_t;
using std::sqrt;

struct Dim {
    unsigned x = 1;
};

namespace host {
constexpr int MAX_THREADS = 256, WARP = 32;
constexpr size_t STACK_BYTES = 1 << 17;
enum State { BEFORE_WARP, BEFORE_BLOCK, DONE };
inline Dim thread, block, threads, grid;
inline jmp_buf scheduler, fibers[MAX_THREADS];
inline ucontext_t first_entry;
alignas(16) inline char stacks[MAX_THREADS][STACK_BYTES];
inline State states[MAX_THREADS];
inline bool is_started[MAX_THREADS];
inline void (*entry)();
inline char slots[MAX_THREADS][8];

// Give the turn back to the scheduler.
inline void wait(State state) {
    states[thread.x] = state;
    if (!_setjmp(fibers[thread.x])) _longjmp(scheduler, 1);
}

// A fiber runs one thread of each block.
inline void run_fiber() {
    for (;;) {
        entry();
        wait(DONE);
    }
}

// Run a thread until it waits. Only its first turn needs a context, which costs a system call.
inline void resume(int k) {
    thread.x = unsigned(k);
    if (_setjmp(scheduler)) return;
    if (is_started[k]) _longjmp(fibers[k], 1);
    is_started[k] = true;
    getcontext(&first_entry);
    first_entry.uc_stack.ss_sp = stacks[k];
    first_entry.uc_stack.ss_size = STACK_BYTES;
    first_entry.uc_link = nullptr;
    makecontext(&first_entry, run_fiber, 0);
    setcontext(&first_entry);
}
}  // namespace host

#define threadIdx host::thread
#define blockIdx host::block
#define blockDim host::threads
#define gridDim host::grid
#define __global__
#define __device__
#define __shared__
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads)

constexpr size_t SHARED_DOUBLES = 1 << 16;
alignas(16) double shared_memory[SHARED_DOUBLES];

inline void __syncthreads() { host::wait(host::BEFORE_BLOCK); }
inline void __syncwarp() { host::wait(host::BEFORE_WARP); }
inline void __threadfence() {}

template <class T> T __shfl_xor_sync(unsigned, T x, int distance) {
    static_assert(sizeof x <= 8, "a shuffle moves 8 bytes");
    std::memcpy(host::slots[host::thread.x], &x, sizeof x);
    __syncwarp();
    std::memcpy(&x, host::slots[host::thread.x ^ unsigned(distance)], sizeof x);
    __syncwarp();
    return x;
}

inline double __longlong_as_double(long long bits) {
    double x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

inline long long __double_as_longlong(double x) {
    long long bits;
    std::memcpy(&bits, &x, sizeof x);
    return bits;
}

template <class T> T atomicAdd(T* at, T x) {
    const T old = *at;
    *at = old + x;
    return old;
}

template <class T> T atomicMin(T* at, T x) {
    const T old = *at;
    *at = old < x ? old : x;
    return old;
}

template <class T> T atomicMax(T* at, T x) {
    const T old = *at;
    *at = old > x ? old : x;
    return old;
}

namespace host {

template <class... Args> struct Kernel {
    static inline void (*function)(Args...);
    static inline void** args;

    template <size_t... I> static void call(std::index_sequence<I...>) {
        function(*static_cast<std::remove_const_t<Args>*>(args[I])...);
    }

    static void run() { call(std::index_sequence_for<Args...>()); }
};

// Run a warp until all its threads wait for the block, or are done. Return false if they disagree.
inline bool run_warp(int first, bool ascending) {
    for (;; ascending = !ascending) {
        const int last = first + WARP - 1;
        for (int k = 0; k < WARP; ++k) resume(ascending ? first + k : last - k);
        for (int k = first; k < last; ++k)
            if (states[k] != states[last]) return false;
        if (states[last] != BEFORE_WARP) return true;
    }
}

// Run one block. Return whether all threads meet at each barrier.
inline bool run_block() {
    const int warps = int(threads.x) / WARP;
    for (bool ascending = true;; ascending = !ascending) {
        for (int k = 0; k < warps; ++k)
            if (!run_warp((ascending ? k : warps - 1 - k) * WARP, ascending)) return false;
        for (int k = 1; k < warps; ++k)
            if (states[k * WARP] != states[0]) return false;
        if (states[0] == DONE) return true;
    }
}

// Run a kernel. Return the number of blocks that wrote beyond their `shared` bytes of shared memory,
// or -1 if some threads of a block wait at a barrier and others do not.
template <class... Args>
int launch(void (*kernel)(Args...), int n_blocks, int n_threads, size_t shared, void** args) {
    constexpr unsigned char GARBAGE = 0xff;  // NaN
    auto* memory = reinterpret_cast<unsigned char*>(shared_memory);
    const size_t end = shared + 4096 < sizeof shared_memory ? shared + 4096 : sizeof shared_memory;
#if defined(__SSE__)
    const unsigned modes = _mm_getcsr();
    if (sizeof(BCRF_REAL) == 4) _mm_setcsr(modes | 0x8040);  // flush results and operands to zero
    struct Restore {
        unsigned modes;
        ~Restore() { _mm_setcsr(modes); }
    } restore{modes};
#endif
    entry = Kernel<Args...>::run;
    Kernel<Args...>::function = kernel;
    Kernel<Args...>::args = args;
    threads = {unsigned(n_threads)};
    grid = {unsigned(n_blocks)};
    int outside = 0;
    for (block.x = 0; block.x < grid.x; ++block.x) {
        std::memset(memory, GARBAGE, end);
        if (!run_block()) {
            std::memset(is_started, 0, sizeof is_started);
            return -1;
        }
        bool wrote = false;
        for (size_t k = shared; k < end; ++k) wrote |= memory[k] != GARBAGE;
        outside += wrote;
    }
    return outside;
}

}  // namespace host
