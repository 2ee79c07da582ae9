// The table of kernels for the instruction set BCRF_TARGET.
#pragma once

#include "bregman.hh"
#include "dijkstra.hh"
#include "kernels.hh"
#include "mean_field.hh"
#include "nbest.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Return the steps of a call as text, without those that take no sequence: those of floats, then those of their copies in
// double. The batch has no tag scores. range: of most tokens' tag scores, before they are scaled.
template <class R>
std::vector<std::string> plan_text(const Request& request, const Batch<R>& batch, double range) {
    std::vector<std::string> found;
    const std::string type = sizeof(R) == 4 ? "float32" : "float64";
    const Shape shape = shape_of(batch, request, range * request.scale);
    for (Step step : plan<R>(shape)) {
        if (step.path == Path::FLOAT64) {
            const std::vector<double> copy(batch.transitions, batch.transitions + size_t(batch.tags) * batch.tags);
            const Batch<double> doubles{copy.data(), copy.data(), batch.lengths, batch.size, batch.tags, batch.shared};
            const std::vector<std::string> nested = plan_text(request, doubles, range);
            found.insert(found.end(), nested.begin(), nested.end());
            continue;
        }
        std::string text = "rows";
        if (is_in_lanes(step.path)) {
            std::vector<Sequence<R>> list = batch.sequences(), rest;
            const bool over_tokens = request.operation == Operation::BREGMAN || request.operation == Operation::MEAN_FIELD;
            const auto tiles = over_tokens ? TokenLanes<R>::tiles : Lanes<R>::tiles;
            if (tiles(shape, list, rest, step.share).empty()) continue;
            text = "lanes of " + std::to_string(lanes<R>);
        }
        found.push_back(text + (is_wide(step.path) ? ", wide " : ", ") + type);
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
