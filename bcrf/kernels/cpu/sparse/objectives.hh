// The objectives of the learner: the loss of a sequence, and its gradient by the scores.
#pragma once

#include <numeric>

#include "../features.hh"
#include "kernels.hh"
#include "model.hh"
#include "quadratic.hh"
#include "rows.hh"
#include "second_order.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The n best labelings of a sequence.
struct BestList {
    int found = 0;
    std::vector<int> tags;       // (n, length)
    std::vector<double> scores;  // (n), in descending order
};

// The potentials of a sequence, and the gradient of a loss of them.
class Objectives {
    const Model& m_;
    const Sequences* data_ = nullptr;
    size_t start_ = 0;  // of the sequence, in the rows of all chains
    int length_ = 0, chain_ = 0;
    // Arrays by chain and token: (chains, length, tags). A token's row of all chains is in scores_.
    std::vector<float> scores_, values_, unary_, transitions_, restricted_;
    std::vector<int> lengths_, gold_, best_;
    BestList list_;
    std::vector<float> found_scores_;
    SecondOrder second_order_;
    KeptTags kept_;
    Quadratic quadratic_;

    void forbid(float* unary, const unsigned char* allowed) {
        for (int t = 0; t < m_.tags; ++t)
            if (!allowed[t]) unary[t] = -infinity<float>;
    }

    // Return the number of rows of the arrays by chain and token.
    size_t n_rows() const { return size_t(length_) * m_.chains; }
    size_t of_chain() const { return size_t(chain_) * length_; }

    void restrict_to_constraints() {
        const size_t T = m_.tags;
        if (!m_.transitions.empty()) {
            for (size_t k = 0; k < T * T; ++k)
                if (!m_.transitions[k]) transitions_[k] = -infinity<float>;
            for (size_t i = 0; i < n_rows(); i += length_) {
                forbid(unary_.data() + i * T, m_.start.data());
                forbid(unary_.data() + (i + length_ - 1) * T, m_.end.data());
            }
        }
        if (data_->open)
            for (size_t i = 0; i < n_rows(); ++i)
                forbid(unary_.data() + i * T, data_->open + (start_ + i) * T);
    }

    Sequence<float> sequence(const std::vector<float>& unary) const {
        return {unary.data() + of_chain() * m_.tags, transitions_.data(), length_, m_.tags, true};
    }

    // One chain, or all.
    Batch<float> batch(const std::vector<float>& unary) const {
        return {unary.data() + of_chain() * m_.tags, transitions_.data(), &length_, 1, m_.tags, true};
    }
    Batch<float> chains(const std::vector<float>& unary) const {
        return {unary.data(), transitions_.data(), lengths_.data(), m_.chains, m_.tags, true};
    }

    // Set restricted_ to the scores under partial gold. Return false if gold forbids no tag that
    // the constraints allow.
    bool restrict_to_gold() {
        const size_t T = m_.tags;
        restricted_.assign(unary_.begin(), unary_.begin() + n_rows() * T);
        bool restricts = false;
        for (size_t i = 0; i < n_rows(); ++i) {
            float* unary = restricted_.data() + i * T;
            for (size_t t = 0; t < T; ++t) {
                const bool allowed = data_->allowed
                                         ? data_->allowed[(start_ + i) * T + t] != 0
                                         : gold_[i] < 0 || size_t(gold_[i]) == t;
                if (allowed || unary[t] == -infinity<float>) continue;
                restricts = true;
                unary[t] = -infinity<float>;
            }
        }
        return restricts;
    }

    // Throw std::invalid_argument if a token of restricted_ has several tags.
    void check_complete() const {
        for (size_t i = 0; i < n_rows(); ++i) {
            const float* unary = restricted_.data() + i * m_.tags;
            if (m_.tags - std::count(unary, unary + m_.tags, -infinity<float>) > 1)
                throw std::invalid_argument(
                    "a sequence has partial gold, and mean field cannot be restricted to a set of "
                    "labelings; annotate all of its tokens or none, or use the objective crf or "
                    "bcrf");
        }
    }

    void add_labeling(const int* tags, double weight) {
        const size_t T = m_.tags;
        for (int i = 0; i < length_; ++i) {
            node[(of_chain() + i) * T + tags[i]] += float(weight);
            if (i) edge[tags[i - 1] * T + tags[i]] += weight;
        }
    }

    // Set node and edge to the marginals of a CRF or Bregman CRF. Return the log-partition: of a
    // Bregman CRF a bound, from below if `lower`, so that the loss is not negative.
    double expect(const std::vector<float>& unary, bool lower) {
        const Batch<float> all = chains(unary);
        const Outputs<float> outputs{values_.data(), node.data(), edge.data()};
        if (m_.options.objective == Objective::crf) {
            dense_kernels->sum_product(all, outputs);
        } else {
            const BregmanOptions options{m_.options.n_iter, m_.options.relaxation, -1, lower, projection::MEAN, 1};
            dense_kernels->bregman(all, options, outputs);
        }
        return total();
    }

    double total() const { return std::accumulate(values_.begin(), values_.end(), 0.0); }

    // Set best_ to the best labelings of all chains, and return the sum of their scores.
    double find_best(const std::vector<float>& unary) {
        best_.resize(n_rows());
        dense_kernels->max_product(chains(unary), best_.data(), values_.data());
        return total();
    }

    // Return the sum of f() over the chains.
    template <class F> double each_chain(F f) {
        double sum = 0;
        for (chain_ = 0; chain_ < m_.chains; ++chain_) sum += f();
        chain_ = 0;
        return sum;
    }

    // Return the gold labeling of the chain.
    const int* gold_tags() const { return gold_.data() + of_chain(); }

    // Fill the list with the n best labelings, or those of a beam.
    void search(int n) {
        const Batch<float> one = batch(unary_);
        list_.tags.resize(size_t(n) * length_);
        list_.scores.assign(n, 0);
        found_scores_.assign(n, -infinity<float>);
        if (m_.options.beam)
            dense_kernels->beam_search(one, n, m_.options.beam, list_.tags.data(), found_scores_.data());
        else
            dense_kernels->nbest(one, n, list_.tags.data(), found_scores_.data());
        for (list_.found = 0; list_.found < n && found_scores_[list_.found] > -infinity<float>; ++list_.found)
            list_.scores[list_.found] = score_labeling(list_.tags.data() + size_t(list_.found) * length_);
    }

    double score_labeling(const int* tags) const { return path_score(sequence(unary_), tags, 0, length_); }

    // Return the Fenchel-Young loss of a CRF or Bregman CRF (Corro et al. 2025, section 5).
    double fenchel_young(bool complete, double gold) {
        double value = 0;
        if (!complete) {
            value = -expect(restricted_, true);
            for (float& x : node) x = -x;
            for (double& x : edge) x = -x;
            const std::vector<float> target = node;
            value += expect(unary_, false);
            for (size_t k = 0; k < target.size(); ++k) node[k] += target[k];
            return value;
        }
        value = expect(unary_, false) - gold;
        each_chain([&] { return add_labeling(gold_tags(), -1), 0; });
        return value;
    }

    PairWeights pair_weights() const {
        return {m_.v.row(m_.first_feature()), m_.stride, m_.pairs.data(), m_.tags, float(m_.scale)};
    }

    bool is_allowed(int i, int t) const { return restricted_[size_t(i) * m_.tags + t] > -infinity<float>; }

    // Add `times` the marginals of the second-order chain on kept_ to the gradient. Return its
    // log-partition.
    double expect_pairs(double times) {
        const double z = second_order_.run(sequence(unary_), pair_weights(), kept_);
        second_order_.marginals(
            [&](int i, int a, int b, double p) {
                node[size_t(i) * m_.tags + b] += float(times * p);
                if (i == 1) node[a] += float(times * p);
                edge[size_t(a) * m_.tags + b] += times * p;
            },
            [&](int row, int c, double p) { triples.push_back({row, c, times * p}); });
        return z;
    }

    // Return the loss of a second-order CRF on the tags whose first-order marginal is large enough,
    // without or with the restriction to gold. `target` is the gold labeling, or the best one under
    // partial gold, whose tags are kept. pay(rows): see `differentiate`.
    template <class Pay> double second_order(bool complete, const int* target, Pay pay) {
        const int T = m_.tags;
        const auto likely = [&](int i, int t) { return node[size_t(i) * T + t] >= m_.least; };
        std::vector<char> keep(size_t(length_) * T);
        const auto mark = [&] {
            for (int i = 0; i < length_; ++i)
                for (int t = 0; t < T; ++t)
                    if (likely(i, t) || target[i] == t) keep[size_t(i) * T + t] = 1;
        };
        expect(unary_, false);
        mark();
        if (complete)
            restrict_to_gold();
        else {
            expect(restricted_, false);
            mark();
        }
        std::fill(node.begin(), node.end(), 0.f);
        std::fill(edge.begin(), edge.end(), 0.0);
        triples.clear();
        const auto kept = [&](int i, int t) { return keep[size_t(i) * T + t] != 0; };
        kept_.load(length_, T, kept);
        pair_rows.clear();
        const int shift = int(m_.first_feature());
        for (int i = 0; i + 1 < length_; ++i)
            for (int k = 0; k < kept_.count(i); ++k)
                for (int h = 0; h < (i ? kept_.count(i - 1) : 1); ++h)
                    pair_rows.push_back(
                        shift + pair_weights().row(i ? kept_.of(i - 1)[h] : T, kept_.of(i)[k]));
        pay(pair_rows);
        const double value = expect_pairs(1);
        kept_.load(length_, T, [&](int i, int t) { return kept(i, t) && is_allowed(i, t); });
        return value - expect_pairs(-1);
    }

    // Return the loss of Wang et al. (2020), whose gradient runs through all updates.
    double mean_field() {
        const Outputs<float> outputs{values_.data(), node.data(), edge.data(), nullptr, gold_.data()};
        dense_kernels->mean_field(chains(unary_), m_.options.n_iter, outputs);
        // The loss does not depend on the scores of forbidden transitions.
        for (size_t k = 0; k < edge.size(); ++k)
            if (transitions_[k] == -infinity<float>) edge[k] = 0;
        return total();
    }

    // Return the log-partition of the n-best list minus the gold score. This is negative if gold is
    // not in the list and scores higher. The gradient is that of Sun et al., Algorithm 1.
    double sapo() {
        const double gold = score_labeling(gold_tags());
        search(m_.options.n);
        if (!list_.found) return 0;
        const double top = list_.scores[0];
        double sum = 0;
        for (int k = 0; k < list_.found; ++k) sum += std::exp(list_.scores[k] - top);
        for (int k = 0; k < list_.found; ++k)
            add_labeling(list_.tags.data() + size_t(k) * length_,
                         std::exp(list_.scores[k] - top) / sum);
        add_labeling(gold_tags(), -1);
        return top + std::log(sum) - gold;
    }

    double perceptron(double gold) {
        const double value = find_best(unary_) - gold;
        each_chain([&] {
            add_labeling(best_.data() + of_chain(), 1);
            return add_labeling(gold_tags(), -1), 0;
        });
        return value;
    }

    // Set the gradient to the smallest change of the weights for which each labeling of the n-best
    // list scores less than gold by its number of wrong tags (Crammer and Singer; McDonald et al.
    // 2005). The multipliers are at most `rate`. Return the largest violation.
    double mira(double rate) {
        const int* gold_labeling = gold_tags();
        const double gold = score_labeling(gold_labeling);
        const size_t first = size_t(chain_) * m_.tags;
        search(m_.options.n);
        quadratic_.clear();
        double worst = 0;
        for (int k = 0; k < list_.found; ++k) {
            const int* tags = list_.tags.data() + size_t(k) * length_;
            int wrong = 0;
            for (int i = 0; i < length_; ++i) wrong += tags[i] != gold_labeling[i];
            const double violation = wrong - (gold - list_.scores[k]);
            worst = violation > worst ? violation : worst;
            if (!wrong) continue;
            quadratic_.begin(violation);
            for (int i = 0; i < length_; ++i) {
                if (tags[i] != gold_labeling[i]) {
                    const int n = rows.find(i);
                    for (int r = 0; r < n; ++r) {
                        const size_t row = rows.of_token[r] * m_.stride + first;
                        quadratic_.add(row + tags[i], 1);
                        quadratic_.add(row + gold_labeling[i], -1);
                    }
                }
                if (i && (tags[i] != gold_labeling[i] || tags[i - 1] != gold_labeling[i - 1])) {
                    quadratic_.add(tags[i - 1] * m_.stride + tags[i], 1);
                    quadratic_.add(gold_labeling[i - 1] * m_.stride + gold_labeling[i], -1);
                }
            }
            quadratic_.end();
        }
        const std::vector<double>& steps = quadratic_.solve(rate);
        for (int k = 0, j = 0; k < list_.found; ++k) {
            const int* tags = list_.tags.data() + size_t(k) * length_;
            if (std::equal(tags, tags + length_, gold_labeling)) continue;
            add_labeling(tags, steps[j]);
            add_labeling(gold_labeling, -steps[j++]);
        }
        return worst;
    }

  public:
    struct Triple {
        int row, tag;
        double gradient;
    };
    FeatureRows rows;
    std::vector<float> node;      // the gradient, by chain and token
    std::vector<double> edge;     // (tags, tags)
    std::vector<Triple> triples;  // by the weights of the rows of pairs of kept tags
    std::vector<int> pair_rows;   // these rows

    explicit Objectives(const Model& model)
        : m_(model), values_(model.chains), transitions_(size_t(model.tags) * model.tags), rows(model),
          edge(size_t(model.tags) * model.tags) {}

    // Take the sequence of the next step.
    void set(const Sequences& data, size_t first, int length) {
        rows.set(data, first, length);
        data_ = &data;
        start_ = first * m_.chains;
        length_ = length;
        lengths_.assign(m_.chains, length);
        triples.clear();
        pair_rows.clear();
    }

    // Compute the scores of the sequence. Return false if they have diverged.
    bool score() {
        const int T = m_.tags, W = m_.width();
        const float scale = float(m_.scale);
        scores_.resize(size_t(length_) * W + m_.stride);
        for (int i = 0; i < std::min(2, length_); ++i) rows.prefetch_rows(m_.v, i);
        float total = 0;
        for (int i = 0; i < length_; ++i) {
            if (i + 2 < length_) rows.prefetch_rows(m_.v, i + 2);
            // The sum has `stride` numbers. The next token overwrites the numbers beyond W.
            float* unary = scores_.data() + size_t(i) * W;
            const int* features = rows.features(i);
            sum_rows(unary, m_.stride, rows.count(i), [&](std::int64_t k) {
                return m_.v.row(m_.first_feature() + features[k]);
            });
            const float* bias = m_.v.row(m_.bias());
            for (int t = 0; t < W; ++t) {
                if (i == 0) unary[t] += bias[m_.stride + t];
                if (i == length_ - 1) unary[t] += bias[2 * m_.stride + t];
                unary[t] = (unary[t] + bias[t]) * scale;
                total += unary[t] > 0 ? unary[t] : -unary[t];
            }
        }
        for (int u = 0; u < T; ++u) {
            const float* row = m_.v.row(u);
            for (int v = 0; v < T; ++v) {
                transitions_[size_t(u) * T + v] = row[v] * scale;
                total += std::abs(row[v] * scale);
            }
        }
        if (!(total < LearnerLimits::DIVERGED)) return false;
        if (m_.chains == 1) {
            unary_.swap(scores_);
        } else {
            unary_.resize(size_t(length_) * W);
            by_chain([&](size_t of_chain, size_t of_token) { unary_[of_chain] = scores_[of_token]; });
        }
        restrict_to_constraints();
        return true;
    }

    // Call copy(k, j) for each place k by chain and token, and its place j by token and chain.
    template <class Copy> void by_chain(Copy copy) const {
        const size_t T = m_.tags, W = m_.width();
        size_t k = 0;
        for (size_t c = 0; c < size_t(m_.chains); ++c)
            for (size_t i = 0; i < size_t(length_); ++i)
                for (size_t t = 0; t < T; ++t, ++k) copy(k, i * W + c * T + t);
    }

    // Set `value` to the loss and node, edge and triples to its gradient. Return false if gold is unknown or forbidden.
    // pay(rows): let rows of weights pay their penalties before they are read.
    template <class Pay> bool differentiate(double& value, Pay pay) {
        const bool is_fenchel_young = m_.options.objective == Objective::crf ||
                                      m_.options.objective == Objective::bcrf;
        gold_.assign(n_rows(), -1);
        bool complete = !data_->allowed;
        if (data_->gold)
            for (size_t i = 0; i < n_rows(); ++i) {
                gold_[i] = data_->gold[start_ + i];
                complete = complete && gold_[i] >= 0;
            }
        if (!complete) {
            if (!restrict_to_gold()) return false;
            if (find_best(restricted_) == -infinity<double>) return false;
            if (m_.options.objective == Objective::mean_field) check_complete();
            if (!is_fenchel_young) gold_ = best_;
        }
        node.assign(n_rows() * m_.tags, 0);
        edge.assign(size_t(m_.tags) * m_.tags, 0);
        double gold = 0;
        if (!is_fenchel_young || complete) {
            gold = each_chain([&] { return score_labeling(gold_tags()); });
            if (gold == -infinity<double>) return false;
        }
        switch (m_.options.objective) {
            case Objective::crf:
            case Objective::bcrf:
                value = m_.pairs.empty() || length_ < 2
                            ? fenchel_young(complete, gold)
                            : second_order(complete, complete ? gold_.data() : best_.data(), pay);
                break;
            case Objective::mean_field: value = mean_field(); break;
            case Objective::sapo: value = each_chain([&] { return sapo(); }); break;
            case Objective::perceptron: value = perceptron(gold); break;
            default: value = each_chain([&] { return mira(m_.rate()); });
        }
        return true;
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
