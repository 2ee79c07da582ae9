// Forward-backward of the linear-chain CRF with sequences in the lanes of vectors.
#pragma once

#include "../shared/precision.hh"
#include "lanes.hh"
#include "matrices.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

// See ForwardBackward for the algorithm, which is the same. Rows are (tags, W).
template <class R, class In> class LaneForwardBackward {
    static constexpr int W = lanes<R>;
    const Batch<In>& batch_;
    const int tags_;
    const size_t row_;
    const In* const end_;  // of the scores
    Matrices<R, In> matrices_;
    Buffer<R> emission_, alpha_, inward_, beta_, node_;  // (longest, tags, W); (tags, W)
    Buffer<R> inverse_;                                  // (longest, W)
    Buffer<In> nothing_;                                 // the scores after the end of a sequence
    LanePairSums<R> pairs_;

    R* at(Buffer<R>& rows, int i) { return rows + size_t(i) * row_; }

    // Set emission = exp(unary - the token's maximum), and return the maximum.
    Vec<R> load_emissions(const Group<R>& g, int i, Vec<R>& lowest) {
        const In* rows[W];
        R* emission = at(emission_, i);
        g.template rows<const In>(rows, batch_.unary, tags_, i, nothing_.data());
        pack(emission, W, rows, end_, tags_);
        // A token without an allowed tag has emissions of 0.
        Vec<R> top = broadcast<R>(std::numeric_limits<R>::lowest());
        for (int t = 0; t < tags_; ++t) top = max<R>(top, load(emission + t * W));
        for (int t = 0; t < tags_; ++t) {
            const Vec<R> v = exponential(load(emission + t * W) - top);
            lowest = min<R>(lowest, v);
            store(emission + t * W, v);
        }
        return top;
    }

    // Set alpha and the inverse scale of token i. Return the scale.
    Vec<R> forward(int i, Vec<R> live) {
        R *alpha = at(alpha_, i), *emission = at(emission_, i);
        Vec<R> total{};
        if (i > 0)
            lane_product<SumProduct>(alpha, W, at(alpha_, i - 1), W, matrices_.rows(0), tags_,
                                     matrices_.width());
        for (int t = 0; t < tags_; ++t) {
            Vec<R> v = load(emission + t * W);
            if (i > 0) v *= load(alpha + t * W);
            total += v;
            store(alpha + t * W, v);
        }
        // The scale of a sequence that has failed or ended is 0, so its weights stay finite.
        const Vec<R> least = broadcast<R>(std::numeric_limits<R>::min());
        const Vec<R> inverse = total * live > least ? R(1) / total : Vec<R>{};
        store(inverse_ + i * W, inverse);
        for (int t = 0; t < tags_; ++t) store(alpha + t * W, load(alpha + t * W) * inverse);
        return total;
    }

    // Divide beta by its overlap with alpha: rounding errors accumulate along a long sequence.
    void normalize(const R* alpha) {
        Vec<R> overlap{};
        for (int t = 0; t < tags_; ++t) overlap += load(alpha + t * W) * load(beta_ + t * W);
        const Vec<R> by = overlap > Vec<R>{} ? R(1) / overlap : overlap;
        for (int t = 0; t < tags_; ++t) store(beta_ + t * W, load(beta_ + t * W) * by);
    }

    // Set inward, and write the tag marginals. Return the largest backward weight.
    Vec<R> backward(const Group<R>& g, Vec<R> lengths, In* node) {
        Vec<R> worst{};
        for (int i = g.longest - 1; i >= 0; --i) {
            const R *alpha = at(alpha_, i), *emission = at(emission_, i);
            R* inward = at(inward_, i);
            const Vec<R> now = broadcast(R(i)), one = broadcast<R>(1);
            const Vec<R> inverse = now < lengths ? load(inverse_ + i * W) : Vec<R>{};
            if (i % 32 == 0) normalize(alpha);
            for (int t = 0; t < tags_; ++t) {
                const Vec<R> beta = now + one == lengths ? one : load(beta_ + t * W);
                store(node_ + t * W, beta * load(alpha + t * W));
                const Vec<R> v = beta * inverse;
                worst = max<R>(worst, v);
                store(inward + t * W, v * load(emission + t * W));
            }
            if (node) {
                In* rows[W];
                g.template rows<In>(rows, node, tags_, i, nullptr);
                unpack(rows, node_.data(), W, tags_);
            }
            if (i > 0)
                lane_product<SumProduct>(beta_.data(), W, (const R*)inward, W, matrices_.columns(0),
                                         tags_, matrices_.width());
        }
        return worst;
    }

    // Clear the weights of a sequence, so that it adds nothing to the sums.
    void clear(int k, int longest) {
        for (size_t i = 0; i < longest * row_; i += W) alpha_[i + k] = inward_[i + k] = 0;
    }

  public:
    LaneForwardBackward(const Batch<In>& batch, const In* end, int longest)
        : batch_(batch), tags_(batch.tags), row_(size_t(batch.tags) * W), end_(end),
          matrices_(batch, 1), emission_(longest * row_), alpha_(longest * row_),
          inward_(longest * row_), beta_(row_), node_(row_), inverse_(size_t(longest) * W),
          nothing_(tags_), pairs_(batch.tags, matrices_.width()) {}

    // Set failed[b] for the sequences that need a larger range than R has.
    void run(const Group<R>& g, In* value, In* node, double* sum, bool only_value, char* failed) {
        const Vec<R> lengths = g.lengths(), one = broadcast<R>(1);
        const Vec<R> least = broadcast<R>(std::numeric_limits<R>::min());
        const Vec<R> most = broadcast<R>(std::numeric_limits<R>::max());
        Vec<R> bad{}, lowest = one;
        LaneProducts<R> scales;
        LaneSums<R> tops;
        for (int i = 0; i < g.longest; ++i) {
            const Vec<R> live = broadcast(R(i)) < lengths ? one : Vec<R>{};
            const Vec<R> top = load_emissions(g, i, lowest), total = forward(i, live);
            const Vec<R> scale = total > least ? (total < most ? total : Vec<R>{}) : Vec<R>{};
            bad += scale > Vec<R>{} ? Vec<R>{} : live;
            scales.multiply(live > Vec<R>{} ? scale : one);
            tops.add(top * live);
        }
        // If no number can have underflowed, the value does not need the backward pass as a check.
        const bool certain = -maximum<R>(-lowest) > R(1e-13) && !matrices_.zeros() && matrices_.range() < 30;
        if (!(only_value && certain)) {
            const Vec<R> worst = backward(g, lengths, node);
            bad += worst * Precision<R>::MIN_OVERLAP <= one ? Vec<R>{} : one;
        }
        double shifts[W];
        tops.read(shifts);
        const double* logs = scales.logs();
        R lost[W];
        store(lost, bad);
        for (int k = 0; k < g.size; ++k) {
            const int b = g.place[k].index;
            failed[b] = lost[k] > 0;
            if (failed[b] && sum) clear(k, g.longest);
            value[b] = In(logs[k] + shifts[k] + matrices_.shift(0) * (g.length[k] - 1));
        }
        if (sum)
            pairs_.add(at(alpha_, 0), at(inward_, 1), g.longest - 1, row_, matrices_.rows(0), sum);
    }

    void flush(double* sum) { pairs_.flush(matrices_.rows(0), sum); }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
