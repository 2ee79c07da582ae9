// Emulation of CUDA for a C++17 compiler. Blocks run one after the other. A fiber runs each CUDA
// thread until the next __syncthreads, and shared memory starts with garbage.
//
// The threads of a block take turns in ascending order, after the next barrier in descending order.
// So a kernel that reads what another thread writes without a barrier between gives wrong results.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <utility>

using std::exp;
using std::fabs;
using std::log;
using std::size_t;
using std::sqrt;

struct Dim {
    unsigned x = 1, y = 1, z = 1;
};

namespace host {
constexpr int MAX_THREADS = 32;
constexpr size_t STACK_BYTES = 1 << 18;
inline Dim thread, block, threads, grid;
inline ucontext_t scheduler, fibers[MAX_THREADS];
alignas(16) inline char stacks[MAX_THREADS][STACK_BYTES];
inline bool done[MAX_THREADS];
}  // namespace host

#define threadIdx host::thread
#define blockIdx host::block
#define blockDim host::threads
#define gridDim host::grid
#define __global__
#define __device__
#define __shared__
#define __restrict__

constexpr size_t SHARED_DOUBLES = 1 << 16;
alignas(16) double shared_memory[SHARED_DOUBLES];

inline void __syncthreads() { swapcontext(&host::fibers[host::thread.x], &host::scheduler); }

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

    static void run() {
        call(std::index_sequence_for<Args...>());
        done[thread.x] = true;
    }
};

// Run one block, whose threads start at `entry`. Return whether all threads meet at each barrier.
inline bool run_block(void (*entry)()) {
    const int n = int(threads.x);
    for (int k = 0; k < n; ++k) {
        getcontext(&fibers[k]);
        fibers[k].uc_stack.ss_sp = stacks[k];
        fibers[k].uc_stack.ss_size = STACK_BYTES;
        fibers[k].uc_link = &scheduler;
        makecontext(&fibers[k], entry, 0);
        done[k] = false;
    }
    for (bool ascending = true;; ascending = !ascending) {
        int left = 0;
        for (int k = 0; k < n; ++k) {
            thread.x = unsigned(ascending ? k : n - 1 - k);
            swapcontext(&scheduler, &fibers[thread.x]);
            left += done[thread.x];
        }
        if (left) return left == n;
    }
}

// Run a kernel. Return the number of blocks that wrote beyond their `shared` bytes of shared memory,
// or -1 if some threads of a block wait at a barrier and others do not.
template <class... Args>
int launch(void (*kernel)(Args...), const int* size, int n_threads, size_t shared, void** args) {
    constexpr unsigned char GARBAGE = 0xff;  // NaN
    auto* memory = reinterpret_cast<unsigned char*>(shared_memory);
    const size_t end = shared + 4096 < sizeof shared_memory ? shared + 4096 : sizeof shared_memory;
    Kernel<Args...>::function = kernel;
    Kernel<Args...>::args = args;
    threads = {unsigned(n_threads)};
    grid = {unsigned(size[0]), unsigned(size[1]), unsigned(size[2])};
    int outside = 0;
    for (block.z = 0; block.z < grid.z; ++block.z)
        for (block.y = 0; block.y < grid.y; ++block.y)
            for (block.x = 0; block.x < grid.x; ++block.x) {
                std::memset(memory, GARBAGE, end);
                if (!run_block(Kernel<Args...>::run)) return -1;
                bool wrote = false;
                for (size_t k = shared; k < end; ++k) wrote |= memory[k] != GARBAGE;
                outside += wrote;
            }
    return outside;
}

}  // namespace host
