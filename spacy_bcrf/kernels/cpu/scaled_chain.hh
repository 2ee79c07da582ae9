// The CRF of sequences whose scores exceed the range of the other kernels: forward-backward, entropy, pairs
// of tags and samples.
#pragma once

#include "scaled_rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class In> class ScaledChain : RowArithmetic {
    Sequence<In> s_{};
    ScaledEdge<In> edge_;
    ScaledRows alpha_{0, 0}, sums_{0, 0};  // (length): prefixes that end in a tag, with its score and without
    Buffer<double> p_, next_, before_, sum_;
    double value_ = 0;

    // Set alpha, divided by a power of 2 for each token, and the log-partition. Return false if no labeling
    // is allowed or a score is wrong: the log-partition is then -inf or NaN.
    bool forward(const Sequence<In>& s) {
        if (!s.shared) edge_.start();
        s_ = s;
        alpha_ = ScaledRows(s.length, width);
        sums_ = ScaledRows(s.length, width);
        double exponents = 0, shift = 0;
        bool finite = true, possible = true;
        for (int i = 0; i < s.length && possible; ++i) {
            check_signals();
            double* here = alpha_[i];
            const In* unary = s.unary + size_t(i) * tags;
            const double top = top_of(unary, tags);
            shift += top;
            finite &= exponentiate(here, unary, top, 1);
            if (i > 0) {
                edge_.product(sums_[i], alpha_[i - 1], s.edge(i - 1), false);
                multiply(here, here, sums_[i]);
                shift += edge_.shift();
            }
            const double e = top_exponent(here);
            possible = e > nothing;
            exponents += e;
            divide(here, {1, e});
        }
        possible &= finite && edge_.finite();
        if (possible) value_ = shift + exponents * LOG_2 + total(alpha_[s.length - 1]).log();
        else value_ = finite && edge_.finite() ? -infinity<double> : std::numeric_limits<double>::quiet_NaN();
        return possible;
    }

    // Set p to the probabilities of the tags of the last token.
    void end(double* p) {
        double* last = alpha_[s_.length - 1];
        const ScaledNumber z = total(last);
        for (int t = 0; t < width; t += W) store(p + t, plain(get(last, t), z));
        normalize(p);
    }

    // Set p to the probabilities of the tags of token i, given tag v of token i + 1.
    void given_next(int i, int v, double* p) {
        const double *here = alpha_[i], *column = edge_.columns(s_.edge(i)) + 2 * size_t(v) * width;
        const ScaledNumber z = at(sums_[i + 1], v);
        for (int u = 0; u < width; u += W) store(p + u, plain(times(get(here, u), get(column, u)), z));
        normalize(p);
    }

    // Divide probabilities by their sum. Beside the exponent of a huge score, the sum z loses its last digits.
    void normalize(double* p) {
        V sum{};
        for (int t = 0; t < width; t += W) sum += load(p + t);
        const double z = BCRF_TARGET::sum<double>(sum), by = z > 0 ? 1 / z : 0;
        for (int t = 0; t < width; t += W) store(p + t, load(p + t) * by);
    }

    // Visit the tokens from the last to the first. node(i, p) gets the probabilities of the tags of token i.
    // edge(i, v, p, before) gets the probability p of tag v at token i, and the probabilities of the tags of
    // token i - 1 given v. Tags with p = 0 have no such call.
    template <class Node, class Edge> void go_back(Node node, Edge edge) {
        end(p_);
        for (int i = s_.length - 1; i >= 0; --i) {
            check_signals();
            node(i, p_.data());
            if (i == 0) break;
            std::fill_n(next_.data(), width, 0.0);
            for (int v = 0; v < tags; ++v) {
                const double p = p_[v];
                if (!(p > 0)) continue;
                given_next(i - 1, v, before_);
                edge(i, v, p, before_.data());
                for (int u = 0; u < width; u += W) store(next_ + u, load(next_ + u) + load(before_ + u) * p);
            }
            std::swap(p_, next_);
        }
    }

    // Return -sum p log p.
    double entropy_of(const double* p) {
        V sum{};
        for (int t = 0; t < width; t += W) {
            const V x = load(p + t);
            sum -= x * logarithm(max<double>(x, broadcast(Precision<double>::MIN_NORMAL)));
        }
        return BCRF_TARGET::sum<double>(sum);
    }

  public:
    explicit ScaledChain(const Batch<In>& batch)
        : RowArithmetic(batch.tags), edge_(batch, 1), p_(width), next_(width), before_(width) {}

    void sum_product(const Sequence<In>& s, Output<In>& out) {
        clear(s, out);
        const bool possible = forward(s);
        out.value = value_;
        if (!possible || (!out.node && !out.sum && !out.each)) return;
        if (out.sum) sum_ = Buffer<double>(size_t(tags) * width);  // transposed
        go_back(
            [&](int i, const double* p) {
                for (int t = 0; out.node && t < tags; ++t) out.node[size_t(i) * tags + t] = In(p[t]);
            },
            [&](int i, int v, double p, const double* before) {
                double* sum = sum_ + size_t(v) * width;
                for (int u = 0; out.sum && u < width; u += W) store(sum + u, load(sum + u) + load(before + u) * p);
                if (!out.each) return;
                In* each = out.each + size_t(i - 1) * tags * tags + v;
                for (int u = 0; u < tags; ++u) each[size_t(u) * tags] = In(before[u] * p);
            });
        for (int u = 0; out.sum && u < tags; ++u)
            for (int v = 0; v < tags; ++v) out.sum[size_t(u) * tags + v] += sum_[size_t(v) * width + u];
    }

    // Return the entropy. It is -inf if no labeling is allowed, and NaN if a score is wrong.
    double entropy(const Sequence<In>& s) {
        if (!forward(s)) return value_;
        double total = 0;
        go_back([&](int i, const double* p) { total += i + 1 == s.length ? entropy_of(p) : 0; },
                [&](int, int, double p, const double* before) { total += p * entropy_of(before); });
        return total;
    }

    // Set pairs (length, n) to the marginals of tag heads[m] at a token and tails[m] at the next one.
    void pairs(const Sequence<In>& s, int n, const int* heads, const int* tails, In* node, In* pairs) {
        std::fill_n(pairs, size_t(s.length) * n, In(0));
        Output<In> out{0, node, nullptr, nullptr};
        clear(s, out);
        if (!forward(s)) return;
        // The pairs by tail.
        Buffer<int> first(size_t(tags) + 2), order(n);
        for (int m = 0; m < n; ++m) ++first[tails[m] + 2];
        for (int t = 0; t < tags; ++t) first[t + 2] += first[t + 1];
        for (int m = 0; m < n; ++m) order[first[tails[m] + 1]++] = m;
        go_back(
            [&](int i, const double* p) {
                for (int t = 0; t < tags; ++t) node[size_t(i) * tags + t] = In(p[t]);
            },
            [&](int i, int v, double p, const double* before) {
                for (int k = first[v]; k < first[v + 1]; ++k)
                    pairs[size_t(i - 1) * n + order[k]] = In(p * before[heads[order[k]]]);
            });
    }

    // Draw n labelings from uniform numbers (n, stride). Write nothing if no labeling is allowed.
    void sample(const Sequence<In>& s, int n, size_t stride, const double* uniform, int* labels) {
        if (!forward(s)) return;
        for (int i = s.length - 1; i >= 0; --i) {
            check_signals();
            for (int k = 0; k < n; ++k) {
                const size_t here = size_t(k) * stride + i;
                if (i + 1 == s.length) end(p_);
                else given_next(i, labels[here + 1], p_);
                labels[here] = pick_tag(tags, uniform[here], [&](int t) { return p_[t]; });
            }
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
