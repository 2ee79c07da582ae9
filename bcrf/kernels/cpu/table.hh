// The table of kernels for the instruction set BCRF_TARGET.
#pragma once

#include "bregman.hh"
#include "dijkstra.hh"
#include "kernels.hh"
#include "mean_field.hh"
#include "nbest.hh"

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
            const bool over_tokens = is_bregman(operation) || operation == Operation::MEAN_FIELD;
            const auto tiles = over_tokens ? TokenLanes<R>::tiles : Lanes<R>::tiles;
            if (tiles(batch, list, rest, step.share).empty()) continue;
            text = "lanes of " + std::to_string(lanes<R>);
        }
        text += (is_wide(step.path) ? ", wide " : ", ") + type;
        found.push_back(step.path == Path::FLOAT64 ? "as float64" : text);
    }
    return found;
}

template <class R> Kernels<R> kernels() {
    return {sum_product<R>,        max_product<R>, nbest<R>,      baseline::beam_search<R>,
            baseline::dijkstra<R>, bregman<R>,     mean_field<R>, plan_text<R>};
}

template Kernels<float> kernels<float>();
template Kernels<double> kernels<double>();

}  // namespace BCRF_TARGET
}  // namespace bcrf
