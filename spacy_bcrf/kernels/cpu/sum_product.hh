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

    ChainOfThread(const Batch<typename Chain::R>& batch, const Wanted<typename Chain::R>& wanted, int longest)
        : chain(batch, longest), output(make_output(chain, batch, wanted)) {}
};

template <class R> void run_chains(const Batch<R>&, std::vector<Sequence<R>>, Operation, const Wanted<R>&);

// Compute sequences of floats as doubles.
inline void run_in_double(const Batch<float>& batch, const std::vector<Sequence<float>>& which, Operation operation,
                   const Wanted<float>& wanted) {
    InDouble copy(batch, which);
    Wanted<double> own(copy.outputs(wanted));
    const size_t n = wanted.n, tokens = copy.tokens(), all = batch.tokens();
    std::vector<double> entropies(which.size()), pairs(wanted.pairs ? tokens * n : 0), uniform;
    std::vector<int> labels(wanted.labels ? tokens * n : 0);
    for (size_t j = 0; j < n && wanted.labels; ++j) {
        const Buffer<double> row = copy.gather(wanted.uniform + j * all, 1);
        uniform.insert(uniform.end(), row.data(), row.data() + tokens);
        // Labelings of sequences without an allowed one stay.
        std::copy_n(copy.gather<int>(wanted.labels + j * all, 1).data(), tokens, &labels[j * tokens]);
    }
    if (wanted.entropies) own.entropies = entropies.data();
    if (wanted.pairs) own.pairs = pairs.data();
    if (wanted.labels) own.labels = labels.data();
    own.n = wanted.n, own.heads = wanted.heads, own.tails = wanted.tails, own.uniform = uniform.data();
    const Batch<double> doubles = copy.batch(batch.threads);
    run_chains<double>(doubles, doubles.sequences(), operation, own);
    copy.write(wanted);
    if (wanted.entropies) copy.scatter_values(entropies.data(), wanted.entropies);
    if (wanted.pairs) copy.scatter(pairs.data(), wanted.pairs, n);
    for (size_t j = 0; j < n && wanted.labels; ++j) copy.scatter(&labels[j * tokens], wanted.labels + j * all, 1);
}

// Run the plan of an operation on a list of sequences.
template <class R>
void run_chains(const Batch<R>& batch, std::vector<Sequence<R>> which, Operation operation, const Wanted<R>& wanted) {
    // The operation may not want the values, which tell whether a labeling is allowed.
    std::vector<R> own(wanted.value ? 0 : batch.size);
    Wanted<R> out = wanted;
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
            run_in_double(batch, left, operation, out);
            for (const Sequence<R>& s : left) subtract_gold(s, out, out.sum);
        }
    };
    const Shape shape = shape_of(batch, operation, guess_range(batch, operation));
    run_plan<R, SequenceLayouts>(batch, std::move(which), shape, run, in_double);
}

// Compute the sequences of a list.
template <class R>
void sum_product(const Batch<R>& batch, std::vector<Sequence<R>> which, const Outputs<R>& out) {
    run_chains<R>(batch, std::move(which), out.each ? Operation::EDGES : Operation::SUM_PRODUCT, out);
}

template <class R> void sum_product(const Batch<R>& batch, const Outputs<R>& outputs) {
    sum_product<R>(batch, batch.sequences(), outputs);
}

template <class R> void entropy(const Batch<R>& batch, R* entropies) {
    Wanted<R> wanted;
    wanted.entropies = entropies;
    run_chains<R>(batch, batch.sequences(), Operation::POSTERIOR, wanted);
}

template <class R>
void pair_marginals(const Batch<R>& batch, int n, const int* heads, const int* tails, R* node, R* pairs) {
    Wanted<R> wanted;
    wanted.node = node, wanted.pairs = pairs, wanted.n = n, wanted.heads = heads, wanted.tails = tails;
    run_chains<R>(batch, batch.sequences(), Operation::POSTERIOR, wanted);
}

template <class R> void sample(const Batch<R>& batch, int n, const double* uniform, int* labels) {
    Wanted<R> wanted;
    wanted.n = n, wanted.uniform = uniform, wanted.labels = labels;
    run_chains<R>(batch, batch.sequences(), Operation::POSTERIOR, wanted);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
