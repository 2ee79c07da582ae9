// Forward-backward of the linear-chain CRF with sequences in the lanes of vectors.
#pragma once

#include "../shared/precision.hh"
#include "scaled.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

// Forward-backward as in ForwardBackward, but the backward weights get the scales of the forward weights.
// They are then divided by their overlap with the forward weights, so a small overlap shows as a large
// weight. Rows are (tags, W). N: the arithmetic.
template <class N, class In> class LaneForwardBackward {
  protected:
    using R = typename N::R;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>;
    // In longer sequences, the emissions and backward weights are of a window of tokens, which stays in the
    // cache. The backward pass computes the emissions again.
    static constexpr int LONG = 2048, WINDOW = 256;
    static constexpr int CHECKED = 256;  // tokens between two looks at the signals
    const Batch<In>& batch_;
    const int tags_, window_;
    const In* const end_;  // of the scores
    typename N::template Kernel<In> matrices_;
    const size_t part_, row_;                   // sizes of a part of a row, and of a row
    Buffer<R> alpha_;                           // (longest, PARTS, tags, W)
    Buffer<R> emission_, inward_;               // of the tokens of a window
    Buffer<R> inverse_;                         // (longest, PARTS, W): 1 / scale
    Buffer<R> beta_;                            // (PARTS, tags, W)
    Buffer<R> node_;                            // (tags, W)
    Buffer<R> scratch_;                         // of N::Total
    Buffer<In> nothing_;                        // the scores after the end of a sequence
    Buffer<double> sum_;                        // (tags, tags): edge marginals of a group of many windows
    PairSumsOf<N> pairs_;

    R* at(Buffer<R>& rows, int i) { return rows + size_t(i) * row_; }
    R* in_window(Buffer<R>& rows, int i) { return at(rows, i % window_); }
    R* inverse(int i) { return inverse_ + size_t(i) * N::PARTS * W; }

    // Subtract the maximum of each token from its scores, and store their exponentials. Return the
    // maxima. Set `lowest` to the minimum of itself and the differences.
    Vec<R> load_emissions(const Group<R>& g, int i, Vec<R>& lowest) {
        const In* rows[W];
        R* emission = in_window(emission_, i);
        g.template rows<const In>(rows, batch_.unary, tags_, i, nothing_.data());
        pack(emission, W, rows, end_, tags_);
        // A token without an allowed tag has emissions of 0.
        Vec<R> top = broadcast<R>(std::numeric_limits<R>::lowest());
        for (int t = 0; t < tags_; ++t) top = max<R>(top, load(emission + t * W));
        for (int t = 0; t < tags_; ++t) {
            const Vec<R> x = load(emission + t * W);
            // Scaled numbers represent 0, so a forbidden tag needs no range.
            Vec<R> below = x - top;
            if (N::PARTS == 2) {
                below = x > -infinity<R> ? below : Vec<R>{};
                // NaN is not a forbidden tag.
                below = x < infinity<R> ? below : broadcast(-infinity<R>);
            }
            lowest = min<R>(lowest, below);
            N::store(emission + t * W, part_, N::exponential(x, top, 1));
        }
        return top;
    }

    // Set alpha and the inverse scale of token i. Return the scale.
    Value forward(int i, Vec<R> live) {
        R *alpha = at(alpha_, i), *emission = in_window(emission_, i);
        typename N::Total sum(scratch_);
        if (i > 0) N::product(alpha, W, part_, at(alpha_, i - 1), W, part_, matrices_, false);
        for (int t = 0; t < tags_; ++t) {
            Value v = N::load(emission + t * W, part_);
            if (i > 0) v = N::times(v, N::load(alpha + t * W, part_));
            sum.add(v);
            N::store(alpha + t * W, part_, v);
        }
        const Value total = sum.get();
        // The weights of a sequence that has failed or ended are 0, so they stay finite.
        const Value by = N::select(N::valid(total) * live, N::inverse(total), N::zero());
        N::store(inverse(i), W, by);
        for (int t = 0; t < tags_; ++t) {
            R* a = alpha + t * W;
            N::store(a, part_, N::times(N::load(a, part_), by));
        }
        return total;
    }

    // Divide beta by its overlap with alpha: rounding errors accumulate along a long sequence.
    void normalize(const R* alpha) {
        typename N::Total sum(scratch_);
        for (int t = 0; t < tags_; ++t)
            sum.add(N::times(N::load(alpha + t * W, part_), N::load(beta_ + t * W, part_)));
        const Value overlap = sum.get();
        const Value by = N::select(N::mantissa(overlap), N::inverse(overlap), N::zero());
        for (int t = 0; t < tags_; ++t)
            N::store(beta_ + t * W, part_, N::normal(N::times(N::load(beta_ + t * W, part_), by)));
    }

    // Set inward of tokens [from, to), and write the tag marginals. Return 1 for each sequence in which R has lost
    // a tag.
    Vec<R> backward(const Group<R>& g, int from, int to, Vec<R> lengths, In* node) {
        const Vec<R> one = broadcast<R>(1);
        Vec<R> weights{};  // their sum, because infinity and NaN stay in a sum
        for (int i = to - 1; i >= from; --i) {
            const R *alpha = at(alpha_, i), *emission = in_window(emission_, i);
            R* inward = in_window(inward_, i);
            const Vec<R> live = broadcast(R(i)) < lengths ? one : Vec<R>{};
            const Vec<R> last = broadcast(R(i + 1)) < lengths ? Vec<R>{} : one;
            const Value by = N::select(live, N::load(inverse(i), W), N::zero());
            if (i % 32 == 0) normalize(alpha);
            if (i % CHECKED == CHECKED - 1) check_signals();
            for (int t = 0; t < tags_; ++t) {
                const Value beta = N::select(last, N::one(), N::load(beta_ + t * W, part_));
                store(node_ + t * W, N::plain(N::times(beta, N::load(alpha + t * W, part_))));
                const Value v = N::times(beta, by);
                if (N::PARTS == 1) weights += N::mantissa(v);
                N::store(inward + t * W, part_, N::times(v, N::load(emission + t * W, part_)));
            }
            if (node) {
                In* rows[W];
                g.template rows<In>(rows, node, tags_, i, nullptr);
                unpack(rows, node_.data(), W, tags_);
            }
            if (i > 0) N::product(beta_.data(), W, part_, (const R*)inward, W, part_, matrices_, true);
        }
        return weights * Precision<R>::MIN_OVERLAP <= one ? Vec<R>{} : one;
    }

    // Add the marginals of the edges into tokens [from, to). Sequences that have failed add nothing: the
    // exponents of both weights may be out of range.
    void add_edges(int from, int to, Vec<R> failed, double* sum) {
        const int first = from > 0 ? from : 1;
        if (maximum<R>(failed) > 0)
            for (int t = 0; t < tags_; ++t)
                for (int i = first; i < to; ++i) {
                    R *a = at(alpha_, i - 1) + t * W, *b = in_window(inward_, i) + t * W;
                    N::store(a, part_, N::select(failed, N::zero(), N::load(a, part_)));
                    N::store(b, part_, N::select(failed, N::zero(), N::load(b, part_)));
                }
        if (first < to)
            pairs_.add(at(alpha_, first - 1), in_window(inward_, first), part_, to - first, row_, matrices_, sum);
    }

    // Write the tag marginals and add the edge marginals, from the last window to the first. Return `bad`, with
    // 1 also for each sequence in which R has lost a tag. visit: see `run`.
    template <class Visit>
    Vec<R> marginals(const Group<R>& g, Vec<R> lengths, Vec<R> bad, In* node, double* sum, Visit visit) {
        const Vec<R> one = broadcast<R>(1), unused = g.unused(), before = bad;
        const bool many = g.longest > window_;
        Vec<R> ignored{};
        if (many && sum) {
            pairs_.flush(matrices_, sum);
            std::fill_n(sum_.data(), size_t(tags_) * tags_, 0.0);
        }
        for (int to = g.longest, from; to > 0; to = from) {
            from = (to - 1) / window_ * window_;
            for (int i = from; i < to && to < g.longest; ++i) load_emissions(g, i, ignored);
            bad += backward(g, from, to, lengths, node);
            if (sum) add_edges(from, to, bad - unused, many ? sum_.data() : sum);
            visit(from, to);
        }
        if (many && sum) {
            pairs_.flush(matrices_, sum_);
            // A sequence that fails in one window has added edges of another one.
            if (maximum<R>(bad - before) > 0) return one;
            for (size_t i = 0; i < size_t(tags_) * tags_; ++i) sum[i] += sum_[i];
        }
        return bad;
    }

  public:
    LaneForwardBackward(const Batch<In>& batch, const In* end, int longest)
        : batch_(batch), tags_(batch.tags), window_(longest > LONG ? WINDOW : longest), end_(end), matrices_(batch, 1),
          part_(size_t(batch.tags) * W), row_(N::PARTS * part_), alpha_(longest * row_, Fill::NONE),
          emission_(window_ * row_, Fill::NONE), inward_(window_ * row_, Fill::NONE),
          inverse_(size_t(longest) * N::PARTS * W), beta_(row_), node_(part_), scratch_(2 * part_),
          nothing_(tags_), sum_(longest > window_ ? size_t(tags_) * tags_ : 0), pairs_(matrices_) {}

    // Set failed[b] for the sequences that need a larger range than R has.
    void run(const Group<R>& g, In* value, In* node, double* sum, bool only_value, char* failed) {
        run(g, value, node, sum, only_value, failed, [](int, int) {});
    }

    // visit(from, to) is called when tokens [from, to) have their inward weights, from the last window to the
    // first. The edge marginal of u -> v into token i is alpha[i-1, u] K[u, v] inward[i, v].
    template <class Visit>
    void run(const Group<R>& g, In* value, In* node, double* sum, bool only_value, char* failed, Visit visit) {
        const Vec<R> lengths = g.lengths(), one = broadcast<R>(1);
        Vec<R> lowest{}, bad = g.unused();
        LaneProducts<R> scales;
        LaneSums<R> tops, exponents;
        for (int i = 0; i < g.longest; ++i) {
            if (i % CHECKED == CHECKED - 1) check_signals();
            const Vec<R> live = broadcast(R(i)) < lengths ? one : Vec<R>{};
            const Vec<R> top = load_emissions(g, i, lowest);
            const Value total = forward(i, live);
            const Vec<R> used = N::valid(total) * live;
            bad += live - used;
            scales.multiply(used > Vec<R>{} ? N::mantissa(total) : one);
            tops.add(top * live);
            if (N::PARTS == 2) exponents.add(N::exponent(total) * used);
            if (i % 4 == 3 && -maximum<R>(-bad) > 0) {
                for (int k = 0; k < g.size; ++k) failed[g.place[k].index] = 1;
                return;
            }
        }
        if (N::PARTS == 2) {
            bad += -lowest < R(N::MAX_RANGE) ? Vec<R>{} : one;
            if (!(matrices_.range() < N::MAX_RANGE)) bad = one;
        }
        // If no number can have underflowed, the value does not need the backward pass as a check.
        const bool certain = N::PARTS == 2 || (-maximum<R>(-lowest) > R(-30) && !matrices_.zeros() &&
                                               matrices_.range() < 30);
        if (!(only_value && certain)) bad = marginals(g, lengths, bad, node, sum, visit);
        double shifts[W], powers[W];
        tops.read(shifts);
        exponents.read(powers);
        const double* logs = scales.logs();
        R lost[W];
        store(lost, bad);
        for (int k = 0; k < g.size; ++k) {
            const int b = g.place[k].index;
            failed[b] = lost[k] > 0;
            value[b] = In(logs[k] + powers[k] * LOG_2 + shifts[k] +
                          matrices_.shift(0) * (g.length[k] - 1));
        }
    }

    void flush(double* sum) { pairs_.flush(matrices_, sum); }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
