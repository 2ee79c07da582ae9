// Forward-backward, entropy, samples and Bregman projections in Scaled doubles, by rows of tags.
//
// This is the slow path, for sequences whose scores exceed the range of the other kernels.
#pragma once

#include "../shared/projection.hh"
#include "bregman_options.hh"
#include "interrupt.hh"
#include "products.hh"
#include "scaled.hh"

namespace bcrf {
namespace BCRF_TARGET {

constexpr double LOG_2 = 0.69314718055994530942;

// Set the outputs of a sequence without an allowed labeling.
template <class In> void clear(const Sequence<In>& s, Output<In>& out) {
    out.value = -infinity<double>;
    size_t t = s.tags;
    if (out.node) std::memset(out.node, 0, s.length * t * sizeof(In));
    if (out.each) std::memset(out.each, 0, (s.length - 1) * t * t * sizeof(In));
}

// Rows of Scaled numbers: `width` mantissas, then `width` exponents. The padding is 0.
class ScaledRows {
    size_t width_;
    Buffer<double> rows_;

  public:
    ScaledRows(size_t n, int width) : width_(width), rows_(2 * n * width) {}
    double* operator[](size_t i) { return rows_ + 2 * i * width_; }
};

// A Scaled number that is not a vector.
struct ScaledNumber {
    double m, e;
    double log() const { return std::log(m) + e * LOG_2; }
    // Return log(x / y). The exponents may be too large for the digits of the mantissas.
    static double log_ratio(ScaledNumber x, ScaledNumber y) { return std::log(x.m / y.m) + (x.e - y.e) * LOG_2; }
};

// The arithmetic of rows of one width.
struct ScaledRow {
    typedef Vec<double> V;
    typedef Scaled<double> Number;
    typedef Exponents<double> E;
    static constexpr int W = lanes<double>;
    const int tags, width;

    explicit ScaledRow(int n) : tags(n), width(padded<double>(n)) {}

    BCRF_INLINE Number get(const double* row, int t) const { return {load(row + t), load(row + width + t)}; }
    BCRF_INLINE void set(double* row, int t, Number x) const {
        store(row + t, x.m);
        store(row + width + t, x.e);
    }
    static BCRF_INLINE Number times(Number a, Number b) { return {a.m * b.m, a.e + b.e}; }
    // Return x / y as a plain number.
    static BCRF_INLINE V plain(Number x, ScaledNumber y) {
        return x.m * (1 / y.m) * power_of_two<double>(x.e - y.e);
    }

    ScaledNumber at(const double* row, int t) const { return {row[t], row[width + t]}; }

    // Set a row to exp(scale (x - top)) for `tags` scores.
    template <class In> void exponentiate(double* row, const In* x, double top, double scale) const {
        // Scores beyond these leave no digits for a fraction.
        const double most = 1e305, whole = 2251799813685248.0;
        for (int t = 0; t < width; t += W) {
            const V lowest = broadcast(-infinity<double>);
            V score = lowest;
            if (t + W <= tags) {
                score = load_as<double>(x + t) - top;
            } else {
                double scores[W];
                store(scores, lowest);
                for (int k = 0; t + k < tags; ++k) scores[k] = double(x[t + k]) - top;
                score = load((const double*)scores);
            }
            const V y = max<double>(min<double>(score * (scale * 1.4426950408889634), broadcast(most)),
                                    broadcast(-most));
            const V size = y < V{} ? -y : y, n = size < whole ? (y + E::ROUND) - E::ROUND : y;
            const V m = exponential((y - n) * LOG_2), none{};
            set(row, t, {score > lowest ? m : none, score > lowest ? n : broadcast(E::ZERO)});
        }
    }

    // Return the sum of a row.
    ScaledNumber total(const double* row) const {
        V top = broadcast(2 * E::ZERO), sum{};
        for (int t = 0; t < width; t += W) top = max<double>(top, load(row + width + t));
        const double e = maximum<double>(top);
        for (int t = 0; t < width; t += W) {
            const Number x = get(row, t);
            sum += x.m * power_of_two<double>(x.e - e);
        }
        return {BCRF_TARGET::sum<double>(sum), e};
    }

    // Set out = x y.
    void multiply(double* out, const double* x, const double* y) const {
        for (int t = 0; t < width; t += W) set(out, t, normalized<double>(times(get(x, t), get(y, t))));
    }

    // Divide a row by a number.
    void divide(double* row, ScaledNumber by) const {
        for (int t = 0; t < width; t += W) {
            const Number x = get(row, t);
            set(row, t, normalized<double>({x.m / by.m, x.e - by.e}));
        }
    }

    // The product below for COLUMNS vectors of columns, whose sums do not wait for each other.
    template <int COLUMNS> BCRF_INLINE void product_block(double* out, const double* x, const double* k) const {
        const size_t step = 2 * size_t(width);
        V top[COLUMNS], sum[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) top[c] = broadcast(2 * E::ZERO), sum[c] = V{};
        const double* at = k + width;
        for (int u = 0; u < tags; ++u, at += step)
            for (int c = 0; c < COLUMNS; ++c) top[c] = max<double>(top[c], load(at + c * W) + x[width + u]);
        at = k;
        for (int u = 0; u < tags; ++u, at += step)
            for (int c = 0; c < COLUMNS; ++c) {
                const V e = load(at + width + c * W) + x[width + u];
                sum[c] += (load(at + c * W) * x[u]) * power_of_two<double>(e - top[c]);
            }
        for (int c = 0; c < COLUMNS; ++c) set(out, c * W, normalized<double>({sum[c], top[c]}));
    }

    // Set out[v] = sum_u x[u] K[u, v]. k: `tags` rows.
    void product(double* out, const double* x, const double* k) const {
        for (int left = width / W; left > 0;) {
            const int columns = left < 4 ? left : left == 5 ? 3 : 4;
            switch (columns) {
                case 1: product_block<1>(out, x, k); break;
                case 2: product_block<2>(out, x, k); break;
                case 3: product_block<3>(out, x, k); break;
                default: product_block<4>(out, x, k);
            }
            out += columns * W, k += columns * W;
            left -= columns;
        }
    }
};

// Return the largest score, or 0 if none is finite.
template <class In> double top_of(const In* x, size_t n) {
    const double top = largest(x, n);
    return top > -infinity<double> ? top : 0;
}

// exp(scale transitions - shift) of one edge and its transpose.
template <class In> class ScaledEdge : protected ScaledRow {
    const double scale_;
    ScaledRows rows_, columns_;
    const In* loaded_ = nullptr;
    double shift_ = 0;

  public:
    ScaledEdge(int n, double scale) : ScaledRow(n), scale_(scale), rows_(n, width), columns_(n, width) {}

    void load(const In* transitions) {
        if (loaded_ == transitions) return;
        loaded_ = transitions;
        const double top = top_of(transitions, size_t(tags) * tags);
        shift_ = scale_ * top;
        Buffer<In> column(tags);
        for (int u = 0; u < tags; ++u) {
            exponentiate(rows_[u], transitions + size_t(u) * tags, top, scale_);
            for (int v = 0; v < tags; ++v) column[v] = transitions[size_t(v) * tags + u];
            exponentiate(columns_[u], (const In*)column, top, scale_);
        }
    }
    const double* rows() { return rows_[0]; }
    const double* columns() { return columns_[0]; }
    const double* column(int v) { return columns_[v]; }
    double shift() const { return shift_; }
};

// The CRF of one sequence after another.
template <class In> class ScaledChain : ScaledRow {
    Sequence<In> s_{};
    ScaledEdge<In> edge_;
    ScaledRows alpha_{0, 0}, sums_{0, 0};  // (length): prefixes that end in a tag, with its score and without
    Buffer<double> p_, next_, before_, sum_;

    // Compute alpha, divided by a power of 2 for each token. Return the log-partition, or -inf if no
    // labeling is allowed.
    double forward(const Sequence<In>& s) {
        s_ = s;
        alpha_ = ScaledRows(s.length, width);
        sums_ = ScaledRows(s.length, width);
        double exponents = 0, shift = 0;
        for (int i = 0; i < s.length; ++i) {
            check_signals();
            double* here = alpha_[i];
            const In* unary = s.unary + size_t(i) * tags;
            const double top = top_of(unary, tags);
            shift += top;
            exponentiate(here, unary, top, 1);
            if (i > 0) {
                edge_.load(s.edge(i - 1));
                product(sums_[i], alpha_[i - 1], edge_.rows());
                multiply(here, here, sums_[i]);
                shift += edge_.shift();
            }
            const ScaledNumber z = total(here);
            if (!(z.m > 0)) return -infinity<double>;
            exponents += z.e;
            divide(here, {1, z.e});
        }
        return shift + exponents * LOG_2 + total(alpha_[s.length - 1]).log();
    }

    // Set p to the probabilities of the tags of the last token.
    void end(double* p) {
        double* last = alpha_[s_.length - 1];
        const ScaledNumber z = total(last);
        for (int t = 0; t < width; t += W) store(p + t, plain(get(last, t), z));
    }

    // Set p to the probabilities of the tags of token i, given tag v of token i + 1.
    void given_next(int i, int v, double* p) {
        edge_.load(s_.edge(i));
        const double *here = alpha_[i], *column = edge_.column(v), *sums = sums_[i + 1];
        const ScaledNumber z{sums[v], sums[width + v]};
        for (int u = 0; u < width; u += W) store(p + u, plain(times(get(here, u), get(column, u)), z));
    }

    // Go back from the end. Call node(i, p) with the probabilities of the tags of token i, and edge(i, v,
    // p, before) with the probability p of tag v of token i and those of the tags before, given v.
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
        : ScaledRow(batch.tags), edge_(batch.tags, 1), p_(width), next_(width), before_(width) {}

    void sum_product(const Sequence<In>& s, Output<In>& out) {
        out.value = forward(s);
        if (out.value == -infinity<double>) return clear(s, out);
        if (!out.node && !out.sum && !out.each) return;
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

    // Return the entropy, or -inf if there is no allowed labeling.
    double entropy(const Sequence<In>& s) {
        if (forward(s) == -infinity<double>) return -infinity<double>;
        double total = 0;
        go_back([&](int i, const double* p) { total += i + 1 == s.length ? entropy_of(p) : 0; },
                [&](int, int, double p, const double* before) { total += p * entropy_of(before); });
        return total;
    }

    // Set pairs (length, n) to the marginals of tag heads[m] at a token and tails[m] at the next one.
    void pairs(const Sequence<In>& s, int n, const int* heads, const int* tails, In* node, In* pairs) {
        std::fill_n(pairs, size_t(s.length) * n, In(0));
        Output<In> out{0, node, nullptr, nullptr};
        if (forward(s) == -infinity<double>) return clear(s, out);
        go_back(
            [&](int i, const double* p) {
                for (int t = 0; t < tags; ++t) node[size_t(i) * tags + t] = In(p[t]);
            },
            [&](int i, int v, double p, const double* before) {
                for (int m = 0; m < n; ++m)
                    if (tails[m] == v) pairs[size_t(i - 1) * n + m] = In(p * before[heads[m]]);
            });
    }

    // Draw n labelings from uniform numbers (n, stride). Write nothing if no labeling is allowed.
    void sample(const Sequence<In>& s, int n, size_t stride, const double* uniform, int* labels) {
        if (forward(s) == -infinity<double>) return;
        for (int k = 0; k < n; ++k, labels += stride, uniform += stride)
            for (int i = s.length - 1; i >= 0; --i) {
                if (i + 1 == s.length) end(p_);
                else given_next(i, labels[i + 1], p_);
                labels[i] = pick_tag(tags, uniform[i], [&](int t) { return p_[t]; });
            }
    }
};

// Bregman projections of one sequence after another. See Projections for the algorithm.
template <class In> class ScaledProjections : ScaledRow {
    Sequence<In> s_{};
    const double scale_;
    double shift_ = 0;  // of the tag scores
    ScaledEdge<In> edge_;
    ScaledRows root_{0, 0}, f_{0, 0}, g_{0, 0};  // (length): sqrt(e) and the factors
    ScaledRows in_, out_, left_, right_;         // one row each
    Buffer<double> alive_;                       // (length, width)

    // Set sqrt(e), without the tags that no allowed labeling uses. Return false if a position has none
    // left.
    bool load_scores(const Sequence<In>& s) {
        s_ = s;
        const size_t n = s.length;
        root_ = ScaledRows(n, width), f_ = ScaledRows(n, width), g_ = ScaledRows(n, width);
        alive_ = Buffer<double>(n * width);
        double* reached = left_[0];
        shift_ = 0;
        // A mantissa is positive where the transition is allowed.
        for (size_t i = 0; i < n; ++i) {
            const double top = top_of(s.unary + i * tags, tags);
            shift_ += scale_ * top;
            exponentiate(root_[i], s.unary + i * tags, top, scale_ / 2);
            if (i > 0) reach(reached, i - 1, edge_rows(int(i) - 1));
            for (int t = 0; t < width; ++t) alive_[i * width + t] = root_[i][t] > 0 && (i == 0 || reached[t] > 0);
        }
        for (size_t i = n; i-- > 0;) {
            if (i + 1 < n) reach(reached, i + 1, edge_columns(int(i)));
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

    const double* edge_rows(int i) {
        edge_.load(s_.edge(i));
        return edge_.rows();
    }
    const double* edge_columns(int i) {
        edge_.load(s_.edge(i));
        return edge_.columns();
    }

    // Set `reached` to positive numbers where a live tag of a token has an allowed transition. The rows of
    // the matrix have exponents between them.
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

    // Return 1 / sqrt(x).
    static BCRF_INLINE Number inverse_root(Number x) {
        x = normalized<double>(x);
        const V size = x.e < V{} ? -x.e : x.e, y = x.e * 0.5;
        const V half = size < 2251799813685248.0 ? (y + E::ROUND) - E::ROUND : y;
        return {inverse_square_root(x.m * power_of_two<double>(x.e - half * 2.0)), -half};
    }

    // Project token i. Return the violation before the projection.
    double project(int i, double excess) {
        check_signals();
        double *f = f_[i], *g = g_[i], *in = in_[0], *out = out_[0], *left = left_[0], *right = right_[0];
        product(in, g_[i - 1], edge_rows(i - 1));
        product(out, f_[i + 1], edge_columns(i));
        multiply(left, f, in);
        multiply(right, g, out);
        const ScaledNumber sum_in = total(left), sum_out = total(right);
        V gap{};
        for (int t = 0; t < width; t += W) {
            const V m = plain(get(left, t), sum_in), n = plain(get(right, t), sum_out), one = broadcast(1.0);
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
        multiply(left, f, in);
        multiply(right, g, out);
        divide(f, total(left));
        divide(g, total(right));
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

    // Return sum_t p[t] y(t), where y(t) is finite wherever p[t] is positive.
    template <class Y> double expectation(const double* p, Y y) {
        double sum = 0;
        for (int t = 0; t < tags; ++t)
            if (p[t] > 0) sum += std::ldexp(p[t], int(std::max(p[width + t], -4000.0))) * y(t);
        return sum;
    }

    // Add the arcs of edge i, of which z is the sum.
    void write_arcs(int i, ScaledNumber z, Output<In>& result) {
        const double *g = g_[i], *f = f_[i + 1], *k = edge_rows(i);
        for (int u = 0; u < tags; ++u, k += 2 * width) {
            if (!(g[u] > 0)) continue;
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

    // rule: see projection::Unary.
    void write(Output<In>& result, int rule, bool lower) {
        const int n = s_.length;
        const bool halved = rule == projection::MEAN;
        double value = shift_;
        ScaledRows chain(2, width), ratio(1, width);
        double *p = chain[0], *next = chain[1];
        const size_t size = size_t(n) * tags;
        Buffer<double> node(size);
        const auto add = [&](int i, const double* mass, ScaledNumber z, double by) {
            for (int t = 0; t < tags; t += W) {
                double flow[W];
                store(flow, plain(get(mass, t), z));
                for (int k = 0; k < W && t + k < tags; ++k) node[size_t(i) * tags + t + k] += flow[k] * by;
            }
        };
        // The logarithm of e.
        const auto score = [&](int i, int t) { return 2 * at(root_[i], t).log(); };
        for (int i = 0; i + 1 < n; ++i) {
            check_signals();
            const double *g = g_[i], *f = f_[i + 1], *here = f_[i], *root = root_[i];
            double *in = in_[0], *out = out_[0], *flow_in = left_[0], *flow_out = right_[0];
            product(out, f, edge_columns(i));
            product(in, g, edge_rows(i));
            multiply(flow_out, g, out);
            multiply(flow_in, f, in);
            const ScaledNumber z = total(flow_out);
            value += edge_.shift();
            if (rule != projection::CHAIN) {
                add(i, flow_out, z, halved && i > 0 ? 0.5 : 1);
                if (halved || i + 2 == n) add(i + 1, flow_in, total(flow_in), i + 2 == n ? 1 : 0.5);
            }
            for (int t = 0; rule == projection::CHAIN && t < tags; ++t)
                node[size_t(i) * tags + t] = !(root[t] > 0) ? -infinity<double>
                                             : ScaledNumber::log_ratio(
                                                   at(i == 0 ? g : here, t), i == 0 ? z : at(out, t)) -
                                                   edge_.shift();
            if (result.sum || result.each) write_arcs(i, z, result);
            if (!lower) {
                value += z.log();
                // Subtract the log of the scale by which f g exceeds e.
                if (i == 0) continue;
                multiply(flow_in, here, g);
                multiply(flow_out, root, root);
                value -= total(flow_in).log() - total(flow_out).log();
                continue;
            }
            if (i == 0) {
                std::copy_n(flow_out, 2 * width, p);
                divide(p, z);
                value += expectation(p, [&](int t) { return score(0, t); });
            }
            // Arcs of the feasible chain: p[u] K f[v] / (sum_x K f[x]).
            double* flow = ratio[0];
            for (int t = 0; t < width; t += W) {
                const Number x = get(p, t), y = get(out, t);
                const V one = broadcast(1.0), dead = x.m > V{} ? V{} : one;
                set(flow, t, normalized<double>({x.m / (y.m + dead), x.e - y.e}));
            }
            product(next, flow, edge_rows(i));
            multiply(next, next, f);
            value -= expectation(p, [&](int t) { return at(flow, t).log(); });
            std::swap(p, next);
            value += expectation(p, [&](int t) { return score(i + 1, t) - at(f, t).log(); });
        }
        for (int t = 0; rule == projection::CHAIN && t < tags; ++t)
            node[size_t(n - 1) * tags + t] =
                root_[n - 1][t] > 0 ? at(f_[n - 1], t).log() : -infinity<double>;
        if (result.node)
            for (size_t k = 0; k < size; ++k) result.node[k] = In(node[k]);
        result.value = value;
    }

    // The result of a sequence of one token.
    void softmax(Output<In>& result, int rule) {
        multiply(left_[0], root_[0], root_[0]);
        const ScaledNumber z = total(left_[0]);
        result.value = shift_ + z.log();
        for (int t = 0; t < tags; ++t) {
            const double x = ScaledNumber::log_ratio(at(left_[0], t), z);
            result.node[t] = In(rule == projection::CHAIN ? (left_[0][t] > 0 ? x : -infinity<double>) : std::exp(x));
        }
    }

  public:
    ScaledProjections(const Batch<In>& batch, double scale)
        : ScaledRow(batch.tags), scale_(scale), edge_(batch.tags, scale), in_(1, width), out_(1, width),
          left_(1, width), right_(1, width) {}

    void run(const Sequence<In>& s, const BregmanOptions& options, Output<In>& result) {
        if (!load_scores(s)) return clear(s, result);
        if (s.length == 1) return softmax(result, options.unary);
        start();
        iterate(options);
        write(result, options.unary, options.lower);
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
