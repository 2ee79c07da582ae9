// Forward-backward of the linear-chain CRF, in probability space with scaling.
#pragma once

#include "../shared/precision.hh"
#include "for_each_sequence.hh"
#include "lane_crf.hh"
#include "log_space.hh"
#include "pair_sums.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R, class In> class ForwardBackward {
  protected:
    static constexpr int CHECKED = 1024;  // tokens between two looks at the signals
    int tags_, width_;
    Matrices<R, In> matrices_;
    Buffer<R> emission_, alpha_, inward_, row_;  // (longest, width)
    Buffer<R> padding_;                          // (width): 1 beyond the tags
    Buffer<R> scale_;                            // (longest)
    PairSums<R> pairs_;

    R* at(Buffer<R>& rows, int i) { return rows + size_t(i) * width_; }

    R multiply_and_sum(R* out, const R* emission) {
        Vec<R> total{};
        for (int t = 0; t < width_; t += lanes<R>) {
            Vec<R> v = load(out + t) * load(emission + t);
            store(out + t, v);
            total += v;
        }
        return sum<R>(total);
    }

    void multiply(R* row, R by) {
        for (int t = 0; t < width_; t += lanes<R>) store(row + t, load(row + t) * by);
    }

    // Set emission = exp(unary - each token's maximum), and `lowest` to the least emission. Return
    // the sum of the maxima, or -inf if a token has no allowed tag.
    double load_emissions(const Sequence<In>& s, R& lowest) {
        double shift = 0;
        Vec<R> lows = broadcast<R>(1);
        for (int i = 0; i < s.length; ++i) {
            const In* unary = s.unary + size_t(i) * tags_;
            double top = largest(unary, tags_);
            if (top == -infinity<double>) return top;
            shift += top;
            R* row = at(emission_, i);
            load_row(row, unary, top, tags_);
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> v = exponential(load(row + t));
                store(row + t, v);
                lows = min<R>(lows, v + load(padding_ + t));
            }
        }
        lowest = -maximum<R>(-lows);
        return shift;
    }

    // Compute alpha, normalized at each token, and multiply z by the normalizers. Return false if
    // one leaves the range of R.
    bool forward(const Sequence<In>& s, LogProduct& z) {
        for (int i = 0; i < s.length; ++i) {
            R* alpha = at(alpha_, i);
            if (i == 0)
                std::memcpy(alpha, at(emission_, 0), width_ * sizeof(R));
            else
                product<SumProduct>(alpha, at(alpha_, i - 1), matrices_.rows(i - 1), tags_, width_);
            const R total = i == 0 ? row_sum(alpha) : multiply_and_sum(alpha, at(emission_, i));
            if (!(total > std::numeric_limits<R>::min() && total < infinity<R>)) return false;
            scale_[i] = total;
            if (i % CHECKED == CHECKED - 1) check_signals();
            z.multiply(double(total));
            multiply(alpha, R(1) / total);
        }
        return true;
    }

    R dot(const R* a, const R* b) {
        Vec<R> total{};
        for (int t = 0; t < width_; t += lanes<R>) total += load(a + t) * load(b + t);
        return sum<R>(total);
    }

    R row_sum(R* row) {
        Vec<R> total{};
        for (int t = 0; t < width_; t += lanes<R>) total += load(row + t);
        return sum<R>(total);
    }

    // Compute inward[i] = emission * beta / scale, so that the edge marginal of u -> v into token i
    // is alpha[i-1, u] K[u, v] inward[i, v]. Write the tag marginals. Return false if a tag may
    // have underflowed.
    bool backward(const Sequence<In>& s, In* node) {
        R* beta = row_;
        for (int t = 0; t < width_; ++t) beta[t] = R(t < tags_);
        Vec<R> worst{};
        for (int i = s.length - 1; i >= 0; --i) {
            const R* alpha = at(alpha_, i);
            // alpha beta sums to one, but rounding errors accumulate along a long sequence.
            if (i % 32 == 0) multiply(beta, R(1) / dot(alpha, beta));
            if (i % CHECKED == CHECKED - 1) check_signals();
            if (node) {
                In* out = node + size_t(i) * tags_;
                for (int t = 0; t < tags_; ++t) out[t] = In(alpha[t] * beta[t]);
            }
            if (i == 0) break;
            R* inward = at(inward_, i);
            const R* emission = at(emission_, i);
            const R inverse = R(1) / scale_[i];
            for (int t = 0; t < width_; t += lanes<R>) {
                Vec<R> v = load(beta + t) * inverse;
                worst = max<R>(worst, v);
                store(inward + t, v * load(emission + t));
            }
            product<SumProduct>(beta, inward, matrices_.columns(i - 1), tags_, width_);
        }
        // The backward weights are divided by their overlap with the forward weights, so a small
        // overlap shows as a large weight. The CUDA kernels normalize both and test the overlap.
        return maximum<R>(worst) * Precision<R>::MIN_OVERLAP <= 1;
    }

  public:
    ForwardBackward(const Batch<In>& batch, int longest)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), matrices_(batch, longest),
          emission_(size_t(longest) * width_), alpha_(size_t(longest) * width_),
          inward_(size_t(longest) * width_), row_(width_), padding_(width_), scale_(longest),
          pairs_(batch.tags) {
        std::fill(padding_ + tags_, padding_ + width_, R(1));
    }

    // Return false if the sequence needs a larger range than R has.
    bool run(const Sequence<In>& s, Output<In>& out, bool only_value) {
        R lowest = 1;
        double shift = load_emissions(s, lowest);
        if (shift == -infinity<double>) return false;
        matrices_.load(s);
        LogProduct z;
        z.add(shift);
        for (int i = 0; i + 1 < s.length; ++i) z.add(matrices_.shift(i));
        if (!forward(s, z)) return false;
        // If no number can have underflowed, the value does not need the backward pass as a check.
        bool certain = lowest > R(1e-13) && !matrices_.zeros() && matrices_.range() < 30;
        if (!(only_value && certain) && !backward(s, out.node)) return false;
        if (out.sum) pairs_.add(at(alpha_, 0), at(inward_, 1), s.length - 1, matrices_.rows(0), out.sum);
        if (out.each) write_arcs(out.each, at(alpha_, 0), at(inward_, 1), matrices_, s.length - 1);
        out.value = z.log();
        return true;
    }

    void flush(double* sum) { pairs_.flush(matrices_.rows(0), sum); }
};

template <class R> double crf_lane_share(int tags) { return lane_share<R>(tags, sizeof(R) == 4 ? 32 : 20); }

// Compute sequences in lanes with the arithmetic N, and the others in rows of R, or not at all if R is
// void. share: see `group`. Return the sequences that need a larger range.
template <class N, class R, class In>
std::vector<Place> sum_product_in(const Batch<In>& batch, const std::vector<Place>& all, double share,
                                  In* value, In* node, double* sum, In* each) {
    const bool only_value = !node && !sum && !each;
    std::vector<char> failed(batch.size);
    std::vector<Place> which(all);
#if defined(__GNUC__)
    if (batch.shared && !each) {
        const auto groups = group<typename N::R>(batch, which, share, LANE_LENGTH);
        const In* end = batch.unary + batch.tokens() * batch.tags;
        using Lanes = LaneForwardBackward<N, In>;
        for_each_item(
            batch, groups.size(), [&](size_t i) { return groups[i].tokens; }, pass(batch), sum,
            [&] { return Lanes(batch, end, groups[0].longest); },
            [&](Lanes& chain, size_t i, double* own) {
                chain.run(groups[i], value, node, own, only_value, failed.data());
            },
            [](Lanes& chain, double* own) { chain.flush(own); });
    }
#endif
    if constexpr (std::is_void<R>::value)
        for (Place place : which) failed[place.index] = 1;
    else
        for_each_output(
            batch, which, 3 * pass(batch), value, node, sum, each,
            [&] { return ForwardBackward<R, In>(batch, batch.longest()); },
            [&](ForwardBackward<R, In>& chain, const Sequence<In>& s, Output<In>& out) {
                failed[s.index] = !chain.run(s, out, only_value);
            },
            [](ForwardBackward<R, In>& chain, double* own) { chain.flush(own); });
    return select(all, failed);
}

// A sequence that needs a larger range than its scores have gets double precision, then numbers with
// exponents of their own, and then log space.
template <class In>
void sum_product(const Batch<In>& batch, In* value, In* node, double* sum, In* each) {
    const auto run = [&](auto arithmetic, auto rows, const std::vector<Place>& which, double share) {
        return sum_product_in<decltype(arithmetic), typename decltype(rows)::type>(
            batch, which, share, value, node, sum, each);
    };
    std::vector<Place> left = run(Plain<In>(), Rows<In>(), places(batch), crf_lane_share<In>(batch.tags));
    if constexpr (sizeof(In) == 4)
        left = run(Plain<double>(), Rows<double>(), left, crf_lane_share<double>(batch.tags));
    left = run(Wide<In>(), Rows<void>(), left, 0);
    for_each_output(
        batch, left, 100 * pass(batch), value, node, sum, each, [] { return 0; },
        [](int, const Sequence<In>& s, Output<In>& out) { log_space::sum_product(s, out); },
        [](int, double*) {});
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
