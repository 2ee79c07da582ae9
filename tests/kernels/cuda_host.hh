// Emulation of CUDA for a C++20 compiler. Blocks run one after the other. A std::thread runs each CUDA
// thread, a std::barrier is __syncthreads, and shared memory starts with garbage.
#pragma once

#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using std::exp;
using std::fabs;
using std::log;
using std::size_t;
using std::sqrt;

struct Dim {
    unsigned x = 1, y = 1, z = 1;
};

namespace host {
inline thread_local Dim thread, block;
inline Dim threads, grid;
inline std::barrier<>* barrier;
inline std::mutex atomic;
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

inline void __syncthreads() { host::barrier->arrive_and_wait(); }

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

template <class T, class Combine> T host_atomic(T* at, Combine combine) {
    const std::lock_guard<std::mutex> lock(host::atomic);
    const T old = *at;
    *at = combine(old);
    return old;
}

template <class T> T atomicAdd(T* at, T x) {
    return host_atomic(at, [&](T old) { return old + x; });
}

template <class T> T atomicMax(T* at, T x) {
    return host_atomic(at, [&](T old) { return old > x ? old : x; });
}

namespace host {

template <class... Args, size_t... I>
void call(void (*kernel)(Args...), void** args, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<Args>*>(args[I])...);
}

// Run a kernel. Return how many blocks wrote beyond their `shared` bytes of shared memory.
template <class... Args>
int launch(void (*kernel)(Args...), const int* size, int n_threads, size_t shared, void** args) {
    constexpr unsigned char GARBAGE = 0xff;  // NaN
    auto* memory = reinterpret_cast<unsigned char*>(shared_memory);
    int outside = 0;
    std::barrier<> all(n_threads);
    barrier = &all;
    threads = {unsigned(n_threads)};
    grid = {unsigned(size[0]), unsigned(size[1]), unsigned(size[2])};
    std::memset(memory, GARBAGE, sizeof shared_memory);
    auto run = [&](unsigned index) {
        thread = {index, 0, 0};
        for (unsigned z = 0; z < grid.z; ++z)
            for (unsigned y = 0; y < grid.y; ++y)
                for (unsigned x = 0; x < grid.x; ++x) {
                    block = {x, y, z};
                    call(kernel, args, std::index_sequence_for<Args...>());
                    all.arrive_and_wait();
                    if (index == 0) {
                        const size_t end = shared + 4096 < sizeof shared_memory ? shared + 4096 : sizeof shared_memory;
                        for (size_t k = shared; k < end; ++k)
                            if (memory[k] != GARBAGE) {
                                ++outside;
                                break;
                            }
                        std::memset(memory, GARBAGE, end);
                    }
                    all.arrive_and_wait();
                }
    };
    std::vector<std::thread> running;
    for (int k = 1; k < n_threads; ++k) running.emplace_back(run, k);
    run(0);
    for (auto& one : running) one.join();
    return outside;
}

}  // namespace host
