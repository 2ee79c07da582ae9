// One online step for each sequence: scores, the objective's gradient, and the update of its rows.
#pragma once

#include <numeric>

#include "../features.hh"
#include "../interrupt.hh"
#include "kernels.hh"
#include "model.hh"
#include "quadratic.hh"
#include "rows.hh"
#include "second_order.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A learner has diverged when the absolute scores of a sequence sum to this: the spacing of floats
// is then larger than any step.
constexpr float diverged = 1e12f;

// A step leaves out the rows whose gradient has no larger component. Late in training most tokens are
// certain and have gradients near 0, whose updates would take most of the time. MIRA has no such limit:
// its gradients are steps of any size.
constexpr double negligible = 1e-4;

// The n best labelings of a sequence.
struct BestList {
    int found = 0;
    std::vector<int> tags;       // (n, length)
    std::vector<double> scores;  // (n), in descending order
};

class Online {
    Model& m_;
    // Arrays by chain and token: (chains, length, tags). A token's row of all chains is in scores_ and changes_.
    std::vector<float> scores_, changes_, values_;
    std::vector<int> lengths_;
    int chain_ = 0;
    std::vector<float> unary_, transitions_, node_, change_, late_, gradient_;
    std::vector<double> edge_;
    std::vector<int> gold_, best_, features_, changed_;
    std::vector<float> restricted_;
    BestList list_;
    std::vector<float> found_scores_;
    SecondOrder second_order_;
    KeptTags kept_;
    std::vector<int> pair_rows_;  // the rows of the pairs of kept tags
    struct Triple {
        int row, tag;
        double gradient;
    };
    std::vector<Triple> triples_;
    Quadratic quadratic_;
    const Sequences* data_ = nullptr;
    size_t tokens_ = 0, start_ = 0;  // of the sequence, in features and in the rows of all chains
    int length_ = 0;

    // Set features_ to the rows of token i: bias, start, end, then features. Return their number.
    int rows_of(int i) {
        const std::int64_t from = data_->starts[tokens_ + i], to = data_->starts[tokens_ + i + 1];
        features_.clear();
        features_.push_back(m_.bias());
        if (i == 0) features_.push_back(m_.bias() + 1);
        if (i == length_ - 1) features_.push_back(m_.bias() + 2);
        const int shift = int(m_.first_feature());
        for (std::int64_t k = from; k < to; ++k) features_.push_back(data_->rows[k] + shift);
        return int(features_.size());
    }

    void prefetch_rows(const Table& table, int i) {
        const std::int64_t to = data_->starts[tokens_ + i + 1];
        for (std::int64_t k = data_->starts[tokens_ + i]; k < to; ++k) {
            const float* row = table.row(data_->rows[k] + m_.first_feature());
            prefetch(row, m_.stride);
        }
    }

    void forbid(float* unary, const unsigned char* allowed) {
        for (int t = 0; t < m_.tags; ++t)
            if (!allowed[t]) unary[t] = -infinity<float>;
    }

    // Compute the scores of the sequence. Return false if they have diverged.
    bool score() {
        const int T = m_.tags, W = m_.width();
        const float scale = float(m_.scale);
        scores_.resize(size_t(length_) * W + m_.stride);
        for (int i = 0; i < std::min(2, length_); ++i) prefetch_rows(m_.v, i);
        float total = 0;
        for (int i = 0; i < length_; ++i) {
            if (i + 2 < length_) prefetch_rows(m_.v, i + 2);
            // The sum has `stride` numbers. The next token overwrites the numbers beyond W.
            float* unary = scores_.data() + size_t(i) * W;
            const std::int64_t from = data_->starts[tokens_ + i], to = data_->starts[tokens_ + i + 1];
            const int* rows = data_->rows + from;
            sum_rows(unary, m_.stride, to - from, [&](std::int64_t k) {
                return m_.v.row(m_.first_feature() + rows[k]);
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
        if (!(total < diverged)) return false;
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
    template <class Copy> void by_chain(Copy copy) {
        const size_t T = m_.tags, W = m_.width();
        size_t k = 0;
        for (size_t c = 0; c < size_t(m_.chains); ++c)
            for (size_t i = 0; i < size_t(length_); ++i)
                for (size_t t = 0; t < T; ++t, ++k) copy(k, i * W + c * T + t);
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
            node_[(of_chain() + i) * T + tags[i]] += float(weight);
            if (i) edge_[tags[i - 1] * T + tags[i]] += weight;
        }
    }

    // Set node_ and edge_ to the marginals of a CRF or Bregman CRF. Return the log-partition: of a
    // Bregman CRF a bound, from below if `lower`, so that the loss is not negative.
    double expect(const std::vector<float>& unary, bool lower) {
        const Batch<float> all = chains(unary);
        const Outputs<float> outputs{values_.data(), node_.data(), edge_.data()};
        if (m_.options.objective == Objective::crf) {
            dense_kernels->sum_product(all, outputs);
        } else {
            // The defaults of chain.BCRF.
            const BregmanOptions options{m_.options.n_iter, 1.25, -1, lower, projection::MEAN, 1};
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
            for (float& x : node_) x = -x;
            for (double& x : edge_) x = -x;
            const std::vector<float> target = node_;
            value += expect(unary_, false);
            for (size_t k = 0; k < target.size(); ++k) node_[k] += target[k];
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
                node_[size_t(i) * m_.tags + b] += float(times * p);
                if (i == 1) node_[a] += float(times * p);
                edge_[size_t(a) * m_.tags + b] += times * p;
            },
            [&](int row, int c, double p) { triples_.push_back({row, c, times * p}); });
        return z;
    }

    // Return the loss of a second-order CRF on the tags whose first-order marginal is large enough,
    // without or with the restriction to gold. `target` is the gold labeling, or the best one under
    // partial gold, whose tags are kept.
    double second_order(bool complete, const int* target) {
        const int T = m_.tags;
        const auto likely = [&](int i, int t) { return node_[size_t(i) * T + t] >= m_.least; };
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
        std::fill(node_.begin(), node_.end(), 0.f);
        std::fill(edge_.begin(), edge_.end(), 0.0);
        triples_.clear();
        const auto kept = [&](int i, int t) { return keep[size_t(i) * T + t] != 0; };
        kept_.load(length_, T, kept);
        pair_rows_.clear();
        const int shift = int(m_.first_feature());
        for (int i = 0; i + 1 < length_; ++i)
            for (int k = 0; k < kept_.count(i); ++k)
                for (int h = 0; h < (i ? kept_.count(i - 1) : 1); ++h)
                    pair_rows_.push_back(
                        shift + pair_weights().row(i ? kept_.of(i - 1)[h] : T, kept_.of(i)[k]));
        if (m_.options.l1 > 0) {
            const Model::LastPayment now = last_step();
            for (int row : pair_rows_) pay(size_t(row), now);
        }
        const double value = expect_pairs(1);
        kept_.load(length_, T, [&](int i, int t) { return kept(i, t) && is_allowed(i, t); });
        return value - expect_pairs(-1);
    }

    // Take a gradient step on the rows of pairs of tags.
    void update_pairs(float by) {
        const auto before = [](const Triple& a, const Triple& b) {
            return a.row != b.row ? a.row < b.row : a.tag < b.tag;
        };
        std::sort(triples_.begin(), triples_.end(), before);
        std::vector<double> gradient(m_.tags);
        for (size_t k = 0; k < triples_.size();) {
            const int row = triples_[k].row;
            std::fill(gradient.begin(), gradient.end(), 0.0);
            for (; k < triples_.size() && triples_[k].row == row; ++k)
                gradient[triples_[k].tag] += triples_[k].gradient;
            const int at = row + int(m_.first_feature());
            if (!is_negligible(gradient.data(), m_.tags)) apply(gradient.data(), m_.tags, by, &at, 1);
        }
    }

    // Return the loss of Wang et al. (2020), whose gradient runs through all updates.
    double mean_field() {
        const Outputs<float> outputs{values_.data(), node_.data(), edge_.data(), nullptr, gold_.data()};
        dense_kernels->mean_field(chains(unary_), m_.options.n_iter, outputs);
        // The loss does not depend on the scores of forbidden transitions.
        for (size_t k = 0; k < edge_.size(); ++k)
            if (transitions_[k] == -infinity<float>) edge_[k] = 0;
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
                    const int n = rows_of(i);
                    for (int r = 0; r < n; ++r) {
                        const size_t row = features_[r] * m_.stride + first;
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

    template <class R> bool is_negligible(const R* gradient, int n) const {
        const double least = m_.options.objective == Objective::mira ? 0 : negligible;
        for (int t = 0; t < n; ++t)
            if (std::abs(gradient[t]) > least) return false;
        return true;
    }

    // Take a gradient step on the rows of the sequence.
    void update(double rate) {
        const size_t T = m_.tags, W = m_.width();
        change_.assign(m_.stride, 0);
        late_.assign(m_.stride, 0);
        gradient_.assign(m_.stride, 0);
        changed_.clear();
        if (m_.chains == 1) {
            changes_.swap(node_);
        } else {
            changes_.resize(length_ * W);
            by_chain([&](size_t of_chain, size_t of_token) { changes_[of_token] = node_[of_chain]; });
        }
        for (int i = 0; i < length_; ++i)
            if (!is_negligible(changes_.data() + i * W, int(W))) changed_.push_back(i);
        const float by = float(-rate / m_.scale);
        for (size_t k = 0; k < changed_.size(); ++k) {
            // The scores have brought the weights into the cache, but not the other tables.
            if (k == 0) prefetch_changes(changed_[0]);
            if (k + 1 < changed_.size()) prefetch_changes(changed_[k + 1]);
            const int n = rows_of(changed_[k]);
            apply(changes_.data() + changed_[k] * W, int(W), by, features_.data(), n);
        }
        // All chains share the transitions. A step of their sum would be too long for many chains.
        for (double& x : edge_) x /= m_.chains;
        for (int u = 0; u < m_.tags; ++u)
            if (!is_negligible(edge_.data() + u * T, int(T))) apply(edge_.data() + u * T, int(T), by, &u, 1);
        update_pairs(by);
    }

    void prefetch_changes(int i) {
        if (m_.options.averaged) prefetch_rows(m_.late, i);
        if (m_.options.adagrad) prefetch_rows(m_.squares, i);
    }

    // Add `by` times the gradient (width) to each of n rows.
    template <class R> void apply(const R* gradient, int width, float by, const int* rows, int n) {
        if (m_.options.adagrad) {
            std::fill(gradient_.begin() + width, gradient_.end(), 0.f);
            for (int t = 0; t < width; ++t) gradient_[t] = float(gradient[t]);
            for (int r = 0; r < n; ++r) m_.adapt(rows[r], gradient_.data(), by);
            return;
        }
        const float mass = float(m_.mass);
        std::fill(change_.begin() + width, change_.end(), 0.f);
        std::fill(late_.begin() + width, late_.end(), 0.f);
        for (int t = 0; t < width; ++t) change_[t] = float(gradient[t]) * by;
        for (int t = 0; t < width; ++t) late_[t] = change_[t] * mass;
        add_to_rows(m_.v.row(0), m_.stride, rows, n, change_.data());
        if (m_.options.averaged) add_to_rows(m_.late.row(0), m_.stride, rows, n, late_.data());
    }

    // Call use(row) for all rows of the sequence.
    template <class Use> void for_each_row(Use use) {
        for (int u = 0; u < m_.tags; ++u) use(size_t(u));
        for (int row : pair_rows_) use(size_t(row));
        for (int i = 0; i < length_; ++i) {
            if (i == 0) prefetch_payments(0);
            if (i + 1 < length_) prefetch_payments(i + 1);
            const int n = rows_of(i);
            for (int r = 0; r < n; ++r) use(size_t(features_[r]));
        }
    }

    // Model::pay_now in vectors.
    BCRF_INLINE void pay_in_vectors(size_t row) {
        float *weight = m_.v.row(row), *payment = m_.paid.row(row), *past = m_.past_of(row);
        const float* square = m_.squares_of(row);
        for (size_t t = 0; t < m_.stride; t += 8) {
            Lane w = load_lane(weight + t), paid = load_lane(payment + t), late{};
            if (past) late = load_lane(past + t);
            pay_l1(w, paid, late, roots(square, t), float(m_.penalty), float(m_.mass));
            std::memcpy(weight + t, &w, sizeof w);
            std::memcpy(payment + t, &paid, sizeof paid);
            if (past) std::memcpy(past + t, &late, sizeof late);
        }
    }

    // Model::pay_late in vectors, for a row whose weights have all paid at its last use and stay on their side
    // of 0. Else return false, and change nothing: a first pass looks at all weights.
    BCRF_INLINE bool pay_late_in_vectors(size_t row, Model::LastPayment last, Model::LastPayment now) {
        float *weight = m_.v.row(row), *payment = m_.paid.row(row), *past = m_.past_of(row);
        const float* square = m_.squares_of(row);
        const Lane none{}, one = none + 1.f;
        const float due = now.goal - last.goal, lag = float(now.lag - last.lag);
        Lane exceptions{};
        for (size_t t = 0; t < m_.stride; t += 8) {
            const Lane w = load_lane(weight + t), sign = w < none ? -one : one;
            const Lane since = -sign * load_lane(payment + t), left = sign * w - due / roots(square, t);
            const Lane exception = since == last.goal ? (left > none ? none : one) : one;
            exceptions += w != none ? (since < now.goal ? exception : none) : none;
        }
        for (int k = 0; k < 8; ++k)
            if (exceptions[k] > 0) return false;
        for (size_t t = 0; t < m_.stride; t += 8) {
            const Lane w = load_lane(weight + t), sign = w < none ? -one : one, root = roots(square, t);
            const Lane paid = load_lane(payment + t), late = load_lane(past + t);
            const Lane owes = w != none ? (-sign * paid < now.goal ? one : none) : none;
            const Lane left = w - owes * sign * (due / root), total = owes * sign * (lag / root);
            const Lane goal = owes > none ? -sign * now.goal : paid, then = late - total;
            std::memcpy(weight + t, &left, sizeof left);
            std::memcpy(payment + t, &goal, sizeof goal);
            std::memcpy(past + t, &then, sizeof then);
        }
        return true;
    }

    // Return the divisors of AdaGrad from weight t of a row on, or 1. square: the row's, or null.
    static BCRF_INLINE Lane roots(const float* square, size_t t) {
        Lane root = Lane{} + 1.f;
        if (!square) return root;
        root += load_lane(square + t);
        for (int k = 0; k < 8; ++k) root[k] = std::sqrt(root[k]);
        return root;
    }

    // Model::pay in vectors. now: the penalty up to now, and the lag there.
    void pay(size_t row, Model::LastPayment now) {
        if (!m_.options.averaged) return pay_in_vectors(row);
        if (m_.last_payments[row].goal == now.goal) return;
        if (!pay_late_in_vectors(row, m_.last_payments[row], now)) m_.pay(row);
        m_.last_payments[row] = now;
    }

    Model::LastPayment last_step() const { return {float(m_.penalty), m_.lag_at(float(m_.penalty))}; }

    void prefetch_payments(int i) {
        prefetch_rows(m_.v, i);
        prefetch_rows(m_.paid, i);
        if (m_.options.adagrad) prefetch_rows(m_.squares, i);
        if (m_.options.averaged) prefetch_rows(m_.late, i);
    }

    // Shrink the weights, after the gradient step as in Algorithm 1 of Sun et al.
    void regularize() {
        const double rate = m_.rate() / m_.options.n_sequences;
        m_.scale *= 1 - rate * m_.options.l2;
        if (m_.options.l1 > 0) {
            m_.penalty += rate * m_.options.l1 / m_.scale;
            const Model::LastPayment now{float(m_.penalty), m_.lag_now()};
            for_each_row([&](size_t row) {
                pay_in_vectors(row);
                if (m_.options.averaged) m_.last_payments[row] = now;
            });
        }
    }

  public:
    explicit Online(Model& model)
        : m_(model), values_(model.chains), transitions_(size_t(model.tags) * model.tags),
          edge_(size_t(model.tags) * model.tags) {}

    // Take a step and add the loss to `loss`. Return false, without a step, if the learner has
    // diverged, because the rate is too high. A sequence whose gold is unknown or forbidden takes
    // no step: no weight shrinks, and neither the rate nor the average counts it.
    bool step(const Sequences& data, size_t start, int length, double& loss) {
        if (length == 0) return true;
        data_ = &data;
        tokens_ = start;
        start_ = start * m_.chains;
        length_ = length;
        lengths_.assign(m_.chains, length);
        triples_.clear();
        pair_rows_.clear();
        if (m_.options.l1 > 0) for_each_row([&, now = last_step()](size_t row) { pay(row, now); });
        if (!score()) return false;
        const bool is_fenchel_young = m_.options.objective == Objective::crf ||
                                      m_.options.objective == Objective::bcrf;
        gold_.assign(n_rows(), -1);
        bool complete = !data.allowed;
        if (data.gold)
            for (size_t i = 0; i < n_rows(); ++i) {
                gold_[i] = data.gold[start_ + i];
                complete = complete && gold_[i] >= 0;
            }
        if (!complete) {
            if (!restrict_to_gold()) return true;
            if (find_best(restricted_) == -infinity<double>) return true;
            if (m_.options.objective == Objective::mean_field) check_complete();
            if (!is_fenchel_young) gold_ = best_;
        }
        node_.assign(n_rows() * m_.tags, 0);
        edge_.assign(size_t(m_.tags) * m_.tags, 0);
        double value, gold = 0, rate = m_.rate();
        if (!is_fenchel_young || complete) {
            gold = each_chain([&] { return score_labeling(gold_tags()); });
            if (gold == -infinity<double>) return true;
        }
        switch (m_.options.objective) {
            case Objective::crf:
            case Objective::bcrf:
                value = m_.pairs.empty() || length < 2
                            ? fenchel_young(complete, gold)
                            : second_order(complete, complete ? gold_.data() : best_.data());
                break;
            case Objective::mean_field: value = mean_field(); break;
            case Objective::sapo: value = each_chain([&] { return sapo(); }); break;
            case Objective::perceptron: value = perceptron(gold); break;
            default: value = each_chain([&] { return mira(rate); }); rate = 1;
        }
        if (!(std::abs(value) < diverged)) return false;
        loss += value;
        update(rate);
        regularize();
        m_.end_step();
        return true;
    }
};

// Take a step for each of the n sequences of `order`. Sequence k starts at token offsets[k]. Set
// `done` to the number of steps, which is n unless the learner diverged. Throw Interrupted between two
// steps if a signal handler raises an exception, or if another thread stops the model.
inline void learn(Model& model, const Sequences& data, const std::int64_t* offsets,
                  const int* order, int n, double& loss, int& done) {
    FlushDenormals flush;
    Call call;
    Scope scope(call, true);
    Online online(model);
    for (done = 0; done < n; ++done) {
        check_signals();
        if (model.stopped) throw Interrupted();
        const std::int64_t start = offsets[order[done]];
        if (!online.step(data, size_t(start), int(offsets[order[done] + 1] - start), loss)) return;
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
