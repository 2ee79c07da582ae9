// Iterative Bregman projections (Corro et al. 2025, Algorithm 1) on the factors f and g of ../shared/projection.hh.
#pragma once

#include "../shared/projection.hh"
#include "token_layouts.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The Markov chain of the arcs, which the lower bound needs.
template <class R> struct ArcChain {
    R* scores;    // (N, tags), see projection::CHAIN
    R* log_flow;  // (N, tags): the logarithm of the flow out of each tag. The last token has none.
};

// The arcs of an edge i -> i+1 are q[u, v] = K[u, v] g[i, u] f[i+1, v]. The first token has f = 1, and the last one
// g = 1, so e / (f g) is the same for all tags of any token.
template <class L, class N> class Projections {
  public:
    static constexpr bool IN_LANES = L::IN_LANES;
    // The last resort: no range of scores is too large for rows of wide doubles.
    static constexpr bool ANY_RANGE = !IN_LANES && N::PARTS == 2 && sizeof(typename N::R) == 8;

  private:
    using R = typename N::R;
    using Value = typename N::Value;
    using Total = typename N::template Total<L>;
    static constexpr int W = lanes<R>;
    static constexpr double LIMIT = N::PARTS == 1 ? Precision<R>::MAX_RANGE
                                    : ANY_RANGE   ? std::numeric_limits<double>::max()
                                                  : Exponents<R>::MAX_RANGE;
    static constexpr R NO_TAG = 1, OUT_OF_RANGE = 2;  // see problem_

    const BregmanOptions& options_;
    L layout_;
    const int vectors_;
    Messages<L, N> messages_;
    Transitions<typename L::Layout, N>& k_ = messages_.k;
    LiveTags live_tags_;
    const size_t part_, row_part_;
    Buffer<R> root_, f_, g_;        // of tokens: sqrt(e) and the factors
    Buffer<R> scratch_;             // of two totals
    Buffer<R> scores_, log_flow_;   // (vectors), see ArcChain
    Buffer<R> problem_;             // of a token: 0 for none, NO_TAG, OUT_OF_RANGE or more
    Buffer<R> excess_;              // the over-relaxation of a token, minus 1
    Buffer<R> top_;                 // the largest score of a token
    Buffer<R> ratio_, exponent_;    // e / (f g), the scale that the factors leave out
    Buffer<R> arcs_;                // the sums of the arcs out of tokens, of any range
    std::vector<std::uint64_t> live_;
    std::vector<const std::uint64_t*> alive_;  // of each sequence, see LiveTags; null for all tags

    size_t step() const { return layout_.step(); }

    // Return x / y, where by = 1 / y. A quotient of equal numbers is 1: beside a huge exponent, a carry would be lost.
    static BCRF_INLINE Value quotient(Value x, Value y, Value by) {
        if constexpr (ANY_RANGE) return N::normal({x.m / y.m, x.e - y.e});
        else return N::times(x, by);
    }
    // Return the share x / z of the arcs of an edge. Their sum z is 1, but for huge scores.
    static BCRF_INLINE Vec<R> share(Value x, Value z) {
        if constexpr (ANY_RANGE) return N::plain(quotient(x, z, z));
        else return N::plain(x);
    }
    static BCRF_INLINE Value kept(Value x) {
        if constexpr (ANY_RANGE) return N::normal(x);
        else return x;
    }
    // Return the sum of the arcs of one side of a token.
    BCRF_INLINE Value sum_arcs(const R* factors, const R* sums) {
        Total total(scratch_);
        for (int v = 0; v < vectors_; ++v)
            total.add(N::times(N::load(factors + v * step(), part_), N::load(sums + v * W, row_part_)));
        return total.get();
    }

    // Find the tags that an allowed labeling uses. Without forbidden transitions, it uses every allowed tag.
    void prune(const Tile<R>& tile) {
        alive_.assign(tile.size, nullptr);
        if (!k_.zeros()) return;
        live_.resize(tile.tokens * live_tags_.words);
        std::uint64_t* next = live_.data();
        for (int q = 0; q < tile.size; ++q) {
            const Sequence<R>& s = tile.sequence[q];
            alive_[q] = s.alive;
            if (s.alive) continue;
            live_tags_.find(s, next);
            alive_[q] = next;
            next += size_t(s.length) * live_tags_.words;
        }
    }

    // Set sqrt(e) and the first factors of a position.
    BCRF_NOINLINE void load_scores(const Position& at) {
        R *root = root_ + at.here, *f = f_ + at.here, *g = g_ + at.here;
        layout_.load(root, at);
        if (k_.zeros())
            layout_.for_tokens(at, [&](int k, int q, size_t i) {
                live_tags_.for_others(alive_[q] + i * live_tags_.words,
                                      [&](int t) { root[layout_.place(t, k)] = -infinity<R>; });
            });
        const R inf = infinity<R>;
        const Vec<R> none = broadcast<R>(std::numeric_limits<R>::lowest());
        Vec<R> top = none, low = broadcast<R>(inf);
        for (int v = 0; v < vectors_; ++v) {
            const Vec<R> x = load(root + v * step());
            top = max<R>(top, x);
            low = x > -inf ? min<R>(low, x) : low;
            // NaN is not a forbidden tag.
            low = x < inf ? low : broadcast(-inf);
        }
        top = L::max(top), low = L::min(low);
        store(top_ + at.number, top);
        const Vec<R> range = R(k_.range()) + (top - low) * R(options_.scale);
        const Vec<R> problem = top > none ? Vec<R>{} : broadcast<R>(NO_TAG);
        store(problem_ + at.number, range <= R(LIMIT) ? problem : broadcast<R>(OUT_OF_RANGE));
        const Vec<R> first = layout_.is_first(at), last = layout_.is_last(at);
        for (int v = 0; v < vectors_; ++v) {
            const size_t here = v * step();
            const Value x = N::exponential(load(root + here), top, options_.scale / 2), square = kept(N::times(x, x));
            N::store(root + here, part_, x);
            N::store(f + here, part_, N::select(last, square, N::select(first, N::one(), x)));
            N::store(g + here, part_, N::select(last, N::one(), N::select(first, square, x)));
        }
    }

    // Project a position. Return the violation before the projection, if WATCHED: the L1 distance between the tag
    // marginals of the arcs in and of the arcs out.
    template <bool RELAXED, bool WATCHED>
    BCRF_INLINE Vec<R> project(const Position& at, R* in, R* out, Vec<R> excess) {
        const Vec<R> one = broadcast<R>(1), more = one + excess, less = one - excess;
        const size_t step = layout_.step();
        R *f = f_ + at.here, *g = g_ + at.here;
        const R* root = root_ + at.here;
        Value all_in = N::one(), all_out = N::one();
        if constexpr (ANY_RANGE && (RELAXED || WATCHED)) all_in = sum_arcs(f, in), all_out = sum_arcs(g, out);
        Total sum_in(scratch_), sum_out(scratch_ + 2 * row_part_);
        Vec<R> violation{};
        for (int v = 0; v < vectors_; ++v) {
            const Value iv = N::load(in + v * W, row_part_), ov = N::load(out + v * W, row_part_);
            const Value e = N::load(root + v * step, part_);
            Value fv = ov, gv = iv;
            if (RELAXED || WATCHED) {
                const Vec<R> m = share(N::times(N::load(f + v * step, part_), iv), all_in);
                const Vec<R> n = share(N::times(N::load(g + v * step, part_), ov), all_out);
                if (RELAXED) {
                    fv = N::times(fv, more * n + less * m + R(ProjectionLimits::SMALL_MASS));
                    gv = N::times(gv, less * n + more * m + R(ProjectionLimits::SMALL_MASS));
                }
                if (WATCHED) violation += m > n ? m - n : n - m;
            }
            // A forbidden tag may have sums of 0.
            const Value square = N::select(N::mantissa(e), N::times(fv, gv), N::one());
            const Value h = N::times(e, N::inverse_root(square));
            fv = kept(N::times(fv, h));
            gv = kept(N::times(gv, h));
            sum_in.add(N::times(fv, iv));
            // Without relaxation, a tag has as many arcs in as out.
            if (RELAXED || ANY_RANGE) sum_out.add(N::times(gv, ov));
            N::store(in + v * W, row_part_, fv);
            N::store(out + v * W, row_part_, gv);
        }
        const Value z_in = sum_in.get(), z_out = RELAXED || ANY_RANGE ? sum_out.get() : z_in;
        const Value to_f = N::inverse(z_in), to_g = RELAXED || ANY_RANGE ? N::inverse(z_out) : to_f;
        for (int v = 0; v < vectors_; ++v) {
            R *fv = f + v * step, *gv = g + v * step;
            const Value x = quotient(N::load(in + v * W, row_part_), z_in, to_f);
            const Value y = quotient(N::load(out + v * W, row_part_), z_out, to_g);
            N::store(fv, part_, layout_.template if_inner<N>(at, x, fv, part_));
            N::store(gv, part_, layout_.template if_inner<N>(at, y, gv, part_));
        }
        return L::sum(violation);
    }

    // Project every second inner token.
    template <bool RELAXED, bool WATCHED> void project_all(const Tile<R>& tile, int parity, R excess) {
        messages_.for_positions(
            tile, g_, f_, layout_.count_inner(parity), [&](int k) { return layout_.inner(parity, k); },
            [&](const Position& at, R* in, R* out) {
                const Vec<R> by = WATCHED ? load(excess_ + at.number) : broadcast(excess);
                const Vec<R> violation = project<RELAXED, WATCHED>(at, in, out, by);
                if (WATCHED) store(ratio_ + at.number, violation);
            });
    }

    // Run the iterations, of each sequence until its violation is within the tolerance.
    void iterate(const Tile<R>& tile) {
        // Sequences of one or two tokens have nothing to project.
        if (layout_.count_inner(0) + layout_.count_inner(1) == 0) return;
        const bool watched = options_.needs_violation();
        const R excess = R(options_.relaxation - 1);
        std::vector<projection::Relaxation> relaxation(watched ? tile.size : 0);
        std::vector<char> stopped(relaxation.size());
        int running = tile.size;
        for (int k = 0; k < options_.n_iter && running; ++k) {
            const int parity = projection::first_position(k) % 2;
            if (k > 1 && watched) project_all<true, true>(tile, parity, 0);
            else if (k > 1 && excess != 0) project_all<true, false>(tile, parity, excess);
            else project_all<false, false>(tile, parity, 0);
            for (int q = 0; watched && q < tile.size; ++q) {
                if (stopped[q]) continue;
                R violation = 0;
                for (int i = 2 - parity; k > 1 && i + 1 < tile.sequence[q].length; i += 2)
                    violation = std::max(violation, ratio_[layout_.number(q, i)]);
                if (relaxation[q].update(k, violation, options_.relaxation, options_.tolerance)) {
                    stopped[q] = 1;
                    --running;
                    layout_.stop(q);
                }
                layout_.for_numbers(q, [&](size_t first, size_t n) {
                    std::fill_n(excess_ + first, n, R(relaxation[q].omega - 1));
                });
            }
        }
    }

    // Divide the factors of the ends such that the arcs of the first and the last edge sum to 1.
    void normalize_ends(const Tile<R>& tile) {
        for (int k = 0; k < layout_.count(); ++k)
            messages_.for_positions(
                tile, g_, f_, 1, [&](int) { return layout_.position(k); },
                [&](const Position& at, R* in, R* out) {
                    const Vec<R> first = layout_.is_first(at), last = layout_.is_last(at), none{};
                    R *f = f_ + at.here, *g = g_ + at.here;
                    const Value z = N::select(last, sum_arcs(f, in), sum_arcs(g, out)), by = N::inverse(z);
                    for (int v = 0; v < vectors_; ++v) {
                        R *fv = f + v * step(), *gv = g + v * step();
                        const Value x = N::load(fv, part_), y = N::load(gv, part_);
                        N::store(fv, part_, N::select(last, quotient(x, z, by), x));
                        N::store(gv, part_, N::select(first, quotient(y, z, by), y));
                    }
                    const Vec<R> lost = ANY_RANGE ? none : (first + last) * (broadcast<R>(1) - N::in_range(z, z));
                    store(problem_ + at.number, load(problem_ + at.number) + lost);
                });
    }

    // Set the scores of a position in the chain of the arcs, and the log of their flow out. Return 1 where R has lost a
    // tag. all_in, all_out: see `finish`.
    Vec<R> chain_scores(const Position& at, const R* in, const R* out, Value all_in, Value all_out, Vec<R> first,
                        Vec<R> last) {
        const Vec<R> none{};
        const Vec<R> shift = L::all(last) ? none : broadcast(R(k_.shift(at.token)));
        const R *root = root_ + at.here, *f = f_ + at.here, *g = g_ + at.here;
        Vec<R> lost{};
        for (int v = 0; v < vectors_; ++v) {
            const size_t here = v * step();
            const Vec<R> is_allowed = one_where<R>(N::mantissa(N::load(root + here, part_)) > none);
            const Value fv = N::select(is_allowed, N::load(f + here, part_), N::one());
            const Value gv = N::select(is_allowed, N::load(g + here, part_), N::one());
            const Value sum = N::load(out + v * W, row_part_);
            // The last token has no arcs out.
            const Vec<R> kept = N::valid(sum) + last, has_arcs = kept > none ? is_allowed - last : none;
            const Value ov = N::select(has_arcs, sum, N::one());
            lost += kept > none ? none : is_allowed;
            // g / flow out is 1 / out.
            const Value x = N::select(first, gv, fv), y = N::select(first, all_out, ov);
            Vec<R> score = N::log_ratio(x, y) - (last > none ? none : shift);
            if constexpr (ANY_RANGE) {
                const Value arcs = N::times(fv, N::load(in + v * W, row_part_));
                const Value mass = N::select(last, arcs, N::times(gv, sum));
                const Vec<R> log_mass = N::log_ratio(mass, N::select(last, all_in, all_out));
                for (int k = 0; k < W; ++k) score[k] = projection::chain_score(score[k], log_mass[k]);
            }
            store(scores_ + v * W, is_allowed > none ? score : broadcast(-infinity<R>));
            store(log_flow_ + v * W, has_arcs > none ? N::log_product(gv, ov) - N::log_product(all_out, N::one()) : none);
        }
        return lost;
    }

    // Write the tag marginals or the scores of the chain. Set the ratio of e to f g, and the problem of tokens that R
    // has lost.
    void finish(const Position& at, R* in, R* out, R* node, ArcChain<R>* chain) {
        const Vec<R> none{}, one = broadcast<R>(1), first = layout_.is_first(at), last = layout_.is_last(at);
        const R mean = options_.unary == projection::MEAN ? R(0.5) : R(0);
        const bool is_chain = options_.unary == projection::CHAIN;
        const R *root = root_ + at.here, *f = f_ + at.here, *g = g_ + at.here;
        // Beside huge exponents, the sums of an edge's arcs depend on their order. Otherwise they are 1.
        Value all_in = N::one(), all_out = N::one();
        if constexpr (ANY_RANGE) {
            if (!L::all(first)) all_in = sum_arcs(f, in);
            if (!L::all(last)) all_out = sum_arcs(g, out);
            N::store(arcs_ + at.number, layout_.numbers(), all_out);
        }
        Vec<R> problem = load(problem_ + at.number), most{};
        Value e = N::one(), of_f = N::one(), of_g = N::one();  // of the tag with the most mass
        if (is_chain || chain) problem += chain_scores(at, in, out, all_in, all_out, first, last);
        for (int v = 0; v < vectors_; ++v) {
            const size_t here = v * step();
            const Value x = N::load(root + here, part_), fv = N::load(f + here, part_), gv = N::load(g + here, part_);
            const Vec<R> m = share(N::times(fv, N::load(in + v * W, row_part_)), all_in);
            const Vec<R> n = share(N::times(gv, N::load(out + v * W, row_part_)), all_out);
            const Vec<R> flow = last > none ? m : n, other = first > none ? n : m, mass = flow + other;
            e = N::select(mass - most, x, e);
            of_f = N::select(mass - most, fv, of_f);
            of_g = N::select(mass - most, gv, of_g);
            most = max<R>(mass, most);
            if (!ANY_RANGE) problem += N::mantissa(x) > none ? one - N::in_range(fv, gv) : none;
            store(out + v * W, flow + (other - flow) * mean);
        }
        using Exact = Wide<R>;
        const auto wide = [](Value x) BCRF_INLINE_LAMBDA { return Exact::normal({N::mantissa(x), N::exponent(x)}); };
        const auto square = wide(N::times(e, e)), a = wide(of_f), b = wide(of_g);
        store(ratio_ + at.number, logarithm(L::likeliest(square.m / (a.m * b.m), most)));
        store(exponent_ + at.number, L::likeliest(square.e - (a.e + b.e), most));
        store(problem_ + at.number, L::max(problem) + (L::max(most) > none ? none : one));
        if (node) layout_.write(at, is_chain ? scores_ : out, W, node);
        if (chain) {
            layout_.write(at, scores_, W, chain->scores);
            layout_.write(at, log_flow_, W, chain->log_flow);
        }
    }

    // Add the arcs of the sequences that R holds.
    void add_arcs(const Tile<R>& tile, const char* failed, double* sum) {
        for (int k = 0; IN_LANES && k < layout_.count(); ++k) {
            const Position at = layout_.position(k);
            R counts[W] = {};
            layout_.for_tokens(at, [&](int lane, int q, int i) {
                const Sequence<R>& s = tile.sequence[q];
                counts[lane] = R(!failed[s.index] && s.from <= i && i < std::min(s.to, s.length - 1));
            });
            const Vec<R> here = load(counts);
            if (L::all(here)) continue;
            for (int v = 0; v < vectors_; ++v)
                for (R* x : {g_ + at.here + v * step(), f_ + at.after + v * step()})
                    N::store(x, part_, N::select(here, N::load(x, part_), N::zero()));
        }
        layout_.add_edges(k_, g_, f_, part_, sum);
    }

    // Write the arcs of each edge to `each`, and add them to `sum`. Either may be null. In rows.
    void write_arcs(const Sequence<R>& s, R* each, double* sum) {
        const size_t tags = layout_.tags, part = part_;
        for (int i = s.from; i < std::min(s.to, s.length - 1); ++i) {
            const Position at = layout_.position(i);
            const R *g = g_ + at.here, *f = f_ + at.after;
            R* to = each ? each + (s.first + i) * tags * tags : nullptr;
            const Value all = ANY_RANGE ? N::load(arcs_ + at.number, layout_.numbers()) : N::one();
            for (size_t u = 0; u < tags; ++u)
                for (int v = 0; v < vectors_; ++v) {
                    const Value after = N::times(edge_weight(k_, i, int(u), v), N::load(f + v * W, part));
                    const Vec<R> q = share(N::times(N::single(g + u, part), after), all);
                    const int n = std::min(W, int(tags) - v * W);
                    if (to) store_first<R>(to + u * tags + v * W, q, n);
                    for (int k = 0; sum && k < n; ++k) sum[u * tags + v * W + k] += q[k];
                }
        }
    }

    // Return the largest problem of the tokens of a sequence.
    R worst_problem(const Sequence<R>& s, int q) {
        R worst = 0;
        for (int i = s.from; i < s.to; ++i) worst = std::max(worst, problem_[layout_.number(q, i)]);
        return worst;
    }

    // Return the dual value of a sequence: the scores' maxima and the scales that the factors leave out.
    double dual_value(const Sequence<R>& s, int q) {
        double total = k_.shifts(std::min(s.to, s.length - 1) - s.from);
        for (int i = s.from; i < s.to; ++i) {
            const size_t at = layout_.number(q, i);
            total += double(top_[at]) * options_.scale + double(exponent_[at]) * LOG_2 + double(ratio_[at]);
            if (ANY_RANGE) total += std::log(double(arcs_[at])) + double(arcs_[layout_.numbers() + at]) * LOG_2;
        }
        return total;
    }

  public:
    // room: the most positions of a tile.
    Projections(const Batch<R>& batch, const Shape& shape, const BregmanOptions& options, size_t room)
        : options_(options), layout_(batch, room), vectors_(layout_.vectors),
          messages_(batch, shape, layout_, room, options.scale, N::one()), live_tags_(batch.tags, batch.shared),
          part_(layout_.size()), row_part_(messages_.part()), root_(N::PARTS * part_, Fill::NONE),
          f_(N::PARTS * part_, Fill::NONE), g_(N::PARTS * part_, Fill::NONE), scratch_(4 * row_part_),
          scores_(row_part_), log_flow_(row_part_), problem_(layout_.numbers()),
          excess_(layout_.numbers()), top_(layout_.numbers()), ratio_(layout_.numbers()), exponent_(layout_.numbers()),
          arcs_(ANY_RANGE ? 2 * layout_.numbers() : 0) {}

    // Compute a tile. Set failed[k] for the results k that need more range than R has. chain, sum: may be null.
    void run(const Tile<R>& tile, double* value, const Outputs<R>& to, ArcChain<R>* chain, double* sum, char* failed) {
        layout_.set(tile);
        k_.prepare(tile.sequence[0]);
        prune(tile);
        for (int k = 0; k < layout_.count(); ++k) load_scores(layout_.position(k));
        int left = 0;
        bool short_ones = false;
        for (int q = 0; q < tile.size; ++q) {
            const Sequence<R>& s = tile.sequence[q];
            const R problem = worst_problem(s, q);
            failed[s.index] = problem > 0;
            left += problem == 0;
            short_ones |= s.length < 3;
            if (!ANY_RANGE || problem == 0) continue;
            failed[s.index] = 0;
            value[s.index] = problem < OUT_OF_RANGE ? -infinity<double> : std::numeric_limits<double>::quiet_NaN();
            if (to.node) std::fill_n(to.node + s.first * s.tags, s.length * size_t(s.tags), R(0));
        }
        if (left == 0) return;
        iterate(tile);
        // No projection has normalized these edges.
        if (options_.n_iter == 1 || short_ones) normalize_ends(tile);
        messages_.for_positions(
            tile, g_, f_, layout_.count(), [&](int k) { return layout_.position(k); },
            [&](const Position& at, R* in, R* out) { finish(at, in, out, to.node, chain); });
        for (int q = 0; q < tile.size; ++q) {
            const Sequence<R>& s = tile.sequence[q];
            failed[s.index] |= worst_problem(s, q) > 0;
            if (!failed[s.index]) value[s.index] = dual_value(s, q);
        }
        if constexpr (!IN_LANES) {
            const Sequence<R>& s = tile.sequence[0];
            if (failed[s.index]) return;
            if (to.each || (ANY_RANGE && sum)) write_arcs(s, to.each, ANY_RANGE ? sum : nullptr);
        }
        if (sum && !ANY_RANGE) add_arcs(tile, failed, sum);
    }

    void flush(double* sum) { k_.flush(sum); }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
