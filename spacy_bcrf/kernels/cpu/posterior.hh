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

// Posteriors in the precision of the scores: rows(posterior, s) returns whether the posterior has enough range. The
// other sequences get double precision, then lanes(posterior, group, failed) with Scaled numbers, and then
// scaled(chain, s). Lanes of Scaled floats come before doubles where they are faster.
template <class In, class InRows, class InLanes, class InScaled>
void for_each_posterior(const Batch<In>& batch, InRows rows, InLanes lanes, InScaled scaled) {
    const RangeGuess guess(batch);
    const double work = 3 * pass(batch);
    const auto nothing = [](auto&, double*) {};
    std::vector<Place> left = places(batch);
    const auto try_rows = [&](auto type) {
        using Rows = Posterior<typename decltype(type)::type, In>;
        std::vector<char> failed(batch.size);
        for_each_sequence(
            batch, left, work, nullptr, [&] { return Rows(batch, longest(batch, left)); },
            [&](Rows& posterior, const Sequence<In>& s, double*) { failed[s.index] = !rows(posterior, s); }, nothing);
        left = select(left, failed);
    };
    const auto try_lanes = [&](double share) {
#if defined(__GNUC__)
        if (!batch.shared) return;
        std::vector<char> failed(batch.size);
        std::vector<Place> which(left);
        const auto groups = group<In>(batch, which, share);
        const In* end = batch.unary + batch.tokens() * batch.tags;
        for_each_item(
            batch, groups.size(), [&](size_t i) { return groups[i].tokens; }, work, nullptr,
            [&] { return LanePosterior<In>(batch, end, groups[0].longest); },
            [&](LanePosterior<In>& posterior, size_t i, double*) { lanes(posterior, groups[i], failed.data()); },
            nothing);
        for (Place place : which) failed[place.index] = 1;
        left = select(left, failed);
#endif
    };
    const double share = wide_lane_share<In>(batch);
    if (guess.fits<In>()) try_rows(Rows<In>());
    if (sizeof(In) == 4 && guess.fits<double>()) {
        // Vectors of two doubles are slower than lanes of Scaled floats.
        if (BCRF_TARGET::lanes<double> < 4) try_lanes(share);
        else if (!guess.fits<In>() && are_scaled_floats_faster(batch, 1)) try_lanes(SCALED_FLOATS_SHARE);
        try_rows(Rows<double>());
    }
    try_lanes(share);
    for_each_sequence(
        batch, left, 3 * work, nullptr, [&] { return ScaledChain<In>(batch); },
        [&](ScaledChain<In>& chain, const Sequence<In>& s, double*) { scaled(chain, s); }, nothing);
}

template <class In> void entropy(const Batch<In>& batch, In* entropies) {
    for_each_posterior(
        batch,
        [&](auto& posterior, const Sequence<In>& s) {
            const double h = posterior.entropy(s);
            entropies[s.index] = In(h);
            return h >= 0;
        },
        [&](auto& posterior, const auto& group, char* failed) { posterior.entropy(group, entropies, failed); },
        [&](auto& chain, const Sequence<In>& s) { entropies[s.index] = In(chain.entropy(s)); });
}

template <class In>
void pair_marginals(const Batch<In>& batch, int n, const int* heads, const int* tails, In* node, In* pairs) {
    const size_t t = batch.tags;
    const auto of_sequence = [&](auto& posterior, const Sequence<In>& s) {
        return posterior.pairs(s, n, heads, tails, node + s.first * t, pairs + s.first * n);
    };
    for_each_posterior(
        batch, of_sequence,
        [&](auto& posterior, const auto& group, char* failed) {
            posterior.pairs(group, n, heads, tails, node, pairs, failed);
        },
        of_sequence);
}

template <class In> void sample(const Batch<In>& batch, int n, const double* uniform, int* labels) {
    const size_t tokens = batch.tokens();
    const auto of_sequence = [&](auto& posterior, const Sequence<In>& s) {
        return posterior.sample(s, n, tokens, uniform + s.first, labels + s.first);
    };
    for_each_posterior(
        batch, of_sequence,
        [&](auto& posterior, const auto& group, char* failed) {
            posterior.sample(group, n, tokens, uniform, labels, failed);
        },
        of_sequence);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
