// The kernels: each function runs its implementation for the instruction set in use.
#pragma once

#include "batch.hh"
#include "bregman_options.hh"
#include "features.hh"
#include "targets.hh"

namespace bcrf {

// node, sum and each may be null if they are not wanted. `sum` needs shared transitions.
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

// -inf for a sequence without an allowed labeling.
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
