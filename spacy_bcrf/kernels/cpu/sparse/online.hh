// One online step for each sequence: scores, the objective's gradient, and the update of its rows.
#pragma once

#include "../crf.hh"
#include "model.hh"
#include "nbest.hh"
#include "prefetch.hh"
#include "quadratic.hh"
#include "rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A learner has diverged when the absolute scores of a sequence sum to this: the spacing of floats
// is then larger than any step.
constexpr float diverged = 1e12f;

class Online {
    Model& m_;
    std::vector<float> unary_, free_, transitions_, node_, change_, late_;
    std::vector<double> edge_;
    std::vector<int> gold_, best_, features_;
    std::vector<float> restricted_;
    BestList list_;
    Quadratic quadratic_;
    const Sequences* data_ = nullptr;
    size_t start_ = 0;
    int length_ = 0;

    // Set features_ to the rows of token i: bias, start, end, then features. Return their number.
    int rows_of(int i) {
        const std::int64_t from = data_->starts[start_ + i], to = data_->starts[start_ + i + 1];
        features_.clear();
        features_.push_back(m_.bias());
        if (i == 0) features_.push_back(m_.bias() + 1);
        if (i == length_ - 1) features_.push_back(m_.bias() + 2);
        const int shift = int(m_.first_feature());
        for (std::int64_t k = from; k < to; ++k) features_.push_back(data_->rows[k] + shift);
        return int(features_.size());
    }

    void prefetch_rows(int i) {
        if (i >= length_) return;
        const std::int64_t to = data_->starts[start_ + i + 1];
        for (std::int64_t k = data_->starts[start_ + i]; k < to; ++k) {
            const float* row = m_.v.row(data_->rows[k] + m_.first_feature());
            for (size_t j = 0; j < m_.stride; j += 16) prefetch(row + j);
        }
    }

    void forbid(float* unary, const unsigned char* allowed) {
        for (int t = 0; t < m_.tags; ++t)
            if (!allowed[t]) unary[t] = -infinity<float>;
    }

    // Compute the scores of the sequence. Return false if they have diverged.
    bool score() {
        const int T = m_.tags;
        const float scale = float(m_.scale);
        unary_.resize(size_t(length_) * T + m_.stride);
        prefetch_rows(0);
        prefetch_rows(1);
        float total = 0;
        for (int i = 0; i < length_; ++i) {
            prefetch_rows(i + 2);
            const int n = rows_of(i);
            // The sum has `stride` numbers. The next token overwrites the numbers beyond T.
            float* unary = unary_.data() + size_t(i) * T;
            sum_rows(unary, m_.v.row(0), m_.stride, features_.data(), n);
            for (int t = 0; t < T; ++t) {
                unary[t] *= scale;
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
        restrict_to_constraints();
        return true;
    }

    void restrict_to_constraints() {
        const size_t T = m_.tags;
        if (!m_.transitions.empty()) {
            for (size_t k = 0; k < T * T; ++k)
                if (!m_.transitions[k]) transitions_[k] = -infinity<float>;
            forbid(unary_.data(), m_.start.data());
            forbid(unary_.data() + (length_ - 1) * T, m_.end.data());
        }
        if (data_->open)
            for (int i = 0; i < length_; ++i)
                forbid(unary_.data() + i * T, data_->open + (start_ + i) * T);
    }

    Sequence<float> sequence(const std::vector<float>& unary) const {
        return {unary.data(), transitions_.data(), length_, m_.tags, true};
    }

    Batch<float> batch(const std::vector<float>& unary) const {
        return {unary.data(), transitions_.data(), &length_, 1, m_.tags, true};
    }

    // Set restricted_ to the scores under partial gold. Return false if gold forbids no tag that
    // the constraints allow.
    bool restrict_to_gold() {
        const size_t T = m_.tags;
        restricted_.assign(unary_.begin(), unary_.begin() + length_ * T);
        bool restricts = false;
        for (int i = 0; i < length_; ++i) {
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

    void add_labeling(const int* tags, double weight) {
        const size_t T = m_.tags;
        for (int i = 0; i < length_; ++i) {
            node_[i * T + tags[i]] += float(weight);
            if (i) edge_[tags[i - 1] * T + tags[i]] += weight;
        }
    }

    // Set node_ and edge_ to the marginals and return the log-partition.
    double expect(const std::vector<float>& unary) {
        float value;
        Batch<float> one = batch(unary);
        BCRF_TARGET::sum_product<float>(one, &value, node_.data(), edge_.data(), nullptr);
        return value;
    }

    // Write the best labeling and return its score.
    double best(const std::vector<float>& unary, int* tags) {
        float value;
        BCRF_TARGET::max_product<float>(batch(unary), tags, &value);
        return value;
    }

    void search(int n) {
        const Batch<float> one = batch(unary_);
        if (m_.options.beam)
            search_list(Beam<float>(one, m_.options.beam, length_), sequence(unary_), n, list_);
        else
            search_list(NBest<float>(one, n, length_), sequence(unary_), n, list_);
    }

    double crf(bool complete) {
        double value = 0;
        if (!complete) {
            value = -expect(restricted_);
            for (float& x : node_) x = -x;
            for (double& x : edge_) x = -x;
            const std::vector<float> target = node_;
            value += expect(unary_);
            for (size_t k = 0; k < target.size(); ++k) node_[k] += target[k];
            return value;
        }
        value = expect(unary_) - score_labeling(sequence(unary_), gold_.data());
        add_labeling(gold_.data(), -1);
        return value;
    }

    // Return the log-partition of the n-best list minus the gold score. This is negative if gold is
    // not in the list and scores higher. The gradient is that of Sun et al., Algorithm 1.
    double sapo(double gold) {
        search(m_.options.n);
        if (!list_.found) return 0;
        const double top = list_.scores[0];
        double sum = 0;
        for (int k = 0; k < list_.found; ++k) sum += std::exp(list_.scores[k] - top);
        for (int k = 0; k < list_.found; ++k)
            add_labeling(list_.tags.data() + size_t(k) * length_,
                         std::exp(list_.scores[k] - top) / sum);
        add_labeling(gold_.data(), -1);
        return top + std::log(sum) - gold;
    }

    double perceptron(double gold) {
        best_.resize(length_);
        const double value = best(unary_, best_.data()) - gold;
        add_labeling(best_.data(), 1);
        add_labeling(gold_.data(), -1);
        return value;
    }

    // Set the gradient to the smallest change of the weights for which each labeling of the n-best
    // list scores less than gold by its number of wrong tags (Crammer and Singer; McDonald et al.
    // 2005). The multipliers are at most `rate`. Return the largest violation.
    double mira(double gold, double rate) {
        search(m_.options.n);
        quadratic_.clear();
        double worst = 0;
        for (int k = 0; k < list_.found; ++k) {
            const int* tags = list_.tags.data() + size_t(k) * length_;
            int wrong = 0;
            for (int i = 0; i < length_; ++i) wrong += tags[i] != gold_[i];
            const double violation = wrong - (gold - list_.scores[k]);
            worst = violation > worst ? violation : worst;
            if (!wrong) continue;
            quadratic_.begin(violation);
            for (int i = 0; i < length_; ++i) {
                if (tags[i] != gold_[i]) {
                    const int n = rows_of(i);
                    for (int r = 0; r < n; ++r) {
                        quadratic_.add(features_[r] * m_.stride + tags[i], 1);
                        quadratic_.add(features_[r] * m_.stride + gold_[i], -1);
                    }
                }
                if (i && (tags[i] != gold_[i] || tags[i - 1] != gold_[i - 1])) {
                    quadratic_.add(tags[i - 1] * m_.stride + tags[i], 1);
                    quadratic_.add(gold_[i - 1] * m_.stride + gold_[i], -1);
                }
            }
            quadratic_.end();
        }
        const std::vector<double>& steps = quadratic_.solve(rate);
        for (int k = 0, j = 0; k < list_.found; ++k) {
            const int* tags = list_.tags.data() + size_t(k) * length_;
            if (std::equal(tags, tags + length_, gold_.begin())) continue;
            add_labeling(tags, steps[j]);
            add_labeling(gold_.data(), -steps[j++]);
        }
        return worst;
    }

    // Take a gradient step on the rows of the sequence.
    void update(double rate) {
        const size_t T = m_.tags;
        change_.assign(m_.stride, 0);
        late_.assign(m_.stride, 0);
        const float by = float(-rate / m_.scale), mass = float(m_.mass);
        for (int i = 0; i < length_; ++i) {
            const float* gradient = node_.data() + i * T;
            if (!set_change(gradient, by, mass)) continue;
            const int n = rows_of(i);
            apply(features_.data(), n);
        }
        for (int u = 0; u < m_.tags; ++u)
            if (set_change(edge_.data() + u * T, by, mass)) apply(&u, 1);
    }

    // Set the change of a row. Return false if the gradient is 0.
    template <class R> bool set_change(const R* gradient, float by, float mass) {
        bool any = false;
        for (int t = 0; t < m_.tags; ++t) {
            any = any || gradient[t] != 0;
            change_[t] = float(gradient[t]) * by;
            late_[t] = change_[t] * mass;
        }
        return any;
    }

    void apply(const int* rows, int n) {
        add_to_rows(m_.v.row(0), m_.stride, rows, n, change_.data());
        if (m_.options.averaged)
            add_to_rows(m_.late.row(0), m_.stride, rows, n, late_.data());
    }

    // Let the rows of the sequence pay their L1 penalties.
    void pay(bool at_once) {
        for (int u = 0; u < m_.tags; ++u) m_.pay(u, at_once);
        for (int i = 0; i < length_; ++i) {
            const int n = rows_of(i);
            for (int r = 0; r < n; ++r) m_.pay(features_[r], at_once);
        }
    }

    // Shrink the weights, after the gradient step as in Algorithm 1 of Sun et al.
    void regularize() {
        const double rate = m_.rate() / m_.options.n_sequences;
        m_.scale *= 1 - rate * m_.options.l2;
        if (m_.options.l1 > 0) {
            m_.penalty += rate * m_.options.l1 / m_.scale;
            pay(true);
        }
    }

  public:
    explicit Online(Model& model)
        : m_(model), transitions_(size_t(model.tags) * model.tags),
          edge_(size_t(model.tags) * model.tags) {}

    // Take a step and add the loss to `loss`. Return false, without a step, if the learner has
    // diverged, because the rate is too high. A sequence whose gold is unknown or forbidden takes
    // no step: no weight shrinks, and neither the rate nor the average counts it.
    bool step(const Sequences& data, size_t start, int length, double& loss) {
        if (length == 0) return true;
        data_ = &data;
        start_ = start;
        length_ = length;
        if (m_.options.l1 > 0) pay(false);
        if (!score()) return false;
        gold_.assign(length, -1);
        bool complete = !data.allowed;
        if (data.gold)
            for (int i = 0; i < length; ++i) {
                gold_[i] = data.gold[start + i];
                complete = complete && gold_[i] >= 0;
            }
        if (!complete) {
            if (!restrict_to_gold()) return true;
            std::vector<int> target(length);
            if (best(restricted_, target.data()) == -infinity<float>) return true;
            if (m_.options.objective != Objective::crf) gold_ = target;
        }
        node_.assign(size_t(length) * m_.tags, 0);
        edge_.assign(size_t(m_.tags) * m_.tags, 0);
        double value, gold = 0, rate = m_.rate();
        if (m_.options.objective != Objective::crf || complete) {
            gold = score_labeling(sequence(unary_), gold_.data());
            if (gold == -infinity<double>) return true;
        }
        switch (m_.options.objective) {
            case Objective::crf: value = crf(complete); break;
            case Objective::sapo: value = sapo(gold); break;
            case Objective::perceptron: value = perceptron(gold); break;
            default: value = mira(gold, rate); rate = 1;
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
