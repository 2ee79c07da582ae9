// Forward-backward of the linear-chain CRF, in probability space with scaling.
#pragma once

#include "../shared/precision.hh"
#include "for_each_sequence.hh"
#include "lane_posterior.hh"
#include "median_range.hh"
#include "pair_sums.hh"
#include "prefetch.hh"
#include "scaled_chain.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The weights of consecutive tokens, (tokens, width), and their sums.
template <class R> class Messages {
    int width_, first_ = 0;
    Buffer<R> rows_, sums_;

  public:
    Messages(size_t tokens, int width) : width_(width), rows_(tokens * width), sums_(tokens) {}

    // Let the rows begin with this token.
    void start(int first) { first_ = first; }
    R* row(int i) { return rows_ + size_t(i - first_) * width_; }
    R& sum(int i) { return sums_[i - first_]; }

    void copy(int i, Messages& from, int j) {
        std::memcpy(row(i), from.row(j), width_ * sizeof(R));
        sum(i) = from.sum(j);
    }

    // Return the logarithm of the product of the sums of tokens [from, to).
    double log_sums(int from, int to) {
        LogProduct product;
        for (int i = from; i < to; ++i) product.multiply(double(sum(i)));
        return product.log();
    }
};

// A long sequence in two halves: tokens [0, middle) and [middle, length). Forward weights of the first
// half and backward weights of the second one do not depend on each other, so two threads compute them.
// From the middle, each half goes on with the other kind of weights and finds the marginals.
template <class R, class In> struct Halves {
    Sequence<In> s;
    Output<In> out;
    int middle;
    Messages<R> alpha, beta;  // of tokens [0, middle] and [middle, length)
    Messages<R> center;       // beta of the middle
    double log[2] = {0, 0};   // of the scales of both
    R lowest[2] = {1, 1};
    bool lost[2] = {false, false};
    Buffer<double> sums[2];  // of edge marginals

    Halves(const Sequence<In>& sequence, const Output<In>& output, int width)
        : s(sequence), out(output), middle(s.length / 2), alpha(middle + 1, width),
          beta(s.length - middle, width), center(1, width) {
        beta.start(middle);
        if (!out.sum) return;
        for (auto& sum : sums) sum = Buffer<double>(size_t(s.tags) * s.tags);
    }

    bool is_lost() const { return lost[0] || lost[1]; }
    int tokens(int half) const { return half ? s.length - middle : middle; }
};

template <class R, class In> class ForwardBackward {
  protected:
    static constexpr int CHECKED = 1024;  // tokens between two looks at the signals
    int tags_, width_;
    Matrices<R, In> matrices_;
    Messages<R> emission_, alpha_, inward_;  // (longest, width)
    Messages<R> carry_;                      // one token
    Buffer<R> row_;                          // (width)
    Buffer<R> padding_;                      // (width): infinity beyond the tags
    const In* end_;                          // of the scores
    PairSums<R> pairs_;

    // Set emission = exp(unary - each token's maximum) of tokens [from, to), and `lowest` to its minimum
    // with the least emission. Return the sum of the maxima, or -inf if a token has no allowed tag.
    double load_emissions(const Sequence<In>& s, int from, int to, R& lowest) {
        double shift = 0;
        Vec<R> lows = broadcast<R>(lowest);
        for (int i = from; i < to; ++i) {
            const In* unary = s.unary + size_t(i) * tags_;
            if (i + TOKENS_AHEAD < s.length) prefetch(unary + TOKENS_AHEAD * tags_, tags_);
            R* row = emission_.row(i);
            Vec<R> tops = broadcast<R>(-infinity<R>);
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> v = load_first<R>(unary + t, std::min(lanes<R>, tags_ - t), end_) - load(padding_ + t);
                store(row + t, v);
                tops = max<R>(tops, v);
            }
            const R top = maximum<R>(tops);
            if (top == -infinity<R>) return top;
            shift += double(top);
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> v = exponential(load(row + t) - top);
                store(row + t, v);
                lows = min<R>(lows, v + load(padding_ + t));
            }
        }
        lowest = -maximum<R>(-lows);
        return shift;
    }

    // Compute alpha of token i: the emission times the sum over the tags before, divided by the sum of
    // alpha there. The division waits for no sum, as it follows the product. Return false if a weight
    // may have underflowed.
    BCRF_INLINE bool forward_token(int i, Messages<R>& alpha) {
        R *here = alpha.row(i), last = 1;
        const R* emission = emission_.row(i);
        if (i == 0) {
            std::memcpy(here, emission, width_ * sizeof(R));
            alpha.sum(i) = row_sum(here);
        } else {
            last = alpha.sum(i - 1);
            product<SumProduct>(here, alpha.row(i - 1), matrices_.rows(i - 1), tags_, width_);
            const R by = R(1) / last;
            Vec<R> total{};
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> v = load(here + t) * load(emission + t) * by;
                store(here + t, v);
                total += v;
            }
            alpha.sum(i) = sum<R>(total);
        }
        if (i % CHECKED == CHECKED - 1) check_signals();
        return in_range(alpha.sum(i), last);
    }

    // Compute beta of token i in the same way: the sum over the next tag of its emission and beta.
    BCRF_INLINE bool backward_token(const Sequence<In>& s, int i, Messages<R>& beta) {
        R *here = beta.row(i), *row = row_, last = 1;
        if (i + 1 == s.length) {
            for (int t = 0; t < width_; ++t) here[t] = R(t < tags_);
            beta.sum(i) = R(tags_);
        } else {
            const R *next = beta.row(i + 1), *emission = emission_.row(i + 1);
            last = beta.sum(i + 1);
            for (int t = 0; t < width_; t += lanes<R>) store(row + t, load(next + t) * load(emission + t));
            product<SumProduct>(here, (const R*)row, matrices_.columns(i), tags_, width_);
            multiply(here, R(1) / last);
            beta.sum(i) = row_sum(here);
        }
        if (i % CHECKED == CHECKED - 1) check_signals();
        return in_range(beta.sum(i), last);
    }

    // Return whether the overlap of forward and backward weights is large enough for their sums. before: the
    // product of the sums by which both were divided.
    static bool is_enough(R overlap, R sums, R before) {
        return overlap * (before < 1 ? before : 1) > Precision<R>::MIN_OVERLAP * (sums > 1 ? sums : 1);
    }

    static bool in_range(R total, R last) {
        return total * last > Precision<R>::MIN_OVERLAP && total < infinity<R>;
    }

    // Replace beta of token i > 0 by inward, so that the edge marginal of u -> v into the token is
    // alpha[i-1, u] K[u, v] inward[i, v]. Write the tag marginals. Return false if a tag may have
    // underflowed.
    BCRF_INLINE bool finish_token(int i, int length, Messages<R>& alpha, Messages<R>& beta, In* node) {
        const R *a = alpha.row(i), *emission = emission_.row(i);
        R* b = beta.row(i);
        const R overlap = dot(a, b), after = i + 1 < length ? beta.sum(i + 1) : 1;
        if (!is_enough(overlap, alpha.sum(i) * beta.sum(i), alpha.sum(i - 1) * after)) return false;
        const R by = R(1) / overlap;
        if (node) write_node(i, a, b, by, node);
        const R inward = by / alpha.sum(i - 1);
        for (int t = 0; t < width_; t += lanes<R>)
            store(b + t, load(b + t) * load(emission + t) * inward);
        return true;
    }

    bool forward(int from, int to, Messages<R>& alpha) {
        for (int i = from; i < to; ++i)
            if (!forward_token(i, alpha)) return false;
        return true;
    }

    // Compute inward of tokens [from, to) and the tag marginals, given alpha of all tokens. Before, row_ has
    // the backward weights of token to - 1; afterwards, of token from - 1. With the scales of alpha, the
    // scalar product of both weights stays 1. Set `worst` to the largest weight.
    void backward(int from, int to, Messages<R>& alpha, Messages<R>& inward, In* node, Vec<R>& worst) {
        R* beta = row_;
        for (int i = to - 1; i >= from; --i) {
            const R* a = alpha.row(i);
            if (i >= TOKENS_AHEAD) {
                prefetch(alpha.row(i - TOKENS_AHEAD), width_);
                if (node) prefetch(node + size_t(i - TOKENS_AHEAD) * tags_, tags_);
            }
            // Rounding errors accumulate along a long sequence.
            if (i % 32 == 0) multiply(beta, R(1) / dot(a, beta));
            if (i % CHECKED == CHECKED - 1) check_signals();
            if (node) write_node(i, a, beta, 1, node);
            if (i == 0) break;
            R* in = inward.row(i);
            const R* emission = emission_.row(i);
            const R inverse = R(1) / alpha.sum(i - 1);
            for (int t = 0; t < width_; t += lanes<R>) {
                const Vec<R> v = load(beta + t), scaled = v * inverse;
                // `forward_token` loses numbers before their division.
                worst = max<R>(worst, max<R>(v, scaled));
                store(in + t, scaled * load(emission + t));
            }
            product<SumProduct>(beta, (const R*)in, matrices_.columns(i - 1), tags_, width_);
        }
    }

    // Return whether no tag can have underflowed. A small overlap of forward and backward weights shows as
    // a large weight, because the overlap is 1.
    static bool is_small(Vec<R> worst) { return maximum<R>(worst) * Precision<R>::MIN_OVERLAP <= 1; }

    BCRF_INLINE void write_node(int i, const R* a, const R* b, R by, In* node) {
        In* out = node + size_t(i) * tags_;
        for (int t = 0; t < tags_; t += lanes<R>)
            store_first<R>(out + t, load(a + t) * load(b + t) * by, std::min(lanes<R>, tags_ - t));
    }

    void multiply(R* row, R by) {
        for (int t = 0; t < width_; t += lanes<R>) store(row + t, load(row + t) * by);
    }

    // Add the marginals of the edges into tokens [from, to), or write each.
    void add_edges(int from, int to, Messages<R>& alpha, Messages<R>& inward, double* sum, In* each) {
        if (from == 0) from = 1;
        if (to <= from) return;
        const R *a = alpha.row(from - 1), *b = inward.row(from);
        if (sum) pairs_.add(a, b, to - from, matrices_.rows(0), sum);
        if (each) write_arcs(each + size_t(from - 1) * tags_ * tags_, a, b, matrices_, to - from);
    }

    R dot(const R* a, const R* b) {
        Vec<R> total{};
        for (int t = 0; t < width_; t += lanes<R>) total += load(a + t) * load(b + t);
        return sum<R>(total);
    }

    R row_sum(const R* row) {
        Vec<R> total{};
        for (int t = 0; t < width_; t += lanes<R>) total += load(row + t);
        return sum<R>(total);
    }

    // Return whether no number can have underflowed. The value then needs no overlap as a check.
    bool is_certain(R lowest) { return lowest > R(1e-13) && !matrices_.zeros() && matrices_.range() < 30; }

    bool marginals(const Sequence<In>& s, In* node) {
        const int n = s.length;
        const R last = R(1) / alpha_.sum(n - 1);
        for (int t = 0; t < width_; ++t) row_[t] = t < tags_ ? last : 0;
        Vec<R> worst{};
        backward(0, n, alpha_, inward_, node, worst);
        return is_small(worst);
    }

  public:
    // Tokens of a long sequence whose weights stay in the cache.
    static constexpr int WINDOW = 256;

    ForwardBackward(const Batch<In>& batch, int longest)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), matrices_(batch, longest),
          emission_(longest, width_), alpha_(longest, width_), inward_(longest, width_), carry_(1, width_),
          row_(width_), padding_(width_), end_(batch.unary + batch.tokens() * batch.tags), pairs_(batch.tags) {
        std::fill(padding_ + tags_, padding_ + width_, infinity<R>);
    }

    // Return false if the sequence needs a larger range than R has.
    bool run(const Sequence<In>& s, Output<In>& out, bool only_value) {
        R lowest = 1;
        const int n = s.length;
        const double shift = load_emissions(s, 0, n, lowest);
        if (shift == -infinity<double>) return false;
        matrices_.load(s);
        if (!forward(0, n, alpha_)) return false;
        if (!(only_value && is_certain(lowest)) && !marginals(s, out.node)) return false;
        add_edges(0, n, alpha_, inward_, out.sum, out.each);
        out.value = shift + alpha_.log_sums(0, n) + matrices_.shifts(n - 1);
        return true;
    }

    // Compute the weights of a half from its end of the sequence to the middle.
    void go_to_middle(Halves<R, In>& h, int half) {
        const int n = h.s.length;
        R ignored = 1;
        const auto load = [&](int from, int to) {
            const double shift = load_emissions(h.s, from, to, h.lowest[half]);
            h.log[half] += shift;
            return shift > -infinity<double>;
        };
        h.lost[half] = true;
        if (half == 0) {
            for (int from = 0, to; from < h.middle; from = to) {
                to = std::min(from + WINDOW, h.middle);
                emission_.start(from);
                if (!load(from, to) || !forward(from, to, h.alpha)) return;
            }
            emission_.start(h.middle);
            if (load_emissions(h.s, h.middle, h.middle + 1, ignored) == -infinity<double>) return;
            if (!forward_token(h.middle, h.alpha)) return;
            h.log[0] += h.alpha.log_sums(0, h.middle) + matrices_.shifts(n - 1);
        } else {
            for (int to = n, from; to > h.middle; to = from) {
                from = std::max(to - WINDOW, h.middle);
                emission_.start(from);
                if (to < n) load_emissions(h.s, to, to + 1, ignored);
                if (!load(from, to)) return;
                for (int i = to - 1; i >= from; --i)
                    if (!backward_token(h.s, i, h.beta)) return;
            }
            h.log[1] += h.beta.log_sums(h.middle + 1, n);
            h.center.copy(0, h.beta, h.middle);
        }
        h.lost[half] = false;
    }

    // Return the log-partition, which the weights of both halves give in the middle.
    double join(Halves<R, In>& h) {
        return h.log[0] + h.log[1] + std::log(double(dot(h.alpha.row(h.middle), h.center.row(0))));
    }

    bool needs_marginals(Halves<R, In>& h, bool only_value) {
        return !(only_value && is_certain(std::min(h.lowest[0], h.lowest[1])));
    }

    // Compute the marginals of a half, from the middle to its end of the sequence.
    void leave_middle(Halves<R, In>& h, int half) {
        double* sum = h.out.sum ? h.sums[half].data() : nullptr;
        h.lost[half] = !marginals(h, half, sum);
        if (sum) flush(sum);
    }

    bool marginals(Halves<R, In>& h, int half, double* sum) {
        R ignored = 1;
        const int n = h.s.length;
        if (half == 0) {
            const int middle = h.middle;
            const R overlap = dot(h.alpha.row(middle), h.center.row(0));
            const R before = h.alpha.sum(middle - 1) * h.beta.sum(middle + 1);
            if (!is_enough(overlap, h.alpha.sum(middle) * h.center.sum(0), before)) return false;
            emission_.start(middle);
            inward_.start(middle);
            load_emissions(h.s, middle, middle + 1, ignored);
            const R *beta = h.center.row(0), *emission = emission_.row(middle);
            R *in = inward_.row(middle), by = 1 / (overlap * h.alpha.sum(middle - 1));
            for (int t = 0; t < width_; ++t) in[t] = beta[t] * emission[t] * by;
            product<SumProduct>(row_.data(), (const R*)in, matrices_.columns(middle - 1), tags_, width_);
            Vec<R> worst{};
            for (int to = middle, from; to > 0; to = from) {
                from = std::max(to - WINDOW, 0);
                emission_.start(from);
                inward_.start(from);
                load_emissions(h.s, from, to, ignored);
                backward(from, to, h.alpha, inward_, h.out.node, worst);
                add_edges(from, to, h.alpha, inward_, sum, h.out.each);
            }
            return is_small(worst);
        } else {
            carry_.copy(0, h.alpha, h.middle - 1);
            for (int from = h.middle, to; from < n; from = to) {
                to = std::min(from + WINDOW, n);
                emission_.start(from);
                alpha_.start(from - 1);
                load_emissions(h.s, from, to, ignored);
                alpha_.copy(from - 1, carry_, 0);
                for (int i = from; i < to; ++i) {
                    if (i + TOKENS_AHEAD < n) {
                        prefetch(h.beta.row(i + TOKENS_AHEAD), width_);
                        if (h.out.node) prefetch(h.out.node + size_t(i + TOKENS_AHEAD) * tags_, tags_);
                    }
                    if (!forward_token(i, alpha_) || !finish_token(i, n, alpha_, h.beta, h.out.node)) return false;
                }
                carry_.copy(0, alpha_, to - 1);
                add_edges(from, to, alpha_, h.beta, sum, h.out.each);
            }
            return true;
        }
    }

    void flush(double* sum) { pairs_.flush(matrices_.rows(0), sum); }
};

// Compute long sequences with shared transitions in halves. Set failed[b] if sequence b needs a larger
// range.
template <class R, class In>
void sum_product_long(const Batch<In>& batch, const std::vector<Place>& which, bool only_value,
                      const Outputs<In>& outputs, char* failed) {
    using Chain = ForwardBackward<R, In>;
    std::vector<Halves<R, In>> all;
    all.reserve(which.size());
    for (Place place : which) {
        const Sequence<In> s = batch.sequence(place);
        all.emplace_back(s, outputs.of(s, outputs.sum), padded<R>(batch.tags));
    }
    const auto for_each_half = [&](auto run) {
        for_each_item(
            batch, 2 * all.size(), [&](size_t i) { return size_t(all[i / 2].tokens(i % 2)); },
            1.5 * pass(batch), nullptr, [&] { return Chain(batch, Chain::WINDOW + 1); },
            [&](Chain& chain, size_t i, double*) { run(chain, all[i / 2], int(i % 2)); },
            [](Chain&, double*) {});
    };
    for_each_half([](Chain& chain, auto& h, int half) { chain.go_to_middle(h, half); });
    std::vector<double> values(all.size());
    std::vector<char> lost(all.size());
    for (size_t i = 0; i < all.size(); ++i) lost[i] = all[i].is_lost();
    for_each_half([&](Chain& chain, auto& h, int half) {
        const size_t i = &h - all.data();
        if (lost[i]) return;
        if (half == 0) values[i] = chain.join(h);
        if (chain.needs_marginals(h, only_value)) chain.leave_middle(h, half);
    });
    for (size_t i = 0; i < all.size(); ++i) {
        Halves<R, In>& h = all[i];
        failed[h.s.index] = h.is_lost();
        if (h.is_lost()) {
            outputs.clear_edges(h.s);
            continue;
        }
        outputs.value[h.s.index] = In(values[i]);
        for (auto& part : h.sums)
            for (size_t k = 0; outputs.sum && k < size_t(batch.tags) * batch.tags; ++k) outputs.sum[k] += part[k];
        subtract_gold(h.s, outputs, outputs.sum);
    }
}

// The share for lanes of Scaled numbers to be faster than ScaledChain.
template <class R, class In> double wide_lane_share(const Batch<In>& batch) {
    const double share = std::min(0.1 + 0.0095 * batch.tags, 0.75) * (sizeof(R) == 4 ? 1 : 1.6);
    return lanes<R> >= 2 && are_blocks_faster(batch) ? std::min(share, 0.5) : share;
}

template <class R, class In> double crf_lane_share(const Batch<In>& batch) {
    const double share = lane_share<R>(batch.tags, sizeof(R) == 4 ? 32 : 20);
    // Rows have no blocks.
    return lanes<R> >= 2 && are_blocks_faster(batch) ? 0.65 : share;
}

// Compute sequences in lanes with the arithmetic N, and the others in rows of R, or not at all if R is
// void. share: see `group`. Return the sequences that need a larger range.
template <class N, class R, class In>
std::vector<Place> sum_product_in(const Batch<In>& batch, const std::vector<Place>& all, double share,
                                  const Outputs<In>& out) {
    const bool only_value = !out.node && !out.sum && !out.each;
    std::vector<char> failed(batch.size);
    std::vector<Place> which(all);
#if defined(__GNUC__)
    if (batch.shared && (!out.each || N::PARTS == 2)) {
        const auto groups = group<typename N::R>(batch, which, share);
        const In* end = batch.unary + batch.tokens() * batch.tags;
        using Lanes = std::conditional_t<N::PARTS == 2, LanePosterior<In>, LaneForwardBackward<N, In>>;
        for_each_item(
            batch, groups.size(), [&](size_t i) { return groups[i].tokens; }, pass(batch), out.sum,
            [&] { return Lanes(batch, end, groups[0].longest); },
            [&](Lanes& chain, size_t i, double* own) {
                const auto& g = groups[i];
                if constexpr (N::PARTS == 2)
                    if (out.each) chain.edges(g, out.value, out.node, own, out.each, failed.data());
                if (!out.each) chain.run(g, out.value, out.node, own, only_value, failed.data());
                for (int k = 0; k < g.size; ++k) {
                    const Sequence<In> s = batch.sequence(g.place[k]);
                    if (failed[s.index]) out.clear_edges(s);
                    else subtract_gold(s, out, own);
                }
            },
            [](Lanes& chain, double* own) { chain.flush(own); });
    }
#endif
    if constexpr (std::is_void<R>::value) {
        for (Place place : which) failed[place.index] = 1;
    } else {
        if (batch.shared) {
            const std::vector<Place> most = take_long(batch, which);
            sum_product_long<R>(batch, most, only_value, out, failed.data());
        }
        for_each_output(
            batch, which, 3 * pass(batch), out, [&] { return ForwardBackward<R, In>(batch, longest(batch, which)); },
            [&](ForwardBackward<R, In>& chain, const Sequence<In>& s, Output<In>& own) {
                const bool done = chain.run(s, own, only_value);
                failed[s.index] = !done;
                return done;
            },
            [](ForwardBackward<R, In>& chain, double* own) { chain.flush(own); });
    }
    return select(all, failed);
}

// Guesses in which precision forward-backward of most sequences fits.
class RangeGuess {
    double range_;

    // A few small weights may be lost, so the limit is above that of R.
    template <class R> static constexpr double most = sizeof(R) == 4 ? 150 : 1500;

  public:
    template <class In> explicit RangeGuess(const Batch<In>& batch) : range_(median_range(batch)) {
        const size_t t = batch.tags;
        if (!batch.shared || fits<float>()) return;
        // A tag whose weight is lost matters only if the next tags cannot follow the others as well.
        const double low = smallest(batch.transitions, int(t * t)), top = largest(batch.transitions, t * t);
        if (low > -infinity<double>) range_ = std::min(range_, top - low);
    }

    template <class R> bool fits() const { return !(range_ > most<R>); }
};

// Kernels for larger ranges compute the sequences that the kernels in the precision of the scores cannot: in
// double precision, then in lanes of Scaled numbers, and then in ScaledChain. Lanes of Scaled floats come before doubles
// where they are faster.
template <class In>
void sum_product(const Batch<In>& batch, std::vector<Place> left, const Outputs<In>& outputs) {
    const RangeGuess guess(batch);
    const auto run = [&](auto arithmetic, auto rows, double share) {
        using R = typename decltype(rows)::type;
        if (!left.empty()) left = sum_product_in<decltype(arithmetic), R>(batch, left, share, outputs);
    };
    if (guess.fits<In>()) run(Plain<In>(), Rows<In>(), crf_lane_share<In>(batch));
    if (sizeof(In) == 4 && guess.fits<double>()) {
        // Faster than vectors of two doubles, and for each edge of many tags than rows.
        const bool pays = outputs.each ? batch.tags >= 32 : lanes<double> < 4;
        if (pays && !guess.fits<In>() && are_scaled_floats_faster(batch, 1))
            run(Wide<In>(), Rows<void>(), SCALED_FLOATS_SHARE);
        // Scores of a moderate range leave few sequences after this.
        run(Plain<double>(), Rows<double>(), crf_lane_share<double>(batch));
    }
    run(Wide<In>(), Rows<void>(), wide_lane_share<In>(batch));
    for_each_output(
        batch, left, 10 * pass(batch), outputs, [&] { return ScaledChain<In>(batch); },
        [](ScaledChain<In>& chain, const Sequence<In>& s, Output<In>& out) {
            chain.sum_product(s, out);
            return true;
        },
        [](ScaledChain<In>&, double*) {});
}

template <class In> void sum_product(const Batch<In>& batch, const Outputs<In>& outputs) {
    sum_product(batch, places(batch), outputs);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
