// Sequences of float scores as a batch of doubles, for scores that no number of floats holds, or that plain doubles hold
// faster than wide floats.
#pragma once

#include "batch.hh"

namespace bcrf {

// Call run(batch, outputs) with the sequences of a list as doubles, and copy its outputs to `to`. The kernels add to the
// sum themselves. A batch of doubles has no such sequences.
template <class R, class Run>
void run_in_double(const Batch<R>& batch, const std::vector<Sequence<R>>& list, const Outputs<R>& to, Run run) {
    if constexpr (sizeof(R) == sizeof(float)) {
        const size_t all = batch.tokens(), tags = batch.tags, pairs = tags * tags;
        size_t tokens = 0;
        std::vector<int> lengths;
        for (const Sequence<R>& s : list) lengths.push_back(s.length), tokens += s.length;
        // Copy `width` numbers a token of the sequences.
        const auto gather = [&](const auto* from, double* at, size_t width) {
            for (const Sequence<R>& s : list) at = std::copy_n(from + s.first * width, s.length * width, at);
        };
        const auto scatter = [&](const auto* from, auto* wanted, size_t width) {
            for (const Sequence<R>& s : list)
                for (size_t i = 0; wanted && i < s.length * width; ++i)
                    wanted[s.first * width + i] = std::decay_t<decltype(*wanted)>(*from++);
        };
        const auto scatter_values = [&](const double* from, R* wanted) {
            for (const Sequence<R>& s : list)
                if (wanted) wanted[s.index] = R(*from++);
        };
        std::vector<Buffer<double>> arrays;
        const auto make = [&](bool is_wanted, size_t n) -> double* {
            arrays.emplace_back(is_wanted ? n : 0);
            return arrays.back();
        };
        double* unary = make(true, tokens * tags);
        double* transitions = make(true, batch.shared ? pairs : tokens * pairs);
        gather(batch.unary, unary, tags);
        if (batch.shared) std::copy_n(batch.transitions, pairs, transitions);
        else gather(batch.transitions, transitions, pairs);
        Outputs<double> out;
        out.value = make(to.value, list.size());
        out.node = make(to.node, tokens * tags);
        out.sum = to.sum;
        out.each = make(to.each, tokens * pairs);
        out.entropies = make(to.entropies, list.size());
        out.pairs = make(to.pairs, tokens * to.n);
        out.n = to.n, out.heads = to.heads, out.tails = to.tails;
        std::vector<int> labels(to.labels ? tokens * to.n : 0);
        double* uniform = make(to.labels, labels.size());
        for (int j = 0; j < to.n && to.labels; ++j) gather(to.uniform + j * all, uniform + j * tokens, 1);
        if (to.labels) out.labels = labels.data(), out.uniform = uniform;
        run(Batch<double>{unary, transitions, lengths.data(), int(lengths.size()), int(tags), batch.shared,
                          batch.threads},
            out);
        scatter_values(out.value, to.value);
        scatter(out.node, to.node, tags);
        scatter(out.each, to.each, pairs);
        scatter_values(out.entropies, to.entropies);
        scatter(out.pairs, to.pairs, to.n);
        for (int j = 0; j < to.n && to.labels; ++j) scatter(out.labels + j * tokens, to.labels + j * all, 1);
    }
}

}  // namespace bcrf
