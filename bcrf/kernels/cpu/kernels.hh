// The table of kernels. Each instruction set has one.
#pragma once

#include "batch.hh"
#include "dispatch.hh"
#include "features.hh"
#include "paths.hh"

namespace bcrf {

// Searches without vectors have one copy.
namespace baseline {
template <class In> void beam_search(const Batch<In>&, int n, int width, int* tags, In* scores);
template <class In> void dijkstra(const Batch<In>&, int* tags, In* scores, long long* expanded);
}  // namespace baseline

template <class In> struct Kernels {
    void (*sum_product)(const Batch<In>&, const Outputs<In>&);
    void (*max_product)(const Batch<In>&, int* tags, In* scores);
    void (*nbest)(const Batch<In>&, int n, int* tags, In* scores);
    void (*beam_search)(const Batch<In>&, int n, int width, int* tags, In* scores);
    void (*dijkstra)(const Batch<In>&, int* tags, In* scores, long long* expanded);
    void (*bregman)(const Batch<In>&, const BregmanOptions&, const Outputs<In>&);
    void (*mean_field)(const Batch<In>&, int n_iter, const Outputs<In>&);
    std::vector<std::string> (*plan)(const Request&, const Batch<In>&, double range);

    // Return the kernels of the instruction set in use.
    static const Kernels& get();
};

// Each file in targets/ defines `kernels` for float and double in its namespace.
BCRF_EACH_TARGET(template <class In> Kernels<In> kernels();)

template <class In> const Kernels<In>& Kernels<In>::get() {
    static const Kernels<In> chosen = BCRF_CHOOSE(kernels<In>());
    return chosen;
}

}  // namespace bcrf
