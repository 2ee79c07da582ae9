// The table of kernels for the instruction set BCRF_TARGET.
#pragma once

#include "beam.hh"
#include "bregman.hh"
#include "dijkstra.hh"
#include "kernels.hh"
#include "mean_field.hh"
#include "sum_product.hh"
#include "viterbi.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Return the steps of an operation as text, without those that take no sequence. The batch has no tag scores. range: see
// guess_range.
template <class R> std::vector<std::string> plan_text(Operation operation, const Batch<R>& batch, double range) {
    std::vector<std::string> found;
    const std::string type = sizeof(R) == 4 ? "float32" : "float64";
    for (Step step : plan<R>(shape_of(batch, operation, range))) {
        std::string text = "rows";
        if (is_in_lanes(step.path)) {
            std::vector<Sequence<R>> list = batch.sequences(), rest;
            if (is_over_tokens(operation) ? TokenLanes<R>::tiles(batch, list, rest, step.share).empty()
                                          : Lanes<R>::tiles(batch, list, rest, step.share).empty())
                continue;
            text = "lanes of " + std::to_string(lanes<R>);
        }
        text += (is_wide(step.path) ? ", wide " : ", ") + type;
        found.push_back(step.path == Path::FLOAT64 ? "as float64" : text);
    }
    return found;
}

template <class R> Kernels<R> kernels() {
    Kernels<R> table;
    table.sum_product = sum_product<R>;
    table.max_product = max_product<R>;
    table.nbest = nbest<R>;
    table.beam_search = beam_search<R>;
    table.dijkstra = dijkstra<R>;
    table.bregman = bregman<R>;
    table.mean_field = mean_field<R>;
    table.plan = plan_text<R>;
    return table;
}

template Kernels<float> kernels<float>();
template Kernels<double> kernels<double>();

}  // namespace BCRF_TARGET
}  // namespace bcrf
