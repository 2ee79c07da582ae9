// The operations of the CRF: log-partition with marginals, entropy, marginals of tag pairs, and samples.
#pragma once

#include "in_double.hh"
#include "outputs.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Compute the sequences of a list.
template <class R> void sum_product(const Batch<R>& batch, std::vector<Sequence<R>> list, const Outputs<R>& outputs) {
    const bool is_posterior = outputs.entropies || outputs.pairs || outputs.labels;
    const Operation operation = outputs.each   ? Operation::EDGES
                                : is_posterior ? Operation::POSTERIOR
                                               : Operation::SUM_PRODUCT;
    // The operation may not want the values, which tell whether a labeling is allowed.
    std::vector<R> own(outputs.value ? 0 : batch.size);
    Outputs<R> out = outputs;
    if (!out.value) out.value = own.data();
    const auto run = [&](auto layout, auto number, const auto& tiles, char* failed) {
        using Layout = typename decltype(layout)::type;
        using Thread = Posterior<Layout, typename decltype(number)::type>;
        const int longest = int(largest_room<Layout>(tiles));
        for_each_tile(
            batch, tiles, 3 * pass(batch), out.sum, [&] { return Thread(batch, out, longest); },
            [&](Thread& thread, const Tile<R>& tile, double* sum) { thread.run(tile, sum, failed); },
            [](Thread& thread, double* sum) { thread.flush(sum); });
    };
    const auto in_double = [&](const std::vector<Sequence<R>>& left) {
        run_in_double(batch, left, out, [](const Batch<double>& doubles, const Outputs<double>& to) {
            sum_product(doubles, doubles.sequences(), to);
        });
        for (const Sequence<R>& s : left) subtract_gold(s, out, out.sum);
    };
    const Shape shape = shape_of(batch, operation, guess_range(batch, operation));
    run_plan<Rows, Lanes>(batch, std::move(list), shape, run, in_double);
}

template <class R> void sum_product(const Batch<R>& batch, const Outputs<R>& outputs) {
    sum_product<R>(batch, batch.sequences(), outputs);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
