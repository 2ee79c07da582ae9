// The kernels, compiled for each level of x86-64 that matters (targets.hh), and the choice among
// them at run time: a wheel must run on any processor, and -march=native would not.
#pragma once

#include "batch.hh"
#include "bregman_options.hh"
#include "features.hh"
#include "for_each_sequence.hh"
#include "log_space.hh"

#if defined(__GNUC__)
#define BCRF_INLINE inline __attribute__((always_inline))
#define BCRF_INLINE_LAMBDA __attribute__((always_inline))
#else
#define BCRF_INLINE inline
#define BCRF_INLINE_LAMBDA
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BCRF_DISPATCH
#endif

#define BCRF_FOR_EACH_TARGET "for_each_target.hh"
#include "targets.hh"
#undef BCRF_FOR_EACH_TARGET

namespace bcrf {

// What this processor has: 2 for AVX-512, 1 for AVX2, 0 for neither.
inline int level() {
#ifdef BCRF_DISPATCH
    static const int found =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
            ? 2
            : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 0;
    return found;
#else
    return 0;
#endif
}

#ifdef BCRF_DISPATCH
#define BCRF_CALL(function, ...)                        \
    switch (level()) {                                  \
        case 2: avx512::function(__VA_ARGS__); break;   \
        case 1: avx2::function(__VA_ARGS__); break;     \
        default: baseline::function(__VA_ARGS__);       \
    }
#else
#define BCRF_CALL(function, ...) baseline::function(__VA_ARGS__);
#endif

// node, sum and each may be null: what is not wanted. `sum` needs shared transitions.
template <class In>
void sum_product(const Batch<In>& batch, In* value, In* node, double* sum, In* each) {
    BCRF_CALL(sum_product, batch, value, node, sum, each)
}

template <class In> void max_product(const Batch<In>& batch, int* tags, In* scores) {
    BCRF_CALL(max_product, batch, tags, scores)
}

template <class In> void nbest(const Batch<In>& batch, int n, int* tags, In* scores) {
    BCRF_CALL(nbest, batch, n, tags, scores)
}

template <class In>
void beam_search(const Batch<In>& batch, int n, int width, int* tags, In* scores) {
    BCRF_CALL(beam_search, batch, n, width, tags, scores)
}

template <class In>
void dijkstra(const Batch<In>& batch, int* tags, In* scores, long long* expanded) {
    BCRF_CALL(dijkstra, batch, tags, scores, expanded)
}

template <class In>
void bregman(const Batch<In>& batch, const BregmanOptions& options, In* value, In* node,
             double* sum, In* each) {
    BCRF_CALL(bregman, batch, options, value, node, sum, each)
}

template <class In>
void mean_field(const Batch<In>& batch, int n_iter, const int* gold, In* value, In* node,
                double* sum, In* each) {
    BCRF_CALL(mean_field, batch, n_iter, gold, value, node, sum, each)
}

// -inf where there is no allowed labeling.
template <class In> void entropy(const Batch<In>& batch, In* entropies) {
    BCRF_CALL(entropy, batch, entropies)
}

template <class In>
void pair_marginals(const Batch<In>& batch, int n, const int* heads, const int* tails, In* node,
                    In* pairs) {
    BCRF_CALL(pair_marginals, batch, n, heads, tails, node, pairs)
}

template <class In>
void sample(const Batch<In>& batch, int n, const double* uniform, int* tags) {
    BCRF_CALL(sample, batch, n, uniform, tags)
}

}  // namespace bcrf
