// Forward-backward and Bregman projections in log space and double precision.
//
// This is the slow path, for sequences whose scores exceed the range of the other kernels.
#pragma once

#include "bregman_options.hh"
#include "batch.hh"
#include "interrupt.hh"

namespace bcrf {
namespace log_space {

typedef std::vector<double> Row;

// Return log(sum_i exp(x(i))) for i < n.
template <class F> double log_sum(int n, F x) {
    double top = -infinity<double>, total = 0;
    for (int i = 0; i < n; ++i) top = x(i) > top ? x(i) : top;
    if (top == -infinity<double>) return top;
    for (int i = 0; i < n; ++i) total += std::exp(x(i) - top);
    return top + std::log(total);
}

// Set the outputs of a sequence without an allowed labeling.
template <class In> void clear(const Sequence<In>& s, Output<In>& out) {
    out.value = -infinity<double>;
    size_t t = s.tags;
    if (out.node) std::memset(out.node, 0, s.length * t * sizeof(In));
    if (out.each) std::memset(out.each, 0, (s.length - 1) * t * t * sizeof(In));
}

template <class In> void write_edge(const Output<In>& out, int i, int tags, int u, int v, double q) {
    if (out.sum) out.sum[size_t(u) * tags + v] += q;
    if (out.each) out.each[(size_t(i) * tags + u) * tags + v] = In(q);
}

// Subtract the largest number of a row from all. Return it, or 0 if all are -inf.
inline double subtract_largest(double* row, int n) {
    const double top = *std::max_element(row, row + n);
    if (top == -infinity<double>) return 0;
    for (int i = 0; i < n; ++i) row[i] -= top;
    return top;
}

// Return alpha (length, tags): the log-partition of the prefixes that end in each tag. Subtract the
// maximum at each token and add it to `shift`: a score of 1e30 at one token keeps the scores of the
// other tokens.
template <class In> Row forward(const Sequence<In>& s, double& shift) {
    const int n = s.length, tags = s.tags;
    Row alpha(size_t(n) * tags);
    for (int t = 0; t < tags; ++t) alpha[t] = s.unary[t];
    shift += subtract_largest(alpha.data(), tags);
    for (int i = 1; i < n; ++i) {
        check_signals();
        double *here = &alpha[size_t(i) * tags], *last = here - tags;
        const In* w = s.edge(i - 1);
        for (int v = 0; v < tags; ++v)
            here[v] = double(s.unary[size_t(i) * tags + v]) +
                      log_sum(tags, [&](int u) { return last[u] + w[size_t(u) * tags + v]; });
        shift += subtract_largest(here, tags);
    }
    return alpha;
}

// Set p = softmax(x). Rounding errors of large scores cancel in the sum.
inline void softmax(Row& x) {
    const double top = *std::max_element(x.begin(), x.end());
    double total = 0;
    for (double& p : x) total += p = std::exp(p - top);
    for (double& p : x) p /= total;
}

template <class In> void sum_product(const Sequence<In>& s, Output<In>& out) {
    const int n = s.length, tags = s.tags;
    double shift = 0;
    const Row alpha = forward(s, shift);
    const double* end = &alpha[size_t(n - 1) * tags];
    const double z = log_sum(tags, [&](int t) { return end[t]; });
    if (z == -infinity<double>) return clear(s, out);
    out.value = shift + z;
    if (!out.node && !out.sum && !out.each) return;
    Row beta(tags, 0.0), next(tags), p(tags), pairs;
    for (int i = n - 1; i >= 0; --i) {
        check_signals();
        const double* here = &alpha[size_t(i) * tags];
        if (i + 1 < n) {
            // next: the log-partition of the suffixes that start with each tag.
            const In *w = s.edge(i), *unary = s.unary + size_t(i + 1) * tags;
            for (int v = 0; v < tags; ++v) next[v] = beta[v] + unary[v];
            for (int u = 0; u < tags; ++u)
                beta[u] = log_sum(tags, [&](int v) { return w[size_t(u) * tags + v] + next[v]; });
            subtract_largest(beta.data(), tags);
            if (out.sum || out.each) {
                pairs.resize(size_t(tags) * tags);
                for (size_t u = 0, k = 0; u < size_t(tags); ++u)
                    for (int v = 0; v < tags; ++v, ++k) pairs[k] = here[u] + (w[k] + next[v]);
                softmax(pairs);
                for (int u = 0; u < tags; ++u)
                    for (int v = 0; v < tags; ++v)
                        write_edge(out, i, tags, u, v, pairs[size_t(u) * tags + v]);
            }
        }
        if (!out.node) continue;
        for (int t = 0; t < tags; ++t) p[t] = here[t] + beta[t];
        softmax(p);
        for (int t = 0; t < tags; ++t) out.node[size_t(i) * tags + t] = In(p[t]);
    }
}

// Return the entropy of a mixture of distributions with entropies h and weights softmax(x).
template <class X> double mixture_entropy(int tags, X x, const double* h) {
    const double z = log_sum(tags, x);
    double total = 0;
    for (int t = 0; t < tags; ++t)
        if (x(t) > -infinity<double>) total += std::exp(x(t) - z) * (h[t] - (x(t) - z));
    return total;
}

// Return the entropy, or -inf if there is no allowed labeling. h holds the entropy of the prefixes
// that end in each tag.
template <class In> double entropy(const Sequence<In>& s) {
    const int tags = s.tags;
    double shift = 0;
    const Row alpha = forward(s, shift);
    Row h(tags, 0.0), next(tags);
    for (int i = 1; i < s.length; ++i) {
        const double* last = &alpha[size_t(i - 1) * tags];
        const In* w = s.edge(i - 1);
        for (int v = 0; v < tags; ++v)
            next[v] = mixture_entropy(
                tags, [&](int u) { return last[u] + w[size_t(u) * tags + v]; }, h.data());
        h = next;
    }
    const double* end = &alpha[size_t(s.length - 1) * tags];
    if (log_sum(tags, [&](int t) { return end[t]; }) == -infinity<double>) return -infinity<double>;
    return mixture_entropy(tags, [&](int t) { return end[t]; }, h.data());
}

// Draw n labelings from uniform numbers (n, stride). Write nothing if no labeling is allowed.
template <class In>
void sample(const Sequence<In>& s, int n, size_t stride, const double* uniform, int* tags) {
    double shift = 0;
    const Row alpha = forward(s, shift);
    Row x(s.tags);
    for (int k = 0; k < n; ++k, tags += stride, uniform += stride)
        for (int i = s.length - 1; i >= 0; --i) {
            for (int t = 0; t < s.tags; ++t) {
                x[t] = alpha[size_t(i) * s.tags + t];
                if (i + 1 < s.length) x[t] += s.edge(i)[size_t(t) * s.tags + tags[i + 1]];
            }
            const double z = log_sum(s.tags, [&](int t) { return x[t]; });
            if (z == -infinity<double>) return;
            tags[i] = pick_tag(s.tags, uniform[i], [&](int t) { return std::exp(x[t] - z); });
        }
}

// Bregman projections on the logarithms of the node factors of one sequence.
template <class In> class LogProjections {
    const Sequence<In>& s_;
    const int n_, tags_;
    const double scale_;
    Row u_, f_, g_, in_, out_;

    double* at(Row& rows, int i) { return &rows[size_t(i) * tags_]; }
    double w(int i, int u, int v) const { return scale_ * s_.edge(i)[size_t(u) * tags_ + v]; }
    double total(const double* row) const {
        return log_sum(tags_, [&](int t) { return row[t]; });
    }

    double into(int i, int v) {
        const double* g = at(g_, i - 1);
        return log_sum(tags_, [&](int u) { return w(i - 1, u, v) + g[u]; });
    }

    double outof(int i, int u) {
        const double* f = at(f_, i + 1);
        return log_sum(tags_, [&](int v) { return w(i, u, v) + f[v]; });
    }

    double project(int i, double excess) {
        check_signals();
        double *f = at(f_, i), *g = at(g_, i), *u = at(u_, i), *in = in_.data(), *out = out_.data();
        for (int t = 0; t < tags_; ++t) in[t] = into(i, t), out[t] = outof(i, t);
        const double sum_in = log_sum(tags_, [&](int t) { return f[t] + in[t]; });
        const double sum_out = log_sum(tags_, [&](int t) { return g[t] + out[t]; });
        double gap = 0;
        for (int t = 0; t < tags_; ++t) {
            if (u[t] == -infinity<double>) continue;
            const double log_in = f[t] + in[t] - sum_in, log_out = g[t] + out[t] - sum_out;
            const double step = projection::log_step(log_in, log_out, excess, gap);
            f[t] += step;
            g[t] -= step;
        }
        const double to_f = log_sum(tags_, [&](int t) { return f[t] + in[t]; });
        const double to_g = log_sum(tags_, [&](int t) { return g[t] + out[t]; });
        for (int t = 0; t < tags_; ++t) f[t] -= to_f, g[t] -= to_g;
        return gap;
    }

    // Return sum_t exp(p[t]) y[t], where y is finite wherever p is.
    double expectation(const Row& p, const double* y) const {
        double total = 0;
        for (int t = 0; t < tags_; ++t)
            if (p[t] > -infinity<double>) total += std::exp(p[t]) * y[t];
        return total;
    }

  public:
    LogProjections(const Sequence<In>& s, double scale)
        : s_(s), n_(s.length), tags_(s.tags), scale_(scale), u_(size_t(n_) * tags_), f_(u_), g_(u_), in_(tags_),
          out_(tags_) {}

    // Remove the tags that no allowed labeling uses. Return false if a position has none left.
    bool prune() {
        const double dead = -infinity<double>;
        for (int i = 0; i < n_; ++i)
            for (int v = 0; v < tags_; ++v) {
                bool reached = i == 0;
                for (int u = 0; u < tags_ && !reached; ++u)
                    reached = at(u_, i - 1)[u] > dead && w(i - 1, u, v) > dead;
                at(u_, i)[v] = reached ? scale_ * s_.unary[size_t(i) * tags_ + v] : dead;
            }
        for (int i = n_ - 1; i >= 0; --i) {
            bool any = false;
            for (int u = 0; u < tags_; ++u) {
                bool reached = i == n_ - 1;
                for (int v = 0; v < tags_ && !reached; ++v)
                    reached = at(u_, i + 1)[v] > dead && w(i, u, v) > dead;
                if (!reached) at(u_, i)[u] = dead;
                any = any || at(u_, i)[u] > dead;
            }
            if (!any) return false;
        }
        return true;
    }

    void iterate(const BregmanOptions& options) {
        for (size_t k = 0; k < u_.size(); ++k) f_[k] = g_[k] = u_[k] / 2;
        for (int t = 0; t < tags_; ++t) at(g_, 0)[t] = u_[t], at(f_, n_ - 1)[t] = at(u_, n_ - 1)[t];
        projection::Relaxation relaxation;
        for (int k = 0; k < options.n_iter; ++k) {
            double violation = 0;
            for (int i = projection::first_position(k); i + 1 < n_; i += 2) {
                const double gap = project(i, relaxation.omega - 1);
                violation = gap > violation ? gap : violation;
            }
            if (relaxation.update(k, violation, options.relaxation, options.tolerance)) return;
        }
    }

    // rule: see projection::Unary.
    void write(Output<In>& out, int rule, bool lower) {
        double value = 0;
        std::vector<double> mean(size_t(n_) * tags_, 0.0);
        Row p(tags_), next(tags_), rows(tags_), arcs(size_t(tags_) * tags_);
        for (int i = 0; i + 1 < n_; ++i) {
            const double *g = at(g_, i), *f = at(f_, i + 1);
            for (int u = 0; u < tags_; ++u) rows[u] = g[u] + outof(i, u);
            const double z = total(rows.data());
            if (!lower) value += z;
            for (int u = 0; u < tags_; ++u)
                for (int v = 0; v < tags_; ++v)
                    arcs[size_t(u) * tags_ + v] = g[u] + w(i, u, v) + f[v];
            log_space::softmax(arcs);
            for (int u = 0; u < tags_; ++u)
                for (int v = 0; v < tags_; ++v) {
                    const double q = arcs[size_t(u) * tags_ + v];
                    const bool halved = rule == projection::MEAN;
                    at(mean, i)[u] += i > 0 && halved ? q / 2 : q;
                    if (halved || i + 2 == n_) at(mean, i + 1)[v] += i + 2 == n_ ? q : q / 2;
                    write_edge(out, i, tags_, u, v, q);
                }
            // rows - g: the log of the sum of the arcs out over g.
            for (int u = 0; u < tags_ && rule == projection::CHAIN; ++u) {
                const double* f_here = at(f_, i);
                at(mean, i)[u] = at(u_, i)[u] == -infinity<double> ? -infinity<double>
                                 : i == 0                          ? g[u] - z
                                                                   : f_here[u] + g[u] - rows[u];
            }
            if (!lower) {
                if (i > 0) value -= projection::log_scale(tags_, at(u_, i), at(f_, i), at(g_, i));
                continue;
            }
            if (i == 0) {
                for (int u = 0; u < tags_; ++u) p[u] = rows[u] - z;
                value += expectation(p, at(u_, 0));
            }
            // Arcs of the feasible chain: p[u] K f[v] / (sum_x K f[x]).
            for (int u = 0; u < tags_; ++u)
                rows[u] = p[u] == -infinity<double> ? p[u] : p[u] - (rows[u] - g[u]);
            for (int v = 0; v < tags_; ++v)
                next[v] = f[v] + log_sum(tags_, [&](int u) { return rows[u] + w(i, u, v); });
            value -= expectation(p, rows.data());
            p = next;
            value += expectation(p, at(u_, i + 1)) - expectation(p, f);
        }
        if (rule == projection::CHAIN) std::copy_n(at(f_, n_ - 1), tags_, &mean[size_t(n_ - 1) * tags_]);
        if (out.node)
            for (size_t k = 0; k < mean.size(); ++k) out.node[k] = In(mean[k]);
        out.value = value;
    }

    void softmax(Output<In>& out, int rule) {
        out.value = total(at(u_, 0));
        if (rule != projection::CHAIN) log_space::softmax(u_);
        for (int t = 0; t < tags_; ++t)
            out.node[t] = In(rule == projection::CHAIN ? u_[t] - out.value : u_[t]);
    }
};

template <class In>
void bregman(const Sequence<In>& s, const BregmanOptions& options, Output<In>& out) {
    LogProjections<In> chain(s, options.scale);
    if (!chain.prune()) return clear(s, out);
    if (s.length == 1) return chain.softmax(out, options.unary);
    chain.iterate(options);
    chain.write(out, options.unary, options.lower);
}

}  // namespace log_space
}  // namespace bcrf
