// Entropy, marginals of tag pairs, and samples of the linear-chain CRF.
#pragma once

#include "crf.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R, class In> class Posterior : ForwardBackward<R, In> {
    using Chain = ForwardBackward<R, In>;
    using Chain::tags_;
    using Chain::width_;
    using Chain::matrices_;
    using Chain::alpha_;
    using Chain::inward_;

    Buffer<In> node_;                 // (longest, tags)
    Buffer<R> costs_, moved_;         // (tags, width), (4, width)
    bool loaded_ = false;

    // Return K[u, v] (max w - w[u, v]), where K = exp(w - max w). It is 0 where K is 0.
    const R* costs(const Sequence<In>& s, int i) {
        if (loaded_) return costs_;
        const R* k = matrices_.rows(i);
        const In* w = s.edge(i);
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v) {
                const R x = k[size_t(u) * width_ + v];
                costs_[size_t(u) * width_ + v] =
                    x > 0 ? x * R(In(matrices_.shift(i)) - w[size_t(u) * tags_ + v]) : R(0);
            }
        loaded_ = s.shared;
        return costs_;
    }

    bool infer(const Sequence<In>& s, In* node) {
        Output<In> out{0, node, nullptr, nullptr};
        return Chain::run(s, out, false);
    }

  public:
    Posterior(const Batch<In>& batch, int longest)
        : Chain(batch, longest), node_(size_t(longest + 1) * width_),
          costs_(size_t(tags_) * width_), moved_(size_t(4) * width_) {}

    // Return H = log Z - E[score]. Both terms use scores minus the maximum of each token and edge,
    // so no large numbers cancel. Return -1 if the sequence needs a larger range.
    double entropy(const Sequence<In>& s) {
        if (!infer(s, node_)) return -1;
        double cost = 0;
        for (int i = 0; i < s.length; ++i) {
            const In *unary = s.unary + size_t(i) * tags_, *node = node_ + size_t(i) * tags_;
            load_row<R, In>(moved_, unary, largest(unary, tags_), tags_);
            Vec<R> sums{};
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> x = BCRF_TARGET::load(moved_ + t);
                sums -= x > -infinity<R> ? x * load_as<R>(node + t) : broadcast<R>(0);
            }
            cost += sum<R>(sums);
        }
        for (int i = 0, rows = 0; i + 1 < s.length; i += rows) {
            rows = s.shared ? std::min(4, s.length - 1 - i) : 1;
            R* out[4];
            const R* in[4];
            for (int r = 0; r < rows; ++r) {
                out[r] = moved_ + size_t(r) * width_;
                in[r] = alpha_.row(i + r);
            }
            product<SumProduct>(rows, out, in, costs(s, i), tags_, width_);
            for (int r = 0; r < rows; ++r) {
                const R* inward = inward_.row(i + r + 1);
                Vec<R> sums{};
                for (int t = 0; t < width_; t += lanes<R>)
                    sums += BCRF_TARGET::load(out[r] + t) * BCRF_TARGET::load(inward + t);
                cost += sum<R>(sums);
            }
        }
        return std::max(0.0, alpha_.log_sums(0, s.length) + cost);
    }

    // Set pairs (length, n) to the marginals of tag heads[m] at a token and tails[m] at the next
    // one.
    bool pairs(const Sequence<In>& s, int n, const int* heads, const int* tails, In* node, In* pairs) {
        if (!infer(s, node)) return false;
        for (int i = 0; i + 1 < s.length; ++i, pairs += n) {
            const R *alpha = alpha_.row(i), *inward = inward_.row(i + 1), *k = matrices_.rows(i);
            for (int m = 0; m < n; ++m)
                pairs[m] = In(alpha[heads[m]] * k[size_t(heads[m]) * width_ + tails[m]] *
                              inward[tails[m]]);
        }
        std::fill(pairs, pairs + n, In(0));
        return true;
    }

    // Draw n labelings from uniform numbers (n, stride) by forward filtering and backward sampling.
    bool sample(const Sequence<In>& s, int n, size_t stride, const double* uniform, int* tags) {
        if (!infer(s, node_)) return false;
        for (int k = 0; k < n; ++k, tags += stride, uniform += stride)
            for (int i = s.length - 1; i >= 0; --i) {
                const R* alpha = alpha_.row(i);
                const R* to = i + 1 < s.length
                                   ? matrices_.columns(i) + size_t(tags[i + 1]) * width_ : nullptr;
                tags[i] = pick_tag(tags_, uniform[i],
                                   [&](int t) { return double(alpha[t]) * (to ? to[t] : 1); });
            }
        return true;
    }
};

// Posteriors in the precision of the scores. Sequences that need more range get double precision, and then
// numbers with exponents of their own.
template <class In> class Posteriors {
    const Batch<In>& batch_;
    const RangeGuess guess_;
    // Created for the first sequence that needs them.
    std::unique_ptr<Posterior<In, In>> narrow_;
    std::unique_ptr<Posterior<double, In>> double_;
    std::unique_ptr<ScaledChain<In>> scaled_;

  public:
    explicit Posteriors(const Batch<In>& batch) : batch_(batch), guess_(batch) {}

    // Call use(posterior), which returns whether the posterior has enough range. Return false if none
    // has.
    template <class Use> bool run(Use use) {
        if (guess_.fits<In>() && use(get(narrow_))) return true;
        if (sizeof(In) == 8 || !guess_.fits<double>()) return false;
        return use(get(double_));
    }

    template <class R> Posterior<R, In>& get(std::unique_ptr<Posterior<R, In>>& posterior) {
        if (!posterior) posterior.reset(new Posterior<R, In>(batch_, batch_.longest()));
        return *posterior;
    }

    ScaledChain<In>& scaled() {
        if (!scaled_) scaled_.reset(new ScaledChain<In>(batch_));
        return *scaled_;
    }
};

template <class In, class Run> void for_each_posterior(const Batch<In>& batch, Run run) {
    for_each_sequence(batch, 3 * pass(batch), [&] { return Posteriors<In>(batch); }, run);
}

template <class In> void entropy(const Batch<In>& batch, In* entropies) {
    for_each_posterior(batch, [&](Posteriors<In>& chain, const Sequence<In>& s) {
        double h = -1;
        if (!chain.run([&](auto& posterior) { return (h = posterior.entropy(s)) >= 0; }))
            h = chain.scaled().entropy(s);
        entropies[s.index] = In(h);
    });
}

template <class In>
void pair_marginals(const Batch<In>& batch, int n, const int* heads, const int* tails, In* node, In* pairs) {
    const size_t t = batch.tags;
    for_each_posterior(batch, [&](Posteriors<In>& chain, const Sequence<In>& s) {
        In *node_at = node + s.first * t, *pairs_at = pairs + s.first * n;
        if (chain.run([&](auto& posterior) {
                return posterior.pairs(s, n, heads, tails, node_at, pairs_at);
            }))
            return;
        chain.scaled().pairs(s, n, heads, tails, node_at, pairs_at);
    });
}

template <class In> void sample(const Batch<In>& batch, int n, const double* uniform, int* tags) {
    const size_t tokens = batch.tokens();
    for_each_posterior(batch, [&](Posteriors<In>& chain, const Sequence<In>& s) {
        if (!chain.run([&](auto& posterior) {
                return posterior.sample(s, n, tokens, uniform + s.first, tags + s.first);
            }))
            chain.scaled().sample(s, n, tokens, uniform + s.first, tags + s.first);
    });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
