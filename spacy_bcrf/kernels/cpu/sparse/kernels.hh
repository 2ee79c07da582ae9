// The online learner of sparse linear chains, compiled for each instruction set.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "dictionary.hh"
#include "model.hh"
#include "templates.hh"

#define BCRF_FOR_EACH_TARGET "sparse/for_each_target.hh"
#include "../targets.hh"

namespace bcrf {

// Return a permutation of 0, 1, .. n - 1 that depends only on the seed, not on the compiler.
inline std::vector<int> shuffled(int n, std::uint64_t seed) {
    std::vector<int> order(n);
    for (int i = 0; i < n; ++i) order[i] = i;
    std::mt19937_64 random(seed);
    for (int i = n - 1; i > 0; --i) std::swap(order[i], order[random() % std::uint64_t(i + 1)]);
    return order;
}

inline void learn(Model& model, const Sequences& data, const std::int64_t* offsets,
                  const int* order, int n, double& loss, int& done) {
    BCRF_CALL(learn, model, data, offsets, order, n, loss, done)
}

inline void score(const float* weights, size_t stride, int tags, const Sequences& data,
                  const int* lengths, int batch, float* unary) {
    BCRF_CALL(score, weights, stride, tags, data, lengths, batch, unary)
}

}  // namespace bcrf
