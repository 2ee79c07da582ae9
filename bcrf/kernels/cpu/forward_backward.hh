// Forward-backward of the linear-chain CRF, in probability space with scaling.
#pragma once

#include "interrupt.hh"
#include "transitions.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Forward weights of a token sum to 1. Backward weights get the same scales: their scalar product with the forward
// weights is 1, so a small overlap shows as a large weight. `inward` is such that the marginal of an edge u -> v into
// token i is (alpha[i-1, u] K[u, v]) inward[i, v]. A row is `vectors` vectors of each part of a number.
template <class L, class N> class ForwardBackward {
  public:
    using R = typename N::R;
    L layout;
    Transitions<L, N> transitions;
    const int vectors;
    const size_t part, width;  // of a row, and of all its parts

  private:
    using Value = typename N::Value;
    using Total = typename N::template Total<L>;
    static constexpr int W = lanes<R>;
    // Tokens between two logarithms of a product of scales, whose mantissas are less than 2.
    static constexpr int SCALES = N::PARTS == 1 ? 32 : 1;
    // The last resort: no range of scores is too large for rows of wide doubles.
    static constexpr bool WALKS = !L::IN_LANES && N::PARTS == 2 && sizeof(R) == 8;
    const int window_;
    Buffer<R> alpha_, emission_, inward_;  // (longest, row); the last two of the tokens of a window
    const size_t scales_;  // a part of inverse_
    Buffer<R> inverse_;    // (longest): 1 / scale
    Buffer<R> beta_, scratch_;
    int start_ = 0;  // of the window

    // Set emission = exp(score - maximum of the token). Return the maxima, and lower `lowest`.
    BCRF_NOINLINE Vec<R> load_emissions(int i, Vec<R>& lowest) {
        R* row = emission(i);
        layout.load(row, i);
        // A token without an allowed tag has emissions of 0.
        Vec<R> top = broadcast<R>(std::numeric_limits<R>::lowest());
        for (int v = 0; v < vectors; ++v) top = max<R>(top, load(row + v * W));
        top = L::max(top);
        Vec<R> lows = lowest;  // a reference would go to memory and back for each vector
        for (int v = 0; v < vectors; ++v) {
            const Vec<R> x = load(row + v * W);
            lows = min<R>(lows, layout.ignore_padding(v, N::below(x, top)));
            N::store(row + v * W, part, N::exponential(x, top, 1));
        }
        lowest = lows;
        return top;
    }

    // Set alpha of token i, and `kept` to 1 where N has kept its sum. Return the sum. The division follows the product
    // immediately: a later one would lose numbers below the product of two sums.
    template <class Lengths> Value forward(int i, Lengths lengths, Vec<R>& kept) {
        R *a = alpha(i), *e = emission(i);
        Total sum(scratch_);
        const auto put = [&](int v, Value x) BCRF_INLINE_LAMBDA {
            sum.add(x);
            N::store(a + v * W, part, x);
        };
        if (i == 0)
            for (int v = 0; v < vectors; ++v) put(v, N::load(e + v * W, part));
        else
            transitions.product(i - 1, alpha(i - 1), W, part, false, [&](int v, Value y) BCRF_INLINE_LAMBDA {
                put(v, N::times(N::load(e + v * W, part), y));
            });
        const Value total = sum.get();
        kept = N::valid(total);
        // The weights of a sequence that has failed or ended are 0, so they stay finite.
        const Value by = N::select(kept * L::has_token(lengths, i), N::inverse(total), N::zero());
        N::store(inverse_ + L::index(i, 0), scales_, by);
        for (int v = 0; v < vectors; ++v) N::store(a + v * W, part, N::times(N::load(a + v * W, part), by));
        return total;
    }

    // Divide beta by its overlap with alpha: rounding errors accumulate.
    void normalize(const R* a) {
        Total sum(scratch_);
        for (int v = 0; v < vectors; ++v)
            sum.add(N::times(N::load(a + v * W, part), N::load(beta_ + v * W, part)));
        const Value overlap = sum.get();
        const Value by = N::select(N::mantissa(overlap), N::inverse(overlap), N::zero());
        for (int v = 0; v < vectors; ++v)
            N::store(beta_ + v * W, part, N::normal(N::times(N::load(beta_ + v * W, part), by)));
    }

    // Set inward of tokens [from, to), and write the tag marginals. Add the weights. beta_ has the backward weights of
    // token to - 1, and then those of from - 1.
    BCRF_NOINLINE void backward(int from, int to, R* node, Vec<R>& weights) {
        constexpr int DIVIDED = Precision<R>::TOKENS_A_DIVISION;
        const auto lengths = layout.lengths();
        int end = layout.last_end(to);
        for (int i = to - 1; i >= from; --i) {
            if (i % TOKENS_A_CHECK == TOKENS_A_CHECK - 1) check_signals();
            const R *a = alpha(i), *e = emission(i);
            R* in = inward(i);
            const Value by = L::template each<N>(inverse_, scales_, i);
            const auto writer = layout.writer(i, node, layout.tags);
            Vec<R> own{};  // the sum of all tokens would not stay in a register across calls
            const auto finish = [&](int v, Value beta) BCRF_INLINE_LAMBDA {
                const Value scaled = N::times(beta, by);
                writer.put(v, N::plain(N::times(beta, N::load(a + v * W, part))));
                own += N::mantissa(scaled);
                N::store(in + v * W, part, N::times(scaled, N::load(e + v * W, part)));
            };
            if (i != end && i + 1 < to && i % DIVIDED) {
                transitions.product(i, inward(i + 1), W, part, true, finish);
            } else {
                if (i + 1 < to) transitions.write_product(i, inward(i + 1), W, part, true, beta_, part);
                // Beta is 1 in the sequences that have ended.
                for (int v = 0; v < vectors && i == end; ++v) {
                    R* b = beta_ + v * W;
                    N::store(b, part, N::select(L::ended(lengths, i), N::one(), N::load(b, part)));
                }
                if (i == end) end = layout.last_end(i);
                if (i % DIVIDED == 0) normalize(a);
                for (int v = 0; v < vectors; ++v) finish(v, N::load(beta_ + v * W, part));
            }
            weights += own;
            writer.end();
        }
        if (from > 0) transitions.write_product(from - 1, inward(from), W, part, true, beta_, part);
    }

    // `backward` by conditional probabilities. Beyond the range of Exponents, products of forward and backward weights
    // lose the digits of their exponents, but a forward weight's quotient by its sum does not. beta_ has the
    // probabilities of the tags of token to - 1, and then those of from - 1.
    BCRF_NOINLINE void walk(int from, int to, R* node) {
        R* p = beta_;
        const auto divide = [&] {
            Vec<R> sum{};
            for (int v = 0; v < vectors; ++v) sum += load(p + v * W);
            const Vec<R> total = L::sum(sum), by = total > Vec<R>{} ? R(1) / total : total;
            for (int v = 0; v < vectors; ++v) store(p + v * W, load(p + v * W) * by);
        };
        if (to == layout.lengths()) {
            const R* a = alpha(to - 1);
            for (int v = 0; v < vectors; ++v) store(p + v * W, N::plain(N::load(a + v * W, part)));
            divide();
        }
        for (int i = to - 1; i >= from; --i) {
            if (i % TOKENS_A_CHECK == TOKENS_A_CHECK - 1) check_signals();
            const auto writer = layout.writer(i, node, layout.tags);
            for (int v = 0; v < vectors; ++v) writer.put(v, load(p + v * W));
            if (i == 0) break;
            const R* a = alpha(i - 1);
            R* in = inward(i);
            transitions.raw_product(i - 1, a, part, false, [&](int v, Value sum) BCRF_INLINE_LAMBDA {
                const Vec<R> share = sum.m > Vec<R>{} ? load(p + v * W) / sum.m : Vec<R>{};
                N::store(in + v * W, part, N::select(share, {share, -sum.e}, N::zero()));
            });
            std::fill_n(p, part, R(0));
            const R* k = transitions.matrix(i - 1, true);
            for (int v = 0; v < layout.tags; ++v, k += part) {
                if (!(in[v] > 0)) continue;
                const Value after = N::single(in + v, part);
                for (int u = 0; u < vectors; ++u) {
                    const Value before = N::times(N::load(a + u * W, part), N::load(k + u * W, transitions.part));
                    store(p + u * W, load(p + u * W) + N::plain(N::times(before, after)));
                }
            }
            divide();
        }
    }

    // Write the tag marginals and visit the edges, from the last window to the first. Return
    // `out_of_range`, with 1 also for each sequence in which N has lost a tag.
    template <class Visitor> Vec<R> marginals(int longest, Vec<R> out_of_range, R* node, Visitor& visitor) {
        const Vec<R> before = out_of_range;
        Vec<R> ignored{}, weights{};
        visitor.begin(longest > window_);
        for (int to = longest; to > 0; to = start_) {
            const bool again = to < longest;
            start_ = (to - 1) / window_ * window_;
            if constexpr (WALKS) {
                walk(start_, to, node);
            } else {
                for (int i = start_; i < to && again; ++i) load_emissions(i, ignored);
                backward(start_, to, node, weights);
                out_of_range += N::lost(L::sum(weights));
            }
            visitor.visit(start_, to, out_of_range);
        }
        return visitor.end(L::any(out_of_range - before)) ? broadcast<R>(1) : out_of_range;
    }

    R* emission(int i) { return emission_ + size_t(i - start_) * width; }

  public:
    // longest: the most tokens of a tile.
    BCRF_NOINLINE ForwardBackward(const Batch<R>& batch, const Shape& shape, int longest)
        : layout(batch), transitions(batch, shape, longest), vectors(layout.vectors),
          part(size_t(vectors) * W), width(N::PARTS * part), window_(longest > LONG_LENGTH ? WINDOW : longest),
          alpha_(longest * width, Fill::NONE), emission_(window_ * width, Fill::NONE),
          inward_(window_ * width, Fill::NONE), scales_(L::index(longest, 0) + W), inverse_(N::PARTS * scales_, Fill::NONE),
          beta_(width), scratch_(2 * part) {}

    // The weights of token i, which is in the window for inward weights.
    R* alpha(int i) { return alpha_ + size_t(i) * width; }
    R* inward(int i) { return inward_ + size_t(i - start_) * width; }

    // Set value (size) to the log-partitions, and node (N, tags), if not null, to the tag marginals. only_value: do not
    // visit nor find marginals if no number can have underflowed. Set failed[b] for the sequences b that need a larger
    // range than N has. The visitor, see outputs.hh, has
    //   begin(many)             begins a tile; many: it has several windows of tokens, the last one comes first
    //   visit(from, to, failed) tokens [from, to) have their backward weights; failed: 1 for sequences that N does not hold
    //   end(any)                any: a sequence has failed; returns whether all sequences fail with it
    template <class Visitor>
    BCRF_NOINLINE void run(const Tile<R>& tile, R* value, R* node, Visitor& visitor, bool only_value, char* failed) {
        layout.set(tile);
        const Vec<R> one = broadcast<R>(1), none{};
        const auto lengths = layout.lengths();
        // out_of_range: 1 or more for the sequences that N does not hold.
        Vec<R> lowest{}, out_of_range{}, mantissas = one, powers{};
        typename L::Sums tops, logs, exponents;
        const auto add_scales = [&]() BCRF_INLINE_LAMBDA {
            logs.add(logarithm(mantissas));
            exponents.add(powers);
            mantissas = one, powers = none;
        };
        transitions.prepare(tile.sequence[0]);
        start_ = 0;
        for (int i = 0; i < tile.longest; ++i) {
            if (i % TOKENS_A_CHECK == TOKENS_A_CHECK - 1) check_signals();
            if (i - start_ == window_) start_ = i;
            const Vec<R> has_token = L::has_token(lengths, i);
            const Vec<R> top = load_emissions(i, lowest);
            Vec<R> kept;
            const Value total = forward(i, lengths, kept);
            const Vec<R> has_scale = kept * has_token;
            out_of_range += has_token - has_scale;
            // A float log would lose digits beside a large exponent.
            const auto scale =
                Wide<R>::normal({has_scale > none ? N::mantissa(total) : one, N::exponent(total) * has_scale});
            tops.add(top * has_token);
            mantissas *= scale.m, powers += scale.e;
            if (i % SCALES == SCALES - 1) add_scales();
            if (i % 4 == 3 && L::all(out_of_range)) break;
        }
        add_scales();
        lowest = L::min(lowest);
        const bool finite = minimum<R>(lowest) > -infinity<R> && transitions.range() < infinity<double>;
        const double range = transitions.range();
        if (!WALKS && range <= N::MAX_RANGE) out_of_range += -lowest <= R(N::MAX_RANGE) ? none : one;
        else if (!WALKS || !finite) out_of_range = one;
        const bool certain = N::is_certain(minimum<R>(lowest), transitions.zeros(), range);
        if (!L::all(out_of_range) && !(only_value && certain))
            out_of_range = marginals(tile.longest, out_of_range, node, visitor);
        double shifts[W] = {}, twos[W] = {}, scales[W] = {};
        tops.read(shifts);
        exponents.read(twos);
        logs.read(scales);
        for (int k = 0; k < tile.size; ++k) {
            const Sequence<R>& s = tile.sequence[k];
            failed[s.index] = !WALKS && out_of_range[k] > 0;
            R log = R(scales[k] + twos[k] * LOG_2 + shifts[k] + transitions.shifts(s.length - 1));
            if (WALKS && out_of_range[k] > 0) {
                log = finite ? -infinity<R> : std::numeric_limits<R>::quiet_NaN();
                if (node) std::fill_n(node + s.first * s.tags, s.length * size_t(s.tags), R(0));
            }
            value[s.index] = log;
        }
    }

    void flush(double* sum) { transitions.flush(sum); }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
