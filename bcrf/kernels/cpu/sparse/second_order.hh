// Second-order chains: the weights of three neighbouring tags, on the tags that the first-order chain
// keeps (Mueller, Schmid and Schuetze 2013).
//
// The states are pairs of neighbouring kept tags. A pair (a, b) has a row of weights, one for each
// tag that follows. The score of tags y is that of the first-order chain plus, for each token i > 0,
// the weight of y[i] in the row of (y[i-2], y[i-1]); before the first token stands the tag number T.
#pragma once

#include "model.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Return log(sum_i exp(x(i))) for i < n. Most tokens keep one tag.
template <class F> double log_sum(int n, F x) {
    if (n == 1) return x(0);
    double top = -infinity<double>, total = 0;
    for (int i = 0; i < n; ++i) top = x(i) > top ? x(i) : top;
    if (top == -infinity<double>) return top;
    for (int i = 0; i < n; ++i) total += std::exp(x(i) - top);
    return top + std::log(total);
}

// The kept tags of each token of a sequence.
class KeptTags {
    std::vector<int> tags_;
    std::vector<size_t> first_;

  public:
    // Keep the tags for which keep(i, t) is true.
    template <class Keep> void load(int length, int tags, Keep keep) {
        tags_.clear();
        first_.assign(1, 0);
        for (int i = 0; i < length; ++i) {
            for (int t = 0; t < tags; ++t)
                if (keep(i, t)) tags_.push_back(t);
            first_.push_back(tags_.size());
        }
    }
    int count(int i) const { return int(first_[i + 1] - first_[i]); }
    const int* of(int i) const { return tags_.data() + first_[i]; }
};

// Forward-backward over the pairs of kept tags, in log space. O(N K^3) time for K kept tags a token.
class SecondOrder {
    Sequence<float> s_{};
    PairWeights weights_{};
    const KeptTags* kept_ = nullptr;
    std::vector<size_t> first_;              // of the pairs of tokens i - 1 and i
    std::vector<double> own_, alpha_, beta_;  // by pair
    double z_ = 0;

    size_t pair(int i, int j, int k) const { return first_[i] + size_t(j) * kept_->count(i) + k; }

    double three(int i, int h, int j, int k) const {
        const int a = i > 1 ? kept_->of(i - 2)[h] : s_.tags;
        return weights_(a, kept_->of(i - 1)[j], kept_->of(i)[k]);
    }

    // Call f(j, k) for all pairs of kept tags of tokens i - 1 and i.
    template <class F> void each_pair(int i, F f) const {
        for (int j = 0; j < kept_->count(i - 1); ++j)
            for (int k = 0; k < kept_->count(i); ++k) f(j, k);
    }

    int before(int i) const { return i > 1 ? kept_->count(i - 2) : 1; }

  public:
    // Return the log-partition of the kept labelings, of at least two tokens.
    double run(const Sequence<float>& s, const PairWeights& weights, const KeptTags& kept) {
        s_ = s;
        weights_ = weights;
        kept_ = &kept;
        first_.assign(1, 0);
        first_.push_back(0);
        for (int i = 1; i < s.length; ++i)
            first_.push_back(first_[i] + size_t(kept.count(i - 1)) * kept.count(i));
        for (auto* numbers : {&own_, &alpha_, &beta_}) numbers->resize(first_.back());
        for (int i = 1; i < s.length; ++i) {
            each_pair(i, [&](int j, int k) {
                const size_t at = pair(i, j, k);
                own_[at] = first_order(i, j, k);
                alpha_[at] = own_[at] + log_sum(before(i), [&](int h) {
                    return (i > 1 ? alpha_[pair(i - 1, h, j)] : 0) + three(i, h, j, k);
                });
            });
        }
        for (int i = s.length - 1; i > 0; --i)
            each_pair(i, [&](int j, int k) {
                beta_[pair(i, j, k)] =
                    i + 1 == s.length ? 0 : log_sum(kept.count(i + 1), [&](int l) {
                        const size_t next = pair(i + 1, k, l);
                        return three(i + 1, j, k, l) + own_[next] + beta_[next];
                    });
            });
        const int last = s.length - 1;
        z_ = log_sum(int(first_[last + 1] - first_[last]),
                                [&](int k) { return alpha_[first_[last] + k]; });
        return z_;
    }

    // The scores of the first-order chain between tokens i - 1 and i, and of the tag of token i; of
    // token 0 too, if i is 1.
    double first_order(int i, int j, int k) const {
        const int a = kept_->of(i - 1)[j], b = kept_->of(i)[k];
        const double score = double(s_.edge(i - 1)[size_t(a) * s_.tags + b]) +
                             s_.unary[size_t(i) * s_.tags + b];
        return i > 1 ? score : score + s_.unary[a];
    }

    // Return the log-probability of a pair of kept tags of tokens i - 1 and i.
    double log_marginal(int i, int j, int k) const {
        const size_t at = pair(i, j, k);
        return alpha_[at] + beta_[at] - z_;
    }

    // Call pairs(i, a, b, p) for each pair of tags, and triples(row, c, p) for each triple with its row
    // of weights. p is the marginal.
    template <class Pairs, class Triples> void marginals(Pairs pairs, Triples triples) const {
        for (int i = 1; i < s_.length; ++i)
            each_pair(i, [&](int j, int k) {
                const size_t at = pair(i, j, k);
                const int b = kept_->of(i - 1)[j], c = kept_->of(i)[k];
                pairs(i, b, c, std::exp(log_marginal(i, j, k)));
                for (int h = 0; h < before(i); ++h) {
                    const int a = i > 1 ? kept_->of(i - 2)[h] : s_.tags;
                    const double past = i > 1 ? alpha_[pair(i - 1, h, j)] : 0;
                    triples(weights_.row(a, b), c,
                            std::exp(past + weights_(a, b, c) + own_[at] + beta_[at] - z_));
                }
            });
    }
};

// Add corrections to the scores of a first-order chain: per-edge transitions (length - 1, tags, tags)
// that hold the first-order ones, and the scores of the first token. On the kept labelings, the
// chain then is the one with the pair marginals of the second-order chain, and its log-partition
// stays. Other labelings keep the first-order scores of their pairs.
inline void add_corrections(const Sequence<float>& s, const SecondOrder& chain,
                            const KeptTags& kept, float* unary, float* transitions) {
    const size_t T = s.tags;
    std::vector<double> beta(kept.count(s.length - 1), 0.0), now, terms, logs;
    for (int i = s.length - 1; i > 0; --i) {
        const int n = kept.count(i), m = kept.count(i - 1);
        const int *from = kept.of(i - 1), *to = kept.of(i);
        now.assign(m, 0);
        terms.resize(n);
        logs.resize(n);
        for (int j = 0; j < m; ++j) {
            for (int k = 0; k < n; ++k) {
                terms[k] = double(s.edge(i - 1)[from[j] * T + to[k]]) + s.unary[i * T + to[k]] +
                           beta[k];
                logs[k] = chain.log_marginal(i, j, k);
            }
            now[j] = log_sum(n, [&](int k) { return terms[k]; });
            const double total = log_sum(n, [&](int k) { return logs[k]; });
            for (int k = 0; k < n; ++k)
                if (terms[k] > -infinity<double>)
                    transitions[(size_t(i - 1) * T + from[j]) * T + to[k]] +=
                        float(logs[k] - total - (terms[k] - now[j]));
        }
        beta.swap(now);
    }
    const int m = kept.count(0), n = kept.count(1);
    const int* first = kept.of(0);
    const double z =
        log_sum(m, [&](int j) { return s.unary[first[j]] + beta[j]; });
    for (int j = 0; j < m; ++j) {
        const double total =
            log_sum(n, [&](int k) { return chain.log_marginal(1, j, k); });
        unary[first[j]] += float(total - (s.unary[first[j]] + beta[j] - z));
    }
}

// Keep the tags whose marginal is at least `least`, and the tags of the labeling `best`.
// Drop those on no allowed labeling of kept tags. Each token keeps the tag of `best`, which the
// chain allows.
inline void keep_tags(const Sequence<float>& s, const float* marginals, const int* best,
                      float least, KeptTags& kept) {
    const size_t T = s.tags;
    std::vector<char> keep(s.length * T);
    for (int i = 0; i < s.length; ++i)
        for (size_t t = 0; t < T; ++t)
            keep[i * T + t] = marginals[i * T + t] >= least || size_t(best[i]) == t;
    const auto reaches = [&](int i, size_t u, size_t v) {
        return keep[i * T + u] && keep[(i + 1) * T + v] && s.edge(i)[u * T + v] > -infinity<float>;
    };
    const auto prune = [&](int i, bool forward) {
        for (size_t t = 0; t < T; ++t) {
            bool any = false;
            for (size_t u = 0; u < T && keep[i * T + t] && !any; ++u)
                any = forward ? reaches(i - 1, u, t) : reaches(i, t, u);
            keep[i * T + t] = any;
        }
    };
    for (int i = 1; i < s.length; ++i) prune(i, true);
    for (int i = s.length - 2; i >= 0; --i) prune(i, false);
    kept.load(s.length, s.tags, [&](int i, int t) { return keep[size_t(i) * T + t] != 0; });
}

// Correct the potentials of a batch, see add_corrections. marginals (N, tags) and best (N) are those
// of the first-order chain. unary (N, tags) and transitions (N, tags, tags) hold its scores, and
// receive the corrections. Sequences of one token have none. A sequence without an allowed labeling
// stays as it is.
inline void correct(const Batch<float>& batch, const PairWeights& weights, const float* marginals,
                    const int* best, float least, float* unary, float* transitions) {
    const size_t T = batch.tags;
    SecondOrder chain;
    KeptTags kept;
    size_t token = 0;
    for (int b = 0; b < batch.size; token += batch.lengths[b++]) {
        const Sequence<float> s = batch.sequence(b, token);
        if (s.length < 2) continue;
        double total = 0;
        for (size_t t = 0; t < T; ++t) total += marginals[token * T + t];
        if (total == 0) continue;
        keep_tags(s, marginals + token * T, best + token, least, kept);
        chain.run(s, weights, kept);
        add_corrections(s, chain, kept, unary + token * T, transitions + token * T * T);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
