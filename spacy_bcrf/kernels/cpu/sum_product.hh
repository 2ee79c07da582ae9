// The operations of the CRF: log-partition with marginals, entropy, marginals of tag pairs, and samples.
#pragma once

#include "in_double.hh"
#include "outputs.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The recursion of a thread, and its output.
template <class Chain> struct ChainOfThread {
    Chain chain;
    std::unique_ptr<EdgeOutput<Chain>> output;

    ChainOfThread(const Batch<typename Chain::R>& batch, const Outputs<typename Chain::R>& out, int longest)
        : chain(batch, longest), output(make_output(chain, batch, out)) {}
};

// Compute the sequences of a list.
template <class R> void sum_product(const Batch<R>& batch, std::vector<Sequence<R>> which, const Outputs<R>& outputs);

template <class R> void sum_product(const Batch<R>& batch, std::vector<Sequence<R>> which, const Outputs<R>& outputs) {
    const bool is_posterior = outputs.entropies || outputs.pairs || outputs.labels;
    const Operation operation = outputs.each   ? Operation::EDGES
                                : is_posterior ? Operation::POSTERIOR
                                               : Operation::SUM_PRODUCT;
    // The operation may not want the values, which tell whether a labeling is allowed.
    std::vector<R> own(outputs.value ? 0 : batch.size);
    Outputs<R> out = outputs;
    if (!out.value) out.value = own.data();
    const auto run = [&](auto layout, auto number, const auto& tiles, char* failed) {
        using Chain = ForwardBackward<typename decltype(layout)::type, typename decltype(number)::type>;
        using Thread = ChainOfThread<Chain>;
        int longest = 0;
        for (const auto& tile : tiles) longest = std::max(longest, tile.longest);
        for_each_tile(
            batch, tiles, 3 * pass(batch), out.sum, [&] { return Thread(batch, out, longest); },
            [&](Thread& thread, const auto& tile, double* sum) {
                if (thread.output) thread.output->set(tile, sum);
                const bool only_value = !out.node && !(thread.output && thread.output->needs_edges());
                thread.chain.run(tile, out.value, out.node, thread.output.get(), only_value, failed);
                for (int k = 0; k < tile.size; ++k) {
                    const Sequence<R>& s = tile.sequence[k];
                    if (failed[s.index]) {
                        out.clear_edges(s);
                        continue;
                    }
                    const bool possible = out.value[s.index] > -infinity<R>;
                    if (thread.output && possible) thread.output->finish(k);
                    if (out.entropies && !possible) out.entropies[s.index] = out.value[s.index];
                    if (out.pairs && !possible)
                        std::fill_n(out.pairs + s.first * out.n, size_t(s.length) * out.n, R(0));
                    subtract_gold(s, out, sum);
                }
            },
            [](Thread& thread, double* sum) { thread.chain.flush(sum); });
    };
    const auto in_double = [&](const std::vector<Sequence<R>>& left) {
        if constexpr (sizeof(R) == 4) {
            InDouble copy(batch, left, out);
            const Batch<double> doubles = copy.batch(batch.threads);
            sum_product<double>(doubles, doubles.sequences(), copy.out);
            copy.write();
            for (const Sequence<R>& s : left) subtract_gold(s, out, out.sum);
        }
    };
    const Shape shape = shape_of(batch, operation, guess_range(batch, operation));
    run_plan<R, SequenceLayouts>(batch, std::move(which), shape, run, in_double);
}

template <class R> void sum_product(const Batch<R>& batch, const Outputs<R>& outputs) {
    sum_product<R>(batch, batch.sequences(), outputs);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
