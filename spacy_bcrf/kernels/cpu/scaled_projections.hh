// Bregman projections of sequences whose scores exceed the range of the other kernels. See Projections for
// the algorithm.
#pragma once

#include "../shared/projection.hh"
#include "bregman_options.hh"
#include "scaled_rows.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class In> class ScaledProjections : RowArithmetic {
    Sequence<In> s_{};
    const double scale_;
    double shift_ = 0;  // of the tag scores
    ScaledEdge<In> edge_;
    ScaledRows root_{0, 0}, f_{0, 0}, g_{0, 0};  // (length): sqrt(e) and the factors
    ScaledRows in_, out_;                        // one row: the sums of the arcs in and out, without f and g
    ScaledRows flow_in_, flow_out_;              // one row: the arcs in and out of each tag
    Buffer<double> alive_;                       // (length, width)

    const double* rows(int i) { return edge_.rows(s_.edge(i)); }
    const double* columns(int i) { return edge_.columns(s_.edge(i)); }

    // Set sqrt(e), without the tags that no allowed labeling uses. Return false if a position has none
    // left.
    bool load_scores() {
        const size_t n = s_.length;
        root_ = ScaledRows(n, width), f_ = ScaledRows(n, width), g_ = ScaledRows(n, width);
        alive_ = Buffer<double>(n * width);
        shift_ = 0;
        Buffer<double> reached(width);
        bool finite = true;
        for (size_t i = 0; i < n; ++i) {
            check_signals();
            const double top = top_of(s_.unary + i * tags, tags);
            shift_ += scale_ * top;
            finite &= exponentiate(root_[i], s_.unary + i * tags, top, scale_ / 2);
            if (i > 0) reach(reached, i - 1, rows(int(i) - 1));
            for (int t = 0; t < width; ++t) alive_[i * width + t] = root_[i][t] > 0 && (i == 0 || reached[t] > 0);
        }
        if (!finite || !edge_.finite()) shift_ = std::numeric_limits<double>::quiet_NaN();
        for (size_t i = n; i-- > 0;) {
            check_signals();
            if (i + 1 < n) reach(reached, i + 1, columns(int(i)));
            bool any = false;
            for (int t = 0; t < width; ++t) {
                double& here = alive_[i * width + t];
                if (i + 1 < n && !(reached[t] > 0)) here = 0;
                if (here > 0) any = true;
                else root_[i][t] = 0, root_[i][width + t] = E::ZERO;
            }
            if (!any) return false;
        }
        return true;
    }

    // Set `reached` to positive numbers where a live tag of a token has an allowed transition, whose
    // mantissa is positive.
    void reach(double* reached, size_t token, const double* k) {
        const double* alive = alive_ + token * width;
        for (int v = 0; v < width; v += W) {
            V sum{};
            for (int u = 0; u < tags; ++u) sum += load(k + 2 * size_t(u) * width + v) * alive[u];
            store(reached + v, sum);
        }
    }

    void start() {
        for (int i = 0; i < s_.length; ++i)
            for (int t = 0; t < width; t += W) {
                const Number x = get(root_[i], t), square = normalized<double>(times(x, x));
                set(f_[i], t, i + 1 == s_.length ? square : x);
                set(g_[i], t, i == 0 ? square : x);
            }
    }

    // Project token i. Return the violation before the projection.
    double project(int i, double excess) {
        check_signals();
        double *f = f_[i], *g = g_[i], *in = in_[0], *out = out_[0];
        edge_.product(in, g_[i - 1], s_.edge(i - 1), false);
        edge_.product(out, f_[i + 1], s_.edge(i), true);
        multiply(flow_in_[0], f, in);
        multiply(flow_out_[0], g, out);
        const ScaledNumber sum_in = total(flow_in_[0]), sum_out = total(flow_out_[0]);
        V gap{};
        for (int t = 0; t < width; t += W) {
            const V m = plain(get(flow_in_[0], t), sum_in), n = plain(get(flow_out_[0], t), sum_out);
            const V one = broadcast(1.0);
            V up = one, down = one;
            gap += m > n ? m - n : n - m;
            if (excess != 0) {
                projection::over_relax(up, n, m, excess);
                projection::over_relax(down, m, n, excess);
            }
            const Number x = get(root_[i], t), iv = get(in, t), ov = get(out, t);
            const Number fv{ov.m * up, ov.e}, gv{iv.m * down, iv.e};
            Number square = times(fv, gv);
            // A dead tag may have sums of 0.
            square = {x.m > V{} ? square.m : one, x.m > V{} ? square.e : V{}};
            const Number h = times(x, inverse_root(square));
            set(f, t, normalized<double>(times(fv, h)));
            set(g, t, normalized<double>(times(gv, h)));
        }
        multiply(flow_in_[0], f, in);
        multiply(flow_out_[0], g, out);
        divide(f, total(flow_in_[0]));
        divide(g, total(flow_out_[0]));
        return sum<double>(gap);
    }

    void iterate(const BregmanOptions& options) {
        projection::Relaxation relaxation;
        for (int k = 0; k < options.n_iter; ++k) {
            double violation = 0;
            for (int i = projection::first_position(k); i + 1 < s_.length; i += 2) {
                const double gap = project(i, relaxation.omega - 1);
                violation = gap > violation ? gap : violation;
            }
            if (relaxation.update(k, violation, options.relaxation, options.tolerance)) return;
        }
    }

    // Set in, out and the arcs of edge i by their tags. Return the sum of the arcs.
    ScaledNumber sum_arcs(int i) {
        check_signals();
        edge_.product(out_[0], f_[i + 1], s_.edge(i), true);
        edge_.product(in_[0], g_[i], s_.edge(i), false);
        multiply(flow_out_[0], g_[i], out_[0]);
        multiply(flow_in_[0], f_[i + 1], in_[0]);
        return total(flow_out_[0]);
    }

    // Divide the arcs of edge i by their sum z, and write them.
    void write_arcs(int i, ScaledNumber z, Output<In>& result) {
        const double *g = g_[i], *f = f_[i + 1], *k = rows(i);
        for (int u = 0; u < tags; ++u, k += 2 * width) {
            const Number gu{broadcast(g[u]), broadcast(g[width + u])};
            for (int v = 0; v < tags; v += W) {
                double q[W];
                store(q, plain(times(gu, times(get(k, v), get(f, v))), z));
                const size_t at = size_t(u) * tags + v;
                for (int j = 0; j < W && v + j < tags; ++j) {
                    if (result.sum) result.sum[at + j] += q[j];
                    if (result.each) result.each[size_t(i) * tags * tags + at + j] = In(q[j]);
                }
            }
        }
    }

    // Add `by` times the arcs of each tag to the marginals of a token.
    void add_flow(double* node, const double* flow, double by) {
        const ScaledNumber z = total(flow);
        for (int t = 0; t < tags; t += W) {
            double q[W];
            store(q, plain(get(flow, t), z));
            for (int k = 0; k < W && t + k < tags; ++k) node[t + k] += q[k] * by;
        }
    }

    // Return the tag with the most arcs out of the token of `sum_arcs`.
    int likeliest() {
        const double *m = flow_out_[0], *e = m + width;
        int best = 0;
        for (int t = 1; t < tags; ++t)
            if (e[t] > e[best] || (e[t] == e[best] && m[t] > m[best])) best = t;
        return best;
    }

    // Return the score of a tag in the Markov chain of the arcs, see projection::CHAIN. z: the sum of the
    // arcs out of token i.
    double chain_score(int i, int t, ScaledNumber z) {
        if (!(root_[i][t] > 0)) return -infinity<double>;
        const bool last = i + 1 == s_.length;
        const ScaledNumber factor = i ? at(f_[i], t) : at(g_[i], t);
        const double score = last ? factor.log() : ScaledNumber::log_ratio(factor, i ? at(out_[0], t) : z) - edge_.shift();
        const ScaledNumber mass = at(last ? flow_in_[0] : flow_out_[0], t);
        return projection::chain_score(score, ScaledNumber::log_ratio(mass, z));
    }

    // Write the results and the dual value. rule: see projection::Unary.
    void write(Output<In>& result, int rule) {
        const int n = s_.length;
        const bool halved = rule == projection::MEAN;
        const size_t size = size_t(n) * tags;
        Buffer<double> node(size);
        double value = shift_;
        for (int i = 0; i + 1 < n; ++i) {
            double* here = node + size_t(i) * tags;
            const ScaledNumber z = sum_arcs(i);
            value += z.log() + edge_.shift();
            if (rule == projection::CHAIN) {
                for (int t = 0; t < tags; ++t) here[t] = chain_score(i, t, z);
            } else {
                add_flow(here, flow_out_[0], halved && i > 0 ? 0.5 : 1);
                if (halved || i + 2 == n) add_flow(here + tags, flow_in_[0], i + 2 == n ? 1 : 0.5);
            }
            if (result.sum || result.each) write_arcs(i, z, result);
            if (i == 0) continue;
            // Subtract the log of the scale by which f g exceeds e. It is the same for all tags, but tags that
            // almost have no mass may have factors so large that their product loses it.
            const int t = likeliest();
            const ScaledNumber f = at(f_[i], t), g = at(g_[i], t), root = at(root_[i], t);
            value -= ScaledNumber::log_ratio({f.m * g.m, f.e + g.e}, {root.m * root.m, 2 * root.e});
        }
        for (int t = 0; rule == projection::CHAIN && t < tags; ++t)
            node[size - tags + t] = chain_score(n - 1, t, {1, 0});
        for (size_t k = 0; result.node && k < size; ++k) result.node[k] = In(node[k]);
        result.value = value;
    }

    // Return sum_t p[t] y(t), where y(t) is finite wherever p[t] is positive.
    template <class Y> double expectation(const double* p, Y y) {
        double sum = 0;
        for (int t = 0; t < tags; ++t)
            if (p[t] > 0) sum += std::ldexp(p[t], int(std::max(p[width + t], -4000.0))) * y(t);
        return sum;
    }

    // Return the value <p, w> + H(p) of the feasible chain with q's first marginals and q's transition
    // probabilities: its arcs are p[u] K f[v] / (sum_x K f[x]).
    double lower_bound() {
        ScaledRows rows_of_chain(3, width);
        double *p = rows_of_chain[0], *next = rows_of_chain[1], *ratio = rows_of_chain[2];
        // The logarithm of e.
        const auto score = [&](int i, int t) { return 2 * at(root_[i], t).log(); };
        double value = shift_;
        for (int i = 0; i + 1 < s_.length; ++i) {
            const ScaledNumber z = sum_arcs(i);
            const double *f = f_[i + 1], *out = out_[0];
            value += edge_.shift();
            if (i == 0) {
                std::copy_n(flow_out_[0], 2 * width, p);
                divide(p, z);
                value += expectation(p, [&](int t) { return score(0, t); });
            }
            for (int t = 0; t < width; t += W) {
                const Number x = get(p, t), y = get(out, t);
                const V dead = x.m > V{} ? V{} : broadcast(1.0);
                set(ratio, t, normalized<double>({x.m / (y.m + dead), x.e - y.e}));
            }
            edge_.product(next, ratio, s_.edge(i), false);
            multiply(next, next, f);
            value -= expectation(p, [&](int t) { return at(ratio, t).log(); });
            std::swap(p, next);
            value += expectation(p, [&](int t) { return score(i + 1, t) - at(f, t).log(); });
        }
        return value;
    }

    // The result of a sequence of one token.
    void softmax(Output<In>& result, int rule) {
        multiply(flow_in_[0], root_[0], root_[0]);
        const ScaledNumber z = total(flow_in_[0]);
        result.value = shift_ + z.log();
        for (int t = 0; result.node && t < tags; ++t) {
            const double x = ScaledNumber::log_ratio(at(flow_in_[0], t), z);
            result.node[t] = In(rule == projection::CHAIN ? x : std::exp(x));
        }
    }

  public:
    ScaledProjections(const Batch<In>& batch, double scale)
        : RowArithmetic(batch.tags), scale_(scale), edge_(batch, scale), in_(1, width), out_(1, width),
          flow_in_(1, width), flow_out_(1, width) {}

    void run(const Sequence<In>& s, const BregmanOptions& options, Output<In>& result) {
        if (!s.shared) edge_.start();
        s_ = s;
        clear(s, result);
        const bool possible = load_scores();
        if (std::isnan(shift_)) result.value = shift_;
        if (!possible || std::isnan(shift_)) return;
        if (s.length == 1) return softmax(result, options.unary);
        start();
        iterate(options);
        write(result, options.unary);
        if (options.lower) result.value = lower_bound();
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
