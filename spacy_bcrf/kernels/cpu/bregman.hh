// Iterative Bregman projections on the factors f and g of ../shared/projection.hh, in vectors.
#pragma once

#include "../shared/projection.hh"
#include "bregman_options.hh"
#include "crf.hh"
#include "for_each_sequence.hh"
#include "lane_bregman.hh"
#include "median_range.hh"
#include "pair_sums.hh"
#include "scaled_projections.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R, class In> class Projections {
    using Limits = Precision<R>;
    static constexpr int ROWS = 4;  // tokens of one parity projected together

    int tags_, width_;
    double scale_;
    Matrices<R, In> matrices_;
    Buffer<R> e_, f_, g_;     // (longest, width)
    Buffer<R> in_, out_;      // (ROWS, width)
    Buffer<R> scores_;        // (width)
    PairSums<R> pairs_;

    R* e(int i) { return e_ + size_t(i) * width_; }
    R* f(int i) { return f_ + size_t(i) * width_; }
    R* g(int i) { return g_ + size_t(i) * width_; }
    R* in(int r) { return in_ + size_t(r) * width_; }
    R* out(int r) { return out_ + size_t(r) * width_; }

    // Set e = exp(unary - its maximum) and add the maxima to `shift`. Return false if the scores have
    // too large a range for R.
    bool load(const Sequence<In>& s, double& shift) {
        matrices_.load(s);
        shift += matrices_.shifts(s.length - 1);
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
            // The CUDA kernels add the range of the token's own edge, not of the widest one.
            if (matrices_.range() - low > Limits::MAX_RANGE) return false;
            exponentiate(row, width_);
        }
        return true;
    }

    // Clear e of the tags that no allowed labeling of the sequence uses.
    void prune(const Sequence<In>& s) {
        R* alive = f_;  // workspace, before `start` sets the factors
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

    // Set the first f and g. Return false if a token has no allowed tag.
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

    // Return how many of the remaining tokens to take at once. Blocks have similar sizes, because a
    // product of one row takes nearly as long as a product of two.
    static int block(int left) {
        const int blocks = (left + ROWS - 1) / ROWS;
        return (left + blocks - 1) / blocks;
    }

    // Set in = K^T g[i-1] and out = K f[i+1] for `rows` <= ROWS tokens i, i + step, ...
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

    // Project token i. If WATCHED, return the violation before the projection: the L1 distance between
    // the tag marginals of the arcs in and of the arcs out.
    template <bool RELAXED, bool WATCHED> R project(int i, int r, R excess) {
        R *fi = f(i), *gi = g(i), *ei = e(i), *into = in(r), *outof = out(r);
        Vec<R> sum_in{}, sum_out{}, violation{};
        for (int t = 0; t < width_; t += lanes<R>) {
            const Vec<R> ev = BCRF_TARGET::load(ei + t);
            const Vec<R> iv = BCRF_TARGET::load(into + t), ov = BCRF_TARGET::load(outof + t);
            Vec<R> fv = BCRF_TARGET::load(fi + t), gv = BCRF_TARGET::load(gi + t);
            Vec<R> square, gap;
            projection::project(ev, iv, ov, excess, RELAXED, fv, gv, square, gap);
            const Vec<R> h = square_root<R>(square);
            fv *= h, gv *= h;
            if (WATCHED) violation += gap;
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
        return WATCHED ? sum<R>(violation) : R(0);
    }

    // Project every second inner token from `first` on. Return the largest violation, if WATCHED.
    template <bool RELAXED, bool WATCHED> R project_all(const Sequence<In>& s, int first, R excess) {
        R violation = 0;
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

    // Run the iterations, until the violation is within the tolerance.
    void iterate(const Sequence<In>& s, const BregmanOptions& options) {
        projection::Relaxation relaxation;
        for (int k = 0; k < options.n_iter; ++k) {
            check_signals();
            const R excess = R(relaxation.omega - 1);
            const int first = projection::first_position(k);
            const R violation =
                k > 1 && options.needs_violation() ? project_all<true, true>(s, first, excess)
                : excess == 0                      ? project_all<false, false>(s, first, excess)
                                                   : project_all<true, false>(s, first, excess);
            if (relaxation.update(k, violation, options.relaxation, options.tolerance)) return;
        }
    }

    bool in_range(int i) {
        for (int t = 0; t < tags_; ++t)
            if (e(i)[t] > 0 && !Limits::holds(f(i)[t], g(i)[t])) return false;
        return true;
    }

    // Return the log of the scale by which f g exceeds e at token i, whose sums are in row r. R may have lost the
    // product of a tag of little mass.
    double log_scale(int i, int r) {
        R most = 0;
        int at = 0;
        for (int t = 0; t < tags_; ++t) {
            const R mass = f(i)[t] * in(r)[t] + g(i)[t] * out(r)[t];
            if (mass > most) most = mass, at = t;
        }
        // The product of two factors may be out of range.
        return std::log(double(f(i)[at])) + std::log(double(g(i)[at])) - std::log(double(e(i)[at]));
    }

    // Add to `gap` the dual value minus <p, w> + H(p), where p is a point of the polytope: the Markov
    // chain with q's first marginals and q's transition probabilities. It is the sum over all tokens
    // but the last of the divergence between p's tag marginals and q's flow out, which `finish` has
    // stored in e. Return false if R has lost some of the flow.
    bool duality_gap(const Sequence<In>& s, double& gap) {
        const R zero = 0, tiny = Limits::MIN_NORMAL;
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
                // Tags without mass contribute nothing.
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

    // Divide a row of factors of edge i by the sum of the edge's arcs. Set z to the sum. Return false
    // if R has lost the arcs.
    bool normalize(int i, R* row, R& z) {
        product<SumProduct>(in(0), g(i), matrices_.rows(i), tags_, width_);
        z = 0;
        for (int t = 0; t < tags_; ++t) z += f(i + 1)[t] * in(0)[t];
        if (!(z > 1 / Limits::MAX_FACTOR && z < Limits::MAX_FACTOR)) return false;
        for (int t = 0; t < width_; ++t) row[t] /= z;
        return true;
    }

    // Write the result of each token, and add the dual value to `value`: the log-normalizers of the
    // edges minus the log-scales of the tokens. The flow out of each tag replaces e. Return false if
    // R has lost an arc.
    bool finish(const Sequence<In>& s, int n_iter, int rule, Output<In>& result, LogProduct& value) {
        // A projection normalizes the arcs of both edges. One iteration leaves out the first edge, and
        // may leave out the last. The log-scale of the inner token includes the normalizer.
        R z;
        if (s.length == 2) {
            if (!normalize(0, f(1), z)) return false;
            value.multiply(double(z));
        } else if (n_iter == 1) {
            const int last_edge = s.length - 2;
            if (!normalize(0, f(1), z) || !normalize(last_edge, g(last_edge), z)) return false;
        }
        product<SumProduct>(out(0), f(1), matrices_.columns(0), tags_, width_);
        if (!write_node(s, 0, 0, rule, result.node)) return false;
        for (int i = 1, rows = 0; i + 1 < s.length; i += rows) {
            rows = block(s.length - 1 - i);
            sums(s, i, rows, 1);
            for (int r = 0; r < rows; ++r) {
                if (!in_range(i + r)) return false;
                value.add(-log_scale(i + r, r));
                if (!write_node(s, i + r, r, rule, result.node)) return false;
            }
        }
        const int last = s.length - 1;
        product<SumProduct>(in(0), g(last - 1), matrices_.rows(last - 1), tags_, width_);
        return write_node(s, last, 0, rule, result.node);
    }

    // Write the result of token i, see projection::Unary. The flow out replaces e; at the last token,
    // which has none, the flow in does. Return false if R has lost an arc.
    bool write_node(const Sequence<In>& s, int i, int r, int rule, In* node) {
        const bool first = i == 0, last = i + 1 == s.length;
        const R *before = first ? out(r) : in(r), *after = last ? in(r) : out(r);
        const R *left = first ? g(i) : f(i), *right = last ? f(i) : g(i);
        R* flow = e(i);
        node += size_t(i) * tags_;
        if (rule == projection::CHAIN && !write_chain(i, first, last, after, node)) return false;
        for (int t = 0; t < tags_; ++t) {
            flow[t] = right[t] * after[t];
            if (rule == projection::OUTGOING) node[t] = In(flow[t]);
            if (rule == projection::MEAN) node[t] = In((left[t] * before[t] + flow[t]) * R(0.5));
        }
        return true;
    }

    // Write the scores of token i in the Markov chain of the arcs: log g f / flow out at an inner
    // token, log g at the first, log f at the last. g / flow out is 1 / after, the sum of the arcs out
    // over g. Return false if it has underflowed.
    bool write_chain(int i, bool first, bool last, const R* after, In* node) {
        const R *ei = e(i), *gi = g(i), *fi = f(i), tiny = Limits::MIN_NORMAL;
        const double shift = last ? 0 : matrices_.shift(i);
        R* scores = scores_;
        Vec<R> lost{};
        const Vec<R> one = broadcast<R>(1);
        for (int t = 0; t < width_; t += lanes<R>) {
            const Vec<R> forbidden = BCRF_TARGET::load(ei + t) > R(0) ? Vec<R>{} : one;
            const Vec<R> x = BCRF_TARGET::load((first ? gi : fi) + t) + forbidden;
            const Vec<R> y = first || last ? one : BCRF_TARGET::load(after + t) + forbidden;
            lost += y < tiny ? one : Vec<R>{};
            store(scores + t, logarithm(x) - logarithm(y < tiny ? one : y));
        }
        if (sum<R>(lost) > 0) return false;
        for (int t = 0; t < tags_; ++t)
            node[t] = ei[t] > 0 ? In(scores[t] - shift) : -infinity<In>;
        return true;
    }

  public:
    Projections(const Batch<In>& batch, int longest, double scale)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), scale_(scale),
          matrices_(batch, longest, scale),
          e_(size_t(longest) * width_), f_(size_t(longest) * width_), g_(size_t(longest) * width_),
          in_(ROWS * width_), out_(ROWS * width_), scores_(width_), pairs_(batch.tags) {}

    // Return false if the sequence needs more range than R has.
    bool run(const Sequence<In>& s, const BregmanOptions& options, Output<In>& result) {
        double shift = 0;
        if (!load(s, shift)) return false;
        // Without forbidden transitions, an allowed labeling uses every allowed tag.
        if (matrices_.zeros()) prune(s);
        if (!start(s)) {
            clear(s, result);
            return true;
        }
        LogProduct value;
        value.add(shift);
        if (s.length == 1) {
            softmax(s, options.unary, result, value);
            return true;
        }
        if (s.length > 2) iterate(s, options);
        if (!finish(s, options.n_iter, options.unary, result, value)) return false;
        double gap = 0;
        if (options.lower && !duality_gap(s, gap)) return false;
        result.value = value.log() - gap;
        if (result.sum) pairs_.add(g(0), f(1), s.length - 1, matrices_.rows(0), result.sum);
        if (result.each) write_arcs(result.each, g(0), f(1), matrices_, s.length - 1);
        return true;
    }

    void softmax(const Sequence<In>& s, int rule, Output<In>& result, LogProduct& value) {
        double z = 0;
        for (int t = 0; t < tags_; ++t) z += e(0)[t];
        value.multiply(z);
        for (int t = 0; t < tags_; ++t) {
            const double p = e(0)[t] / z;
            result.node[t] = In(rule == projection::CHAIN ? std::log(p) : p);
        }
        result.value = value.log();
    }

    void flush(double* total) { pairs_.flush(matrices_.rows(0), total); }
};

#if defined(__GNUC__)
// Compute a long sequence in pieces. Return false if it needs more range. chain: may be null.
template <class N, class In>
bool bregman_long(const Batch<In>& batch, const BregmanOptions& options, Place place, const In* end,
                  const Outputs<In>& out, ArcChain<In>* chain) {
    const size_t pairs = size_t(batch.tags) * batch.tags;
    const int n = batch.lengths[place.index];
    const LiveTags live_tags(batch);
    std::vector<TagSet> alive;
    if (live_tags.has_forbidden()) {
        alive.resize(n);
        if (!live_tags.find(batch.unary + place.first * batch.tags, n, alive.data())) return false;
    }
    const std::vector<Piece> pieces = cut(place, n, options.n_iter, alive.empty() ? nullptr : alive.data());
    int longest = 0;
    for (const Piece& piece : pieces) longest = std::max(longest, piece.length);
    // A sequence that fails must not change the sum.
    Buffer<double> own(out.sum ? pairs : 0);
    std::vector<double> values(pieces.size());
    std::vector<char> failed(pieces.size());
    using Lanes = LaneProjections<N, In>;
    for_each_item(
        batch, pieces.size(), [&](size_t i) { return size_t(pieces[i].length); },
        0.3 * (options.n_iter + 3) * pass(batch), out.sum ? own.data() : nullptr,
        [&] { return Lanes(batch, options, end, slots_of(longest)); },
        [&](Lanes& lanes, size_t i, double* part) {
            lanes.run(&pieces[i], 1, values.data(), out.node, chain, part, failed.data());
        },
        [](Lanes& lanes, double* part) { lanes.flush(part); });
    double total = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        if (failed[i]) return false;
        total += values[i];
    }
    out.value[place.index] = In(total);
    for (size_t k = 0; out.sum && k < pairs; ++k) out.sum[k] += own[k];
    return true;
}
#endif

// Compute sequences in lanes with the arithmetic N, and the others in rows of R, or not at all if R is
// void. share: see `cluster`. chain: of the sequences in lanes, or null. Return the sequences that are left.
template <class N, class R, class In>
std::vector<Place> bregman_in(const Batch<In>& batch, const std::vector<Place>& all, double share,
                              const BregmanOptions& options, const Outputs<In>& out, ArcChain<In>* chain) {
    std::vector<char> failed(batch.size);
    std::vector<Place> which(all);
    const double work = (options.n_iter + 3) * pass(batch);
#if defined(__GNUC__)
    // A single iteration has its own normalization.
    if (batch.shared && !out.each && !options.lower && options.n_iter > 1) {
        const In* end = batch.unary + batch.tokens() * batch.tags;
        using Lanes = LaneProjections<N, In>;
        if (are_lanes_faster<N>(batch) && !options.needs_violation())
            for (Place place : take_long(batch, which))
                failed[place.index] = !bregman_long<N>(batch, options, place, end, out, chain);
        std::vector<Piece> moved;
        const std::vector<Cluster> clusters = cluster<N>(batch, share, which, moved);
        size_t slots = 0;
        for (const Cluster& c : clusters) slots = std::max(slots, c.slots);
        for_each_item(
            batch, clusters.size(), [&](size_t i) { return clusters[i].tokens; }, 0.3 * work, out.sum,
            [&] { return Lanes(batch, options, end, slots); },
            [&](Lanes& lanes, size_t i, double* own) {
                const Cluster& c = clusters[i];
                lanes.run(&moved[c.first], c.last - c.first, out.value, out.node, chain, own, failed.data());
            },
            [](Lanes& lanes, double* own) { lanes.flush(own); });
        if (chain) {
            for (Place place : all) chain->found[place.index] = !failed[place.index];
            for (Place place : which) chain->found[place.index] = 0;
        }
    }
#endif
    if constexpr (std::is_void<R>::value)
        for (Place place : which) failed[place.index] = 1;
    else
        for_each_output(
            batch, which, work, out,
            [&] { return Projections<R, In>(batch, longest(batch, which), options.scale); },
            [&](Projections<R, In>& chain, const Sequence<In>& s, Output<In>& own) {
                const bool done = chain.run(s, options, own);
                failed[s.index] = !done;
                return done;
            },
            [](Projections<R, In>& chain, double* own) { chain.flush(own); });
    return select(all, failed);
}

// Projections in the precision of the scores. A sequence that needs more range gets double precision, or
// Scaled numbers. chain: see `bregman_in`.
template <class In>
void bregman_values(const Batch<In>& batch, std::vector<Place> left, const BregmanOptions& options,
                    const Outputs<In>& out, ArcChain<In>* chain = nullptr) {
    if (left.empty()) return;
    const auto run = [&](auto arithmetic, auto rows, double share) {
        using R = typename decltype(rows)::type;
        if (!left.empty()) left = bregman_in<decltype(arithmetic), R>(batch, left, share, options, out, chain);
    };
    // With more tags, rows fill their vectors too.
    const double share = batch.tags < 32 || are_blocks_faster(batch) ? 0.4 : 0.7;
    const double range = options.scale * median_range(batch);
    if (!(range > Precision<In>::MAX_RANGE)) run(Plain<In>(), Rows<In>(), share);
    // Rows find a lower bound slowly, and vectors of two doubles have few lanes.
    if (chain && lanes<double> < 4) run(Wide<In>(), Rows<void>(), 0);
    if (sizeof(In) == 4 && !(range > Precision<double>::MAX_RANGE)) {
        if (range > Precision<In>::MAX_RANGE && are_scaled_floats_faster(batch, options.scale))
            run(Wide<In>(), Rows<void>(), SCALED_FLOATS_SHARE);
        // Scores of a moderate range leave few sequences after this.
        run(Plain<double>(), Rows<double>(), share);
    }
    run(Wide<In>(), Rows<void>(), 0);
    for_each_output(
        batch, left, 3 * (options.n_iter + 3) * pass(batch), out,
        [&] { return ScaledProjections<In>(batch, options.scale); },
        [&](ScaledProjections<In>& projections, const Sequence<In>& s, Output<In>& own) {
            projections.run(s, options, own);
            return true;
        },
        [](ScaledProjections<In>&, double*) {});
}

#if defined(__GNUC__)
// Return sum p (log p - log_q) over n numbers, without numbers p that are not normal.
template <class In> double divergence(const In* p, const In* log_q, size_t n) {
    constexpr size_t W = lanes<In>, TERMS = 8 * W;
    double total = 0;
    for (size_t i = 0; i < n; i += TERMS) {
        Vec<In> sums{};
        for (size_t k = i; k < std::min(n, i + TERMS); k += W) {
            const int left = int(std::min(n - k, W));
            const Vec<In> x = load_first<In>(p + k, left, p + n);
            const Vec<In> one = broadcast<In>(1), used = x > Precision<In>::MIN_NORMAL ? x : one;
            const Vec<In> term = x * (logarithm(used) - load_first<In>(log_q + k, left, log_q + n));
            sums += x > Precision<In>::MIN_NORMAL ? term : Vec<In>{};
        }
        total += double(sum<In>(sums));
    }
    return total;
}

// Subtract the duality gap from the values of the sequences that have a chain. The chain's marginals p are a
// point of the polytope, and the gap is sum p log(p / flow out) over all tokens but the last.
template <class In> void subtract_gaps(const Batch<In>& batch, double scale, const ArcChain<In>& arcs, In* value) {
    const size_t tags = batch.tags, n = batch.tokens() * tags;
    Batch<In> chain = batch;
    chain.unary = arcs.scores;
    std::vector<In> transitions(batch.transitions, batch.transitions + tags * tags);
    for (In& w : transitions) w = In(w * scale);
    chain.transitions = transitions.data();
    std::vector<Place> which;
    for (Place place : places(batch))
        if (arcs.found[place.index]) which.push_back(place);
    Buffer<In> p(n);
    std::vector<In> ignored(batch.size);
    sum_product(chain, which, Outputs<In>{ignored.data(), p.data()});
    for_each_sequence(
        batch, which, double(tags), nullptr, [] { return 0; },
        [&](int, const Sequence<In>& s, double*) {
            const size_t first = s.first * tags, numbers = (s.length - 1) * tags;
            const double gap = divergence<In>(p + first, arcs.log_flow + first, numbers);
            value[s.index] -= In(std::max(gap, 0.0));
        },
        [](int, double*) {});
}
#endif

template <class In> void bregman_bound(const Batch<In>& batch, const BregmanOptions& options, const Outputs<In>& out) {
    const std::vector<Place> all = places(batch);
    if (!options.lower || !batch.shared || out.each) return bregman_values(batch, all, options, out);
    // The marginals of both bounds are the same, to the last bit.
    BregmanOptions upper = options;
    upper.lower = false;
    const size_t n = batch.tokens() * batch.tags;
    Buffer<In> scores(n), log_flow(n);
    ArcChain<In> chain{scores, log_flow, std::vector<char>(batch.size)};
    bregman_values(batch, all, upper, out, &chain);
    std::vector<Place> left;
    for (Place place : all)
        if (!chain.found[place.index]) left.push_back(place);
#if defined(__GNUC__)
    if (left.size() < all.size()) subtract_gaps(batch, options.scale, chain, out.value);
#endif
    // Rows find the lower bound themselves. Nothing reads the marginals, nor the scores of the chain any longer.
    bregman_values(batch, left, options, Outputs<In>{out.value, scores.data()});
}

template <class In> void bregman(const Batch<In>& batch, const BregmanOptions& options, const Outputs<In>& out) {
    Outputs<In> marginals = out;
    marginals.gold = nullptr;
    bregman_bound(batch, options, marginals);
    // One after the other, because the bound and long sequences are complete only now.
    for (Place place : places(batch)) subtract_gold(batch.sequence(place), out, out.sum);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
