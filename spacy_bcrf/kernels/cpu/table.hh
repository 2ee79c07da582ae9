// The table of kernels for the instruction set BCRF_TARGET.
#pragma once

#include "beam.hh"
#include "bregman.hh"
#include "dijkstra.hh"
#include "kernels.hh"
#include "mean_field.hh"
#include "posterior.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class In> Kernels<In> kernels() {
    Kernels<In> table;
    table.sum_product = sum_product<In>;
    table.max_product = max_product<In>;
    table.nbest = nbest<In>;
    table.beam_search = beam_search<In>;
    table.dijkstra = dijkstra<In>;
    table.bregman = bregman<In>;
    table.mean_field = mean_field<In>;
    table.entropy = entropy<In>;
    table.pair_marginals = pair_marginals<In>;
    table.sample = sample<In>;
    return table;
}

template Kernels<float> kernels<float>();
template Kernels<double> kernels<double>();

}  // namespace BCRF_TARGET
}  // namespace bcrf
