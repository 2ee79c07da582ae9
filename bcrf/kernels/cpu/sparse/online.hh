// One online step for each sequence: an objective's gradient, and the update of its rows.
#pragma once

#include "../interrupt.hh"
#include "objectives.hh"

namespace bcrf {
namespace BCRF_TARGET {

class Online {
    Model& m_;
    Objectives of_;
    FeatureRows& rows_ = of_.rows;
    std::vector<float> changes_, change_, late_, gradient_;  // changes_: by token and chain
    std::vector<int> changed_;

    // Take a gradient step on the rows of pairs of tags.
    void update_pairs(float by) {
        const auto before = [](const auto& a, const auto& b) {
            return a.row != b.row ? a.row < b.row : a.tag < b.tag;
        };
        std::sort(of_.triples.begin(), of_.triples.end(), before);
        std::vector<double> gradient(m_.tags);
        for (size_t k = 0; k < of_.triples.size();) {
            const int row = of_.triples[k].row;
            std::fill(gradient.begin(), gradient.end(), 0.0);
            for (; k < of_.triples.size() && of_.triples[k].row == row; ++k)
                gradient[of_.triples[k].tag] += of_.triples[k].gradient;
            const int at = row + int(m_.first_feature());
            if (!is_negligible(gradient.data(), m_.tags)) apply(gradient.data(), m_.tags, by, &at, 1);
        }
    }

    template <class R> bool is_negligible(const R* gradient, int n) const {
        // Gradients of MIRA are steps of any size.
        const double least = m_.options.objective == Objective::mira ? 0 : LearnerLimits::NEGLIGIBLE_GRADIENT;
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
            changes_.swap(of_.node);
        } else {
            changes_.resize(rows_.length * W);
            of_.by_chain([&](size_t of_chain, size_t of_token) { changes_[of_token] = of_.node[of_chain]; });
        }
        for (int i = 0; i < rows_.length; ++i)
            if (!is_negligible(changes_.data() + i * W, int(W))) changed_.push_back(i);
        const float by = float(-rate / m_.scale);
        for (size_t k = 0; k < changed_.size(); ++k) {
            // The scores have brought the weights into the cache, but not the other tables.
            if (k == 0) prefetch_changes(changed_[0]);
            if (k + 1 < changed_.size()) prefetch_changes(changed_[k + 1]);
            const int n = rows_.find(changed_[k]);
            apply(changes_.data() + changed_[k] * W, int(W), by, rows_.of_token.data(), n);
        }
        // All chains share the transitions. A step of their sum would be too long for many chains.
        for (double& x : of_.edge) x /= m_.chains;
        for (int u = 0; u < m_.tags; ++u)
            if (!is_negligible(of_.edge.data() + u * T, int(T))) apply(of_.edge.data() + u * T, int(T), by, &u, 1);
        update_pairs(by);
    }

    void prefetch_changes(int i) {
        if (m_.options.averaged) rows_.prefetch_rows(m_.late, i);
        if (m_.options.adagrad) rows_.prefetch_rows(m_.squares, i);
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
        for (int row : of_.pair_rows) use(size_t(row));
        for (int i = 0; i < rows_.length; ++i) {
            if (i == 0) prefetch_payments(0);
            if (i + 1 < rows_.length) prefetch_payments(i + 1);
            const int n = rows_.find(i);
            for (int r = 0; r < n; ++r) use(size_t(rows_.of_token[r]));
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
        rows_.prefetch_rows(m_.v, i);
        rows_.prefetch_rows(m_.paid, i);
        prefetch_changes(i);
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
    explicit Online(Model& model) : m_(model), of_(model) {}

    // Take a step and add the loss to `loss`. Return false, without a step, if the learner has
    // diverged, because the rate is too high. A sequence whose gold is unknown or forbidden takes
    // no step: no weight shrinks, and neither the rate nor the average counts it.
    bool step(const Sequences& data, size_t start, int length, double& loss) {
        if (length == 0) return true;
        of_.set(data, start, length);
        if (m_.options.l1 > 0) for_each_row([&, now = last_step()](size_t row) { pay(row, now); });
        if (!of_.score()) return false;
        double value;
        const auto pay_rows = [&](const std::vector<int>& rows) {
            if (!(m_.options.l1 > 0)) return;
            const Model::LastPayment now = last_step();
            for (int row : rows) pay(size_t(row), now);
        };
        if (!of_.differentiate(value, pay_rows)) return true;
        if (!(std::abs(value) < LearnerLimits::DIVERGED)) return false;
        loss += value;
        // The steps of MIRA have the rate in them.
        update(m_.options.objective == Objective::mira ? 1 : m_.rate());
        regularize();
        m_.end_step();
        return true;
    }
};

// Take a step for each of the n sequences of `order`. Sequence k starts at token offsets[k]. Set
// `done` to the number of steps, which is n unless the learner diverged. Throw Interrupted between two
// steps if a signal handler raises an exception.
inline void learn(Model& model, const Sequences& data, const std::int64_t* offsets,
                  const int* order, int n, double& loss, int& done) {
    FlushDenormals flush;
    Call call;
    Scope scope(call, true);
    Online online(model);
    for (done = 0; done < n; ++done) {
        check_signals();
        const std::int64_t start = offsets[order[done]];
        if (!online.step(data, size_t(start), int(offsets[order[done] + 1] - start), loss)) return;
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
