// Iterative Bregman projections (Corro et al. 2025, Algorithm 1) on node factors.
//
// A projection at an inner node multiplies all arcs into it by one number and all arcs out of it by
// another, so the iterate is q[i, u, v] = K[u, v] g[i, u] f[i+1, v] throughout and only f and g are
// kept. With in[v] = sum_u K[u, v] g[i-1, u] and out[v] = sum_x K[v, x] f[i+1, x], and
// f g = exp(unary) up to a scale, the projected factors are f ~ sqrt(e out / in), g ~ sqrt(e in / out).
#ifndef BCRF_BREGMAN_HH
#define BCRF_BREGMAN_HH

#include "bregman_options.hh"
#include "for_each_sequence.hh"
#include "log_space.hh"
#include "pair_sums.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R, class In> class Projections {
    static constexpr int ROWS = 4;  // positions of one parity projected together
    // What the finite scores of a sequence may span, and the factors in the end, for R to hold
    // every product of a score and a factor.
    static constexpr double MAX_RANGE = sizeof(R) == 4 ? 60 : 600;
    static constexpr R MAX_FACTOR = sizeof(R) == 4 ? R(1e30) : R(1e280);

    int tags_, width_;
    double scale_;
    Matrices<R, In> matrices_;
    Buffer<R> e_, f_, g_;     // (longest, width)
    Buffer<R> in_, out_;      // (ROWS, width)
    PairSums<R> pairs_;

    R* e(int i) { return e_ + size_t(i) * width_; }
    R* f(int i) { return f_ + size_t(i) * width_; }
    R* g(int i) { return g_ + size_t(i) * width_; }
    R* in(int r) { return in_ + size_t(r) * width_; }
    R* out(int r) { return out_ + size_t(r) * width_; }

    // e = exp(unary - its maximum); false if the scores span more than R can hold.
    bool load(const Sequence<In>& s, double& shift) {
        matrices_.load(s);
        for (int i = 0; i + 1 < s.length; ++i) shift += matrices_.shift(i);
        for (int i = 0; i < s.length; ++i) {
            const In* unary = s.unary + size_t(i) * tags_;
            double top = largest(unary, tags_);
            if (top == -infinity<double>) return false;
            shift += top * scale_;
            R* row = e(i);
            load_row(row, unary, top, tags_);
            scale_row(row, R(scale_), tags_);
            R low = 0;
            for (int t = 0; t < tags_; ++t)
                low = row[t] < low && row[t] > -infinity<R> ? row[t] : low;
            if (matrices_.range() - low > MAX_RANGE) return false;
            exponentiate(row, width_);
        }
        return true;
    }

    // Clears e of the tags that no allowed labeling of the whole sequence uses.
    void prune(const Sequence<In>& s) {
        R* alive = f_;
        R* reached = in(0);
        for (int i = 0; i < s.length; ++i) {
            if (i > 0)
                product<SumProduct>(reached, alive + size_t(i - 1) * width_,
                                    matrices_.rows(i - 1), tags_, width_);
            for (int t = 0; t < width_; ++t)
                alive[size_t(i) * width_ + t] = R(e(i)[t] > 0 && (i == 0 || reached[t] > 0));
        }
        for (int i = s.length - 1; i >= 0; --i) {
            R* here = alive + size_t(i) * width_;
            if (i + 1 < s.length) {
                product<SumProduct>(reached, here + width_, matrices_.columns(i), tags_, width_);
                for (int t = 0; t < width_; ++t) here[t] *= R(reached[t] > 0);
            }
            for (int t = 0; t < width_; ++t) e(i)[t] *= here[t];
        }
    }

    bool start(const Sequence<In>& s) {
        for (int i = 0; i < s.length; ++i) {
            Vec<R> any{};
            for (int t = 0; t < width_; t += lanes<R>) {
                Vec<R> x = BCRF_TARGET::load(e(i) + t), root = square_root<R>(x);
                any += x;
                store(f(i) + t, i + 1 == s.length ? x : root);
                store(g(i) + t, i == 0 ? x : root);
            }
            if (sum<R>(any) == 0) return false;
        }
        return true;
    }

    // How many of the positions left to take at once: blocks of even size, since a product of one
    // row takes nearly as long as one of two.
    static int block(int left) {
        const int blocks = (left + ROWS - 1) / ROWS;
        return (left + blocks - 1) / blocks;
    }

    // in = K^T g[i-1] and out = K f[i+1] for `rows` <= ROWS positions i, i + step, ...
    void sums(const Sequence<In>& s, int i, int rows, int step) {
        if (s.shared) {
            const R *before[ROWS], *after[ROWS];
            R *into[ROWS], *outof[ROWS];
            for (int r = 0; r < rows; ++r) {
                before[r] = g(i + r * step - 1);
                after[r] = f(i + r * step + 1);
                into[r] = in(r);
                outof[r] = out(r);
            }
            product<SumProduct>(rows, into, before, matrices_.rows(0), tags_, width_);
            product<SumProduct>(rows, outof, after, matrices_.columns(0), tags_, width_);
            return;
        }
        for (int r = 0; r < rows; ++r) {
            int at = i + r * step;
            product<SumProduct>(in(r), g(at - 1), matrices_.rows(at - 1), tags_, width_);
            product<SumProduct>(out(r), f(at + 1), matrices_.columns(at), tags_, width_);
        }
    }

    // Projects position i, relaxed by `excess` over 1. Where arcs in and out carry the masses m and
    // n, the plain f and g make them meet at sqrt(m n). Multiplying out by A and in by B,
    // A / B = ((1 + excess) n + (1 - excess) m) / ((1 - excess) n + (1 + excess) m), moves on beyond
    // by a bounded factor, and f g stays e. Masses under SMALL move plainly, so that no product
    // leaves the range of R.
    // Returns by how much the tag marginals of arcs in and arcs out differed, if `watched`.
    template <bool RELAXED, bool WATCHED> R project(int i, int r, R excess) {
        const R zero = 0, more = 1 + excess, less = 1 - excess;
        R *fi = f(i), *gi = g(i), *ei = e(i), *into = in(r), *outof = out(r);
        Vec<R> sum_in{}, sum_out{}, gap{};
        for (int t = 0; t < width_; t += lanes<R>) {
            const Vec<R> ev = BCRF_TARGET::load(ei + t);
            const Vec<R> iv = BCRF_TARGET::load(into + t), ov = BCRF_TARGET::load(outof + t);
            const Vec<R> dead = ev > zero ? broadcast<R>(0) : broadcast<R>(1);
            Vec<R> up = ov, down = iv;
            if (RELAXED || WATCHED) {
                const Vec<R> mass_in = BCRF_TARGET::load(fi + t) * iv;
                const Vec<R> mass_out = BCRF_TARGET::load(gi + t) * ov;
                if (RELAXED) {
                    up *= more * mass_out + less * mass_in + R(SMALL);
                    down *= less * mass_out + more * mass_in + R(SMALL);
                }
                if (WATCHED) {
                    const Vec<R> difference = mass_out - mass_in;
                    gap += difference > zero ? difference : -difference;
                }
            }
            const Vec<R> h = square_root<R>(ev / (up * down + dead));
            const Vec<R> fv = h * up, gv = h * down;
            sum_in += fv * iv;
            sum_out += gv * ov;
            store(fi + t, fv);
            store(gi + t, gv);
        }
        const R to_f = 1 / sum<R>(sum_in), to_g = 1 / sum<R>(sum_out);
        for (int t = 0; t < width_; t += lanes<R>) {
            store(fi + t, BCRF_TARGET::load(fi + t) * to_f);
            store(gi + t, BCRF_TARGET::load(gi + t) * to_g);
        }
        return WATCHED ? sum<R>(gap) : zero;
    }

    template <bool RELAXED, bool WATCHED> R sweep(const Sequence<In>& s, R excess) {
        R violation = 0;
        for (int first = 1; first <= 2; ++first)
            for (int i = first, rows = 0; i + 1 < s.length; i += 2 * rows) {
                rows = block((s.length - i) / 2);
                sums(s, i, rows, 2);
                for (int r = 0; r < rows; ++r) {
                    const R gap = project<RELAXED, WATCHED>(i + 2 * r, r, excess);
                    violation = gap > violation ? gap : violation;
                }
            }
        return violation;
    }

    void iterate(const Sequence<In>& s, const BregmanOptions& options) {
        // The first projection is plain: relaxing needs arcs that sum to one.
        sweep<false, false>(s, 0);
        double omega = options.first(), last = infinity<double>;
        for (int k = 1; k < options.n_iter; ++k) {
            const R excess = R(omega - 1);
            if (!options.watched()) {
                if (excess == 0)
                    sweep<false, false>(s, excess);
                else
                    sweep<true, false>(s, excess);
                continue;
            }
            const double violation = sweep<true, true>(s, excess);
            if (violation <= options.tolerance) return;
            if (options.relaxation == 0) omega = estimate_relaxation(violation, last, omega);
            last = violation;
        }
    }

    // Every factor of an allowed tag has to be well inside the range of R, or an arc was lost.
    bool in_range(int i) {
        for (int t = 0; t < tags_; ++t) {
            const R x = f(i)[t], y = g(i)[t];
            if (e(i)[t] > 0 && !(x < MAX_FACTOR && y < MAX_FACTOR && x > 1 / MAX_FACTOR && y > 1 / MAX_FACTOR))
                return false;
        }
        return true;
    }

    // log of the scale by which f g exceeds e at position i
    double log_scale(int i) {
        double best = 0;
        int at = 0;
        for (int t = 0; t < tags_; ++t) {
            const double x = double(f(i)[t]) * g(i)[t];
            if (x > best) best = x, at = t;
        }
        return std::log(best / e(i)[at]);
    }

    // By how much <p, w> + H(p) is less than the dual value, where p is the Markov chain that starts
    // as q and moves by q's conditionals, a point of the polytope: the sum over positions but the last of
    // the divergence of p's tags from q's flow out, which `finish` left in e. False if R has lost
    // some of that flow.
    bool feasible_gap(const Sequence<In>& s, double& gap) {
        const R zero = 0, tiny = std::numeric_limits<R>::min();
        R *p = in(0), *next = in(1), *x = out(0);
        std::memcpy(p, e(0), width_ * sizeof(R));
        for (int i = 0; i + 1 < s.length; ++i) {
            const R *flow = e(i), *gi = g(i);
            Vec<R> mass{};
            for (int t = 0; t < width_; t += lanes<R>) mass += BCRF_TARGET::load(p + t);
            const R normalize = 1 / sum<R>(mass);
            Vec<R> divergence{}, lost{};
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> pv = BCRF_TARGET::load(p + t) * normalize;
                const Vec<R> fv = BCRF_TARGET::load(flow + t);
                // Tags of no mass add nothing.
                const Vec<R> none = pv > tiny ? broadcast<R>(0) : broadcast<R>(1);
                lost += fv + none > tiny ? broadcast<R>(0) : broadcast<R>(1);
                const Vec<R> ratio = (pv + none) / (fv > tiny ? fv : broadcast<R>(1));
                divergence += pv * logarithm(none > zero ? broadcast<R>(1) : ratio);
                store(x + t, none > zero ? broadcast<R>(0) : ratio * BCRF_TARGET::load(gi + t));
            }
            if (sum<R>(lost) > 0) return false;
            gap += double(sum<R>(divergence));
            product<SumProduct>(next, (const R*)x, matrices_.rows(i), tags_, width_);
            for (int t = 0; t < width_; t += lanes<R>)
                store(p + t, BCRF_TARGET::load(next + t) * BCRF_TARGET::load(f(i + 1) + t));
        }
        return true;
    }

    // Marginals, and the dual value: the sum of the edges' log-normalizers less the scales. The
    // tags' flow out replaces e.
    bool finish(const Sequence<In>& s, Output<In>& result, LogProduct& value) {
        if (s.length == 2) {
            product<SumProduct>(in(0), g(0), matrices_.rows(0), tags_, width_);
            R z = 0;
            for (int t = 0; t < tags_; ++t) z += f(1)[t] * in(0)[t];
            if (!(z > 1 / MAX_FACTOR)) return false;
            value.multiply(double(z));
            for (int t = 0; t < width_; ++t) f(1)[t] /= z;
        }
        product<SumProduct>(out(0), f(1), matrices_.columns(0), tags_, width_);
        write_node(s, 0, 0, result.node);
        for (int i = 1, rows = 0; i + 1 < s.length; i += rows) {
            rows = block(s.length - 1 - i);
            sums(s, i, rows, 1);
            for (int r = 0; r < rows; ++r) {
                if (!in_range(i + r)) return false;
                value.add(-log_scale(i + r));
                write_node(s, i + r, r, result.node);
            }
        }
        const int last = s.length - 1;
        product<SumProduct>(in(0), g(last - 1), matrices_.rows(last - 1), tags_, width_);
        write_node(s, last, 0, result.node);
        return true;
    }

    // Tag marginals at position i: at inner positions the mean of flow in and flow out. The latter,
    // or at the last position the former, replaces e.
    void write_node(const Sequence<In>& s, int i, int r, In* node) {
        const bool first = i == 0, last = i + 1 == s.length;
        const R *before = first ? out(r) : in(r), *after = last ? in(r) : out(r);
        const R *left = first ? g(i) : f(i), *right = last ? f(i) : g(i);
        R* flow = e(i);
        node += size_t(i) * tags_;
        for (int t = 0; t < tags_; ++t) {
            flow[t] = right[t] * after[t];
            node[t] = In((left[t] * before[t] + flow[t]) * R(0.5));
        }
    }

  public:
    Projections(const Batch<In>& batch, int longest, double scale)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), scale_(scale),
          matrices_(batch, longest, scale),
          e_(size_t(longest) * width_), f_(size_t(longest) * width_), g_(size_t(longest) * width_),
          in_(ROWS * width_), out_(ROWS * width_), pairs_(batch.tags) {}

    // False if the sequence needs more range than R has.
    bool run(const Sequence<In>& s, const BregmanOptions& options, Output<In>& result) {
        double shift = 0;
        if (!load(s, shift)) return false;
        // Without forbidden transitions every allowed tag is in some labeling.
        if (matrices_.zeros()) prune(s);
        if (!start(s)) {
            log_space::clear(s, result);
            return true;
        }
        LogProduct value;
        value.add(shift);
        if (s.length == 1) {
            softmax(s, result, value);
            return true;
        }
        if (s.length > 2) iterate(s, options);
        if (!finish(s, result, value)) return false;
        double gap = 0;
        if (options.lower && !feasible_gap(s, gap)) return false;
        result.value = value.log() - gap;
        if (result.sum) pairs_.add(g(0), f(1), s.length - 1, matrices_.rows(0), result.sum);
        if (result.each) write_arcs(result.each, g(0), f(1), matrices_, s.length - 1);
        return true;
    }

    void softmax(const Sequence<In>& s, Output<In>& result, LogProduct& value) {
        double z = 0;
        for (int t = 0; t < tags_; ++t) z += e(0)[t];
        value.multiply(z);
        for (int t = 0; t < tags_; ++t) result.node[t] = In(e(0)[t] / z);
        result.value = value.log();
    }

    void flush(double* total) { pairs_.flush(matrices_.rows(0), total); }
};

// Projections as precise as the scores, then in double, then on logarithms, until the range suffices.
template <class In> class Bregman {
    const Batch<In>& batch_;
    const BregmanOptions& options_;
    Projections<In, In> narrow_;
    std::unique_ptr<Projections<double, In>> wide_;  // made when a sequence needs it

    bool run_wide(const Sequence<In>& s, Output<In>& out) {
        if (sizeof(In) == 8) return false;
        if (!wide_) wide_.reset(new Projections<double, In>(batch_, batch_.longest(), options_.scale));
        return wide_->run(s, options_, out);
    }

  public:
    Bregman(const Batch<In>& batch, const BregmanOptions& options)
        : batch_(batch), options_(options), narrow_(batch, batch.longest(), options.scale) {}

    void run(const Sequence<In>& s, Output<In>& out) {
        if (narrow_.run(s, options_, out) || run_wide(s, out)) return;
        log_space::bregman(s, options_, out);
    }

    void flush(double* sum) {
        narrow_.flush(sum);
        if (wide_) wide_->flush(sum);
    }
};

template <class In>
void bregman(const Batch<In>& batch, const BregmanOptions& options, In* value,
                              In* node, double* sum, In* each) {
    for_each_sequence(
        batch, (2 * options.n_iter + 3) * pass(batch), sum,
        [&] { return Bregman<In>(batch, options); },
        [&](Bregman<In>& chain, const Sequence<In>& s, double* own) {
            Output<In> out = output(s, node, own, each);
            chain.run(s, out);
            value[s.index] = In(out.value);
        });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf

#endif
