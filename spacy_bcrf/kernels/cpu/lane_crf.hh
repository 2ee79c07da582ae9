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
    using R = typename N::R;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>, CHECKED = 256;  // tokens between two looks at the signals
    const Batch<In>& batch_;
    const int tags_;
    const In* const end_;  // of the scores
    typename N::template Kernel<In> matrices_;
    const size_t row_, part_;                   // sizes of rows, and of the parts of large arrays
    Buffer<R> emission_, alpha_, inward_;       // (longest, tags, W)
    Buffer<R> inverse_;                         // (longest, W): 1 / scale
    Buffer<R> beta_, node_;                     // (tags, W)
    Buffer<R> scratch_;                         // of N::Total
    Buffer<In> nothing_;                        // the scores after the end of a sequence
    PairSumsOf<N> pairs_;

    R* at(Buffer<R>& rows, int i) { return rows + size_t(i) * row_; }

    // Subtract the maximum of each token from its scores, and store their exponentials. Return the
    // maxima. Set `lowest` to the minimum of itself and the differences.
    Vec<R> load_emissions(const Group<R>& g, int i, Vec<R>& lowest) {
        const In* rows[W];
        R* emission = at(emission_, i);
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
        R *alpha = at(alpha_, i), *emission = at(emission_, i);
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
        const Value inverse = N::select(N::valid(total) * live, N::inverse(total), N::zero());
        N::store(inverse_ + i * W, inverse_part(), inverse);
        for (int t = 0; t < tags_; ++t) {
            R* a = alpha + t * W;
            N::store(a, part_, N::times(N::load(a, part_), inverse));
        }
        return total;
    }

    size_t inverse_part() const { return part_ / size_t(tags_); }

    // Divide beta by its overlap with alpha: rounding errors accumulate along a long sequence.
    void normalize(const R* alpha) {
        typename N::Total sum(scratch_);
        for (int t = 0; t < tags_; ++t)
            sum.add(N::times(N::load(alpha + t * W, part_), N::load(beta_ + t * W, row_)));
        const Value overlap = sum.get();
        const Value by = N::select(N::mantissa(overlap), N::inverse(overlap), N::zero());
        for (int t = 0; t < tags_; ++t)
            N::store(beta_ + t * W, row_, N::normal(N::times(N::load(beta_ + t * W, row_), by)));
    }

    // Set inward, and write the tag marginals. Return the largest backward weight.
    Vec<R> backward(const Group<R>& g, Vec<R> lengths, In* node) {
        const Vec<R> one = broadcast<R>(1);
        Vec<R> worst{};
        for (int i = g.longest - 1; i >= 0; --i) {
            const R *alpha = at(alpha_, i), *emission = at(emission_, i);
            R* inward = at(inward_, i);
            const Vec<R> live = broadcast(R(i)) < lengths ? one : Vec<R>{};
            const Vec<R> last = broadcast(R(i + 1)) < lengths ? Vec<R>{} : one;
            const Value inverse =
                N::select(live, N::load(inverse_ + i * W, inverse_part()), N::zero());
            if (i % 32 == 0) normalize(alpha);
            if (i % CHECKED == CHECKED - 1) check_signals();
            for (int t = 0; t < tags_; ++t) {
                const Value beta = N::select(last, N::one(), N::load(beta_ + t * W, row_));
                store(node_ + t * W, N::plain(N::times(beta, N::load(alpha + t * W, part_))));
                const Value v = N::times(beta, inverse);
                if (N::PARTS == 1) worst = max<R>(worst, N::mantissa(v));
                N::store(inward + t * W, part_, N::times(v, N::load(emission + t * W, part_)));
            }
            if (node) {
                In* rows[W];
                g.template rows<In>(rows, node, tags_, i, nullptr);
                unpack(rows, node_.data(), W, tags_);
            }
            if (i > 0) N::product(beta_.data(), W, row_, (const R*)inward, W, part_, matrices_, true);
        }
        return worst;
    }

    // Clear the weights of sequences that have failed, so that they add nothing to the sums. The exponents
    // of both may be out of range.
    void clear(Vec<R> bad, int longest) {
        for (size_t i = 0; i < longest * row_; i += W) {
            N::store(alpha_ + i, part_, N::select(bad, N::zero(), N::load(alpha_ + i, part_)));
            N::store(inward_ + i, part_, N::select(bad, N::zero(), N::load(inward_ + i, part_)));
        }
    }

  public:
    LaneForwardBackward(const Batch<In>& batch, const In* end, int longest)
        : batch_(batch), tags_(batch.tags), end_(end), matrices_(batch, 1),
          row_(size_t(batch.tags) * W), part_(longest * row_), emission_(N::PARTS * part_),
          alpha_(N::PARTS * part_), inward_(N::PARTS * part_), inverse_(N::PARTS * inverse_part()),
          beta_(N::PARTS * row_), node_(row_), scratch_(2 * row_), nothing_(tags_), pairs_(matrices_) {}

    // Set failed[b] for the sequences that need a larger range than R has.
    void run(const Group<R>& g, In* value, In* node, double* sum, bool only_value, char* failed) {
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
        if (!(only_value && certain)) {
            const Vec<R> worst = backward(g, lengths, node);
            bad += worst * Precision<R>::MIN_OVERLAP <= one ? Vec<R>{} : one;
        }
        double shifts[W], powers[W];
        tops.read(shifts);
        exponents.read(powers);
        const double* logs = scales.logs();
        R lost[W];
        store(lost, bad);
        bool any_lost = false;
        for (int k = 0; k < g.size; ++k) {
            const int b = g.place[k].index;
            failed[b] = lost[k] > 0;
            any_lost |= failed[b];
            value[b] = In(logs[k] + powers[k] * LOG_2 + shifts[k] +
                          matrices_.shift(0) * (g.length[k] - 1));
        }
        if (sum && any_lost) clear(bad, g.longest);
        if (sum) pairs_.add(at(alpha_, 0), at(inward_, 1), part_, g.longest - 1, row_, matrices_, sum);
    }

    void flush(double* sum) { pairs_.flush(matrices_, sum); }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
