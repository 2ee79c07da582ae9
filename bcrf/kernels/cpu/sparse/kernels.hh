// The table of kernels of sparse linear chains. Each instruction set has one.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "../dispatch.hh"
#include "../kernels.hh"
#include "dictionary.hh"
#include "model.hh"
#include "templates.hh"

namespace bcrf {

// The dense kernels of native.so, which this extension runs. sparse.pyx sets it before it learns.
inline const Kernels<float>* dense_kernels = nullptr;

struct SparseKernels {
    void (*learn)(Model&, const Sequences&, const std::int64_t* offsets, const int* order, int n,
                  double& loss, int& done);
    void (*descend)(Model&, const Sequences&, const int* lengths, int batch, const float* d_unary,
                    const float* d_transitions);
    void (*sum_parts)(const float* const* parts, const std::int64_t* starts, size_t n,
                      size_t stride, size_t width, float* out);
    void (*correct)(const Batch<float>&, const PairWeights&, const float* marginals,
                    const int* best, float least, float* unary, float* transitions);

    // Return the kernels of the instruction set in use.
    static const SparseKernels& get();
};

// Each file in targets/ defines `sparse_kernels` in its namespace.
BCRF_EACH_TARGET(SparseKernels sparse_kernels();)

inline const SparseKernels& SparseKernels::get() {
    static const SparseKernels chosen = BCRF_CHOOSE(sparse_kernels());
    return chosen;
}

// Return a permutation of 0, 1, .. n - 1 that depends only on the seed, not on the compiler.
inline std::vector<int> shuffled(int n, std::uint64_t seed) {
    std::vector<int> order(n);
    for (int i = 0; i < n; ++i) order[i] = i;
    std::mt19937_64 random(seed);
    for (int i = n - 1; i > 0; --i) std::swap(order[i], order[random() % std::uint64_t(i + 1)]);
    return order;
}

}  // namespace bcrf
