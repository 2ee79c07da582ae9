// The weights of a sparse linear chain during learning.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../../shared/precision.hh"
#include "../batch.hh"

namespace bcrf {

// A growing table of floats, initially zero.
class Table {
    Buffer<float> data_;
    size_t rows_ = 0, capacity_ = 0, stride_;

  public:
    explicit Table(size_t stride) : stride_(stride) {}

    void resize(size_t rows) {
        if (rows > std::numeric_limits<size_t>::max() / 4 / sizeof(float) / stride_) throw std::bad_alloc();
        if (rows > capacity_) {
            const size_t wanted = std::max(rows, 2 * capacity_);
            Buffer<float> grown(wanted * stride_);
            std::copy_n(data_.data(), rows_ * stride_, grown.data());
            data_ = std::move(grown);
            capacity_ = wanted;
        }
        rows_ = std::max(rows, rows_);
    }
    void clear() { std::fill_n(data_.data(), rows_ * stride_, 0.f); }
    size_t rows() const { return rows_; }
    float* row(size_t i) { return data_.data() + i * stride_; }
    const float* row(size_t i) const { return data_.data() + i * stride_; }
};

enum class Objective { crf, bcrf, mean_field, sapo, perceptron, mira };

struct Options {
    Objective objective;
    int n_iter;      // iterations of the Bregman CRF and of mean field
    double relaxation;  // of the Bregman CRF
    int n;           // length of the n-best list of SAPO and MIRA
    int beam;        // beam width of the n-best search, or 0 for A*
    bool averaged;
    double rate;     // learning rate of the first step; for MIRA the maximum step (its C)
    double decay;    // after p epochs, also fractions, the rate is rate / (1 + decay p)
    double l2;       // lambda: a step multiplies the weights by 1 - rate * l2 / n_sequences
    double l1;       // a step then moves each weight towards 0 by rate * l1 / n_sequences
    bool adagrad;    // divide the rate of each weight by the root of 1 + its squared gradients
    double n_sequences;  // in one epoch
};

// Let a weight pay its L1 penalties up to `goal`. AdaGrad divides them by `root`, else it is 1. payment: the sum
// of the penalties so far, with the opposite sign of the weight. past: see Model::late. V: float, or a vector of
// floats.
template <class V> BCRF_SHARED void pay_l1(V& weight, V& payment, V& past, V root, float goal, float mass) {
    const V none{}, one = none + 1.f;
    const V sign = weight < none ? -one : one, size = sign * weight, since = -sign * payment;
    const V due = (goal - since) / root, left = size - due;
    const V most = left > none ? due : size, owed = since < goal ? most : none;
    const V paid = size > none ? owed : none;
    past -= sign * paid * mass;
    // Payments are floats. An equal float as the goal makes a second call change nothing.
    payment = paid > none ? -sign * (left > none ? none + goal : since + size * root) : payment;
    weight = paid > none ? (left > none ? sign * left : none) : weight;
}

// The weights are w = scale * v, so that L2 decay changes one number in each step (Bottou;
// Shalev-Shwartz et al. 2007). Their sum over all steps, for averaging, is v * mass - late. A
// change of v does not count in earlier steps, so `late` adds up each change times the mass before
// it. A step costs time only for the rows it changes.
//
// The L1 penalty is cumulative (Tsuruoka et al. 2009). `penalty` is the sum that a weight can have
// paid so far, and `paid` the signed sum that it has paid. A weight pays when its row is next used,
// which gives the same weights as paying at each step. Both are in units of v, so that they shrink
// with the weights. To average, a late payment counts from the step at which it was due.
//
// AdaGrad (Duchi et al. 2011) divides the rate of a weight by sqrt(1 + `squares`), the sum of its
// squared gradients. The root is constant between two uses of a row, so the L1 penalty divided by it
// is still cumulative. The L2 decay is the same for all weights.
//
// The first rows are the transitions, by their `from` tag. The bias, the start and the end of a
// sequence follow, then the features. A second-order chain has a feature for each pair of tags.
//
// Several chains side by side label a sequence independently. They share the features and the
// transitions. A row has the weights of the tags of each chain in turn.
struct Model {
    Options options;
    int tags, chains;  // tags of one chain
    size_t stride;
    Table v, late, paid;
    Table squares;  // AdaGrad's sums of squared gradients
    double scale = 1, mass = 0, penalty = 0;
    std::vector<double> due{0}, lag{0};  // by step: penalty; integral of the mass over the penalty
    // The penalty up to which a row's weights other than 0 have paid at its last use, and the lag there.
    struct LastPayment {
        float goal = 0;
        double lag = 0;
    };
    std::vector<LastPayment> last_payments;  // by row
    static constexpr size_t LONGEST = size_t(1) << 16;  // steps that `due` and `lag` remember
    std::int64_t steps = 0;      // since the last `write`; the average is over these
    double sequences_seen = 0;   // in total; the rate depends on it
    std::vector<unsigned char> transitions, start, end;  // 1 if allowed; empty without constraints
    std::vector<int> pairs;      // features of a second-order chain, see PairWeights; or empty
    float least = 0;             // a second-order chain keeps the tags with at least this marginal

    Model(const Options& options, int tags, int chains)
        : options(options), tags(tags), chains(chains), stride((size_t(width()) + 7) / 8 * 8), v(stride),
          late(stride), paid(stride), squares(stride) {
        resize(0);
    }

    int width() const { return tags * chains; }
    size_t first_feature() const { return size_t(tags) + 3; }
    int bias() const { return tags; }

    void resize(size_t features) {
        v.resize(first_feature() + features);
        if (options.averaged) late.resize(first_feature() + features);
        if (options.l1 > 0) paid.resize(first_feature() + features);
        if (options.l1 > 0 && options.averaged) last_payments.resize(v.rows());
        if (options.adagrad) squares.resize(first_feature() + features);
    }

    double rate() const {
        return options.rate / (1 + options.decay * sequences_seen / options.n_sequences);
    }

    // Return the integral of the mass over the penalty, from the start of `due` to this penalty.
    double lag_at(double value) const {
        const size_t k = size_t(std::lower_bound(due.begin(), due.end(), value) - due.begin());
        if (k == 0) return lag.front();
        if (k == due.size()) return lag.back();
        return lag[k] - (due[k] - value) / (due[k] - due[k - 1]) * (lag[k] - lag[k - 1]);
    }

    // Return the integral of the mass up to the penalty of this step, which end_step will append.
    double lag_now() const { return lag.back() + (penalty - due.back()) * mass; }

    // Let the weights of a row pay the penalties up to now: APPLYPENALTY of Tsuruoka et al. In the average,
    // the payments count from the current step on. `past` is null without averaging.
    void pay_now(float* weight, float* payment, float* past, const float* square) const {
        float unused = 0;
        for (size_t t = 0; t < stride; ++t)
            pay_l1(weight[t], payment[t], past ? past[t] : unused, square ? std::sqrt(1 + square[t]) : 1.f,
                   float(penalty), float(mass));
    }

    // The same, but each payment counts in the average from the step at which it was due.
    void pay_late(float* weight, float* payment, float* past, const float* square) const {
        const double goal = float(penalty);
        double known = -1, start = 0, end = -1;  // most weights of a row share both lags
        for (int t = 0; t < width(); ++t) {
            const double sign = weight[t] < 0 ? -1 : 1, size = sign * weight[t];
            const double since = -sign * payment[t];
            if (size == 0 || since >= goal) continue;
            const double root = square ? std::sqrt(1 + double(square[t])) : 1;
            const double owed = square ? (goal - since) / root : goal - since;
            const double left = size - owed, until = left > 0 ? goal : since + size * root;
            if (since != known) start = lag_at(known = since);
            if (left > 0 && end < 0) end = lag_at(goal);
            const double total = (left > 0 ? end : lag_at(until)) - start;
            past[t] -= float(sign * (square ? total / root : total));
            weight[t] = left > 0 ? float(sign * left) : 0;
            payment[t] = float(-sign * until);
        }
    }

    // Let a row pay. Without averaging, it makes no difference from when the payments count.
    void pay(float* weight, float* payment, float* past, const float* square) const {
        if (options.averaged) return pay_late(weight, payment, past, square);
        pay_now(weight, payment, past, square);
    }

    const float* squares_of(size_t row) const {
        return options.adagrad ? squares.row(row) : nullptr;
    }

    float* past_of(size_t row) { return options.averaged ? late.row(row) : nullptr; }
    void pay(size_t row) { pay(v.row(row), paid.row(row), past_of(row), squares_of(row)); }

    void pay_all() {
        for (size_t i = 0; i < v.rows(); ++i) pay(i);
        due.assign(1, penalty);
        lag.assign(1, 0.0);
        last_payments.assign(last_payments.size(), {float(penalty), 0});
    }

    // Add `by` times the gradient (stride) to a row of weights, at the rates of AdaGrad.
    void adapt(size_t row, const float* gradient, float by) {
        float *weight = v.row(row), *square = squares.row(row);
        float* past = past_of(row);
        const float now = float(mass);
        for (size_t t = 0; t < stride; ++t) {
            square[t] += gradient[t] * gradient[t];
            const float change = by * gradient[t] / std::sqrt(1 + square[t]);
            weight[t] += change;
            if (past) past[t] += change * now;
        }
    }

    // Complete a step: count the weights in the average, and remember when its penalty was due.
    void end_step() {
        if (options.l1 > 0 && options.averaged) {
            lag.push_back(lag_now());
            due.push_back(penalty);
            if (due.size() > LONGEST) pay_all();
        }
        mass += scale;
        ++steps;
        sequences_seen += 1;
        if (scale < LearnerLimits::LEAST_SCALE) rescale();
    }

    // Fold the scale into the weights before it gets so small that sums cancel. This changes all
    // rows, but happens only once in ln(100) / (rate * l2) epochs.
    void rescale() {
        const size_t n = v.rows() * stride;
        if (options.l1 > 0) {
            pay_all();
            float* payment = paid.row(0);
            for (size_t i = 0; i < n; ++i) payment[i] *= float(scale);
            penalty *= scale;
            due.assign(1, penalty);
            last_payments.assign(last_payments.size(), {float(penalty), 0});
        }
        float *weight = v.row(0), *past = late.row(0);
        for (size_t i = 0; options.averaged && i < n; ++i) past[i] -= float(weight[i] * mass);
        for (size_t i = 0; i < n; ++i) weight[i] *= float(scale);
        mass = 0;
        scale = 1;
    }

    // Copy the weights (rows, stride) for prediction: the average over the steps if the model
    // averages, else the current weights. With l1, the average is 0 wherever the current weight is,
    // because a mean over steps is rarely 0.
    void read(float* out) const {
        const bool average = options.averaged && steps, sparse = options.l1 > 0;
        std::vector<float> weight(stride), payment(stride), past(stride);
        for (size_t i = 0; i < v.rows(); ++i, out += stride) {
            std::copy(v.row(i), v.row(i) + stride, weight.begin());
            if (options.averaged) std::copy(late.row(i), late.row(i) + stride, past.begin());
            if (sparse) {
                std::copy(paid.row(i), paid.row(i) + stride, payment.begin());
                pay(weight.data(), payment.data(), past.data(), squares_of(i));
            }
            for (size_t t = 0; t < stride; ++t)
                out[t] = !average ? float(weight[t] * scale)
                         : sparse && weight[t] == 0
                             ? 0
                             : float((weight[t] * mass - past[t]) / double(steps));
        }
    }

    // Restart from these weights (rows, stride). Later rows become 0.
    void write(const float* in, size_t rows) {
        v.clear();
        late.clear();
        paid.clear();
        last_payments.clear();
        squares.clear();
        penalty = 0;
        due.assign(1, 0.0);
        lag.assign(1, 0.0);
        resize(rows - first_feature());
        std::memcpy(v.row(0), in, rows * stride * sizeof(float));
        scale = 1;
        mass = 0;
        steps = 0;
    }
};

// The weights of a second-order chain: a row for each pair of tags (a, b), with the weight of each tag
// that follows. rows [T + 1, T] are features; a = T stands for the start of the sequence.
struct PairWeights {
    const float* table;  // its first feature
    size_t stride;
    const int* rows;
    int tags;
    float scale;

    int row(int a, int b) const { return rows[size_t(a) * tags + b]; }
    float operator()(int a, int b, int c) const { return table[row(a, b) * stride + c] * scale; }
};

// A ragged batch. Token i has the features rows[starts[i] : starts[i + 1]], in addition to bias,
// start and end. Gold is tag ids (N), -1 for unknown, or `allowed` tags (N, tags). The lattice
// `open` (N, tags) restricts prediction. `allowed` and `open` may be null. Of C chains, gold and lattice
// have C N rows: for each sequence, its tokens in the first chain, then in the second and so on.
struct Sequences {
    const int* rows;
    const std::int64_t* starts;
    const int* gold;
    const unsigned char *allowed, *open;
};

}  // namespace bcrf
