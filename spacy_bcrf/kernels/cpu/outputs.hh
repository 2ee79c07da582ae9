// Outputs of forward-backward, from a token's forward row and backward row. The marginal of an edge u -> v into token i is
// (alpha[i-1, u] K[u, v]) inward[i, v], multiplied in this order: beside the exponents of huge scores, another order would
// lose digits.
#pragma once

#include "features.hh"
#include "forward_backward.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Forward-backward with the output of edges that a call wants: none or one. See ForwardBackward::run.
template <class L, class N> class Posterior {
    using R = typename N::R;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>;
    const Outputs<R>& out_;
    const bool shared_;
    const int tags_, width_;
    const size_t tokens_;  // of the batch
    ForwardBackward<L, N> chain_;
    Transitions<L, N>& k_;
    const size_t part_;
    const Tile<R>* tile_ = nullptr;
    double* sum_ = nullptr;
    bool many_ = false;
    Buffer<double> own_;         // the sum of a tile of several windows
    Buffer<R> logs_;             // (tags, width): of the mantissas of transitions
    Buffer<R> before_logs_;      // of the mantissas of a row
    int logs_edge_ = -1;         // whose transitions logs_ has
    typename L::Sums entropy_;
    Buffer<R> row_, weights_;    // (PARTS, width): forward weights of a token; (width)

    // Return the weights of tag u of the token before, and of the tags of vector v.
    BCRF_INLINE Value before(int i, int u) { return L::template each<N>(chain_.alpha(i - 1), part_, u); }
    BCRF_INLINE Value after(int i, int v) { return N::load(chain_.inward(i) + v * W, part_); }
    // Return the weights of tag u at an edge: of all tags of vector v in rows, of tag v in lanes.
    BCRF_INLINE Value weight(int edge, int u, int v) { return edge_weight<L, N>(k_, edge, u, v); }
    // Return the largest exponent of the weights of a row, 0 for plain numbers.
    Vec<R> most(const R* row) {
        Vec<R> top = broadcast<R>(N::PARTS == 2 ? 2 * Exponents<R>::ZERO : R(0));
        for (int v = 0; v < chain_.vectors; ++v) top = max<R>(top, N::exponent(N::load(row + v * W, part_)));
        return L::max(top);
    }
    // Return whether products of these exponents are 0, as exponents of transitions are at most 0.
    static bool are_zero(Vec<R> exponents) { return maximum<R>(exponents) <= -Exponents<R>::BIAS; }

    // Add the edges into tokens [from, to).
    void add_sums(int from, int to, Vec<R> failed) {
        if (from >= to) return;
        // The weights of a sequence that has failed may be out of range.
        if (L::any(failed))
            for (int i = from; i < to; ++i)
                for (int v = 0; v < chain_.vectors; ++v)
                    for (R* x : {chain_.alpha(i - 1) + v * W, chain_.inward(i) + v * W})
                        N::store(x, part_, N::select(failed, N::zero(), N::load(x, part_)));
        k_.add_edges(chain_.alpha(from - 1), chain_.inward(from), to - from, chain_.width, part_,
                     many_ ? own_.data() : sum_);
    }

    // Write the marginals of the edge into token i. Zeros are not written again: nothing then takes memory.
    void write_each(int i) {
        const size_t tags = tags_;
        const Vec<R> most_in = most(chain_.inward(i));
        for (size_t u = 0; u < tags; ++u) {
            const Value a = before(i, int(u));
            if (are_zero(N::exponent(a) + most_in) || !(maximum<R>(N::mantissa(a)) > 0)) continue;
            const auto writer = chain_.layout.writer(i - 1, out_.each + u * tags, tags * tags);
            for (int v = 0; v < chain_.vectors; ++v)
                writer.put(v, N::plain(N::times(N::times(a, weight(i - 1, int(u), v)), after(i, v))));
            writer.end();
        }
    }

    // Write the marginals of the pairs of tags at the edge into token i.
    void write_pairs(int i) {
        for (int m = 0; m < out_.n; ++m) {
            const int u = out_.heads[m], t = out_.tails[m], v = L::IN_LANES ? t : t / W;
            const Vec<R> found = N::plain(N::times(N::times(before(i, u), weight(i - 1, u, v)), after(i, v)));
            for (int k = 0; k < tile_->size; ++k) {
                const Sequence<R>& s = tile_->sequence[k];
                if (i < s.length) out_.pairs[(s.first + i - 1) * out_.n + m] = found[L::IN_LANES ? k : t % W];
            }
        }
    }

    // Return the logarithm of a positive number, and 0 for 0.
    static BCRF_INLINE Vec<R> log_mantissa(Vec<R> m) { return logarithm(m > Vec<R>{} ? m : broadcast<R>(1)); }
    static BCRF_INLINE Vec<R> times_log(Vec<R> p) {
        return p * logarithm(max<R>(p, broadcast<R>(Precision<R>::MIN_NORMAL)));
    }
    void load_logs(int edge) {
        if (logs_edge_ >= 0 && shared_) return;
        logs_edge_ = edge;
        const R* k = k_.matrix(edge, false);
        for (size_t at = 0; at < size_t(tags_) * width_; at += W) store(logs_ + at, log_mantissa(load(k + at)));
    }
    BCRF_INLINE Vec<R> log_weight(int u, int v) {
        const R* row = logs_ + size_t(u) * width_;
        return L::IN_LANES ? broadcast<R>(row[v]) : load(row + v * W);
    }

    // Add the entropy of the tag before token i given the tag there, and that of the last tag. No large numbers cancel.
    // Only mantissas need logarithms, T a token, and the sums of exponents are exact.
    void add_entropy(int i) {
        const auto lengths = chain_.layout.lengths();
        const Vec<R> live = L::live(lengths, i).ones(), inner = broadcast<R>(1) - L::ended(lengths, i);
        Vec<R> sums{};
        const R* a = chain_.alpha(std::max(i - 1, 0));
        for (int v = 0; v < chain_.vectors; ++v) {
            const Value x = N::load(a + v * W, part_);
            store(before_logs_ + v * W, log_mantissa(N::mantissa(x)));
            // Forward weights of the only token are its marginals.
            if (i == 0) sums += times_log(N::plain(x)) * (inner - live);
        }
        if (i > 0) load_logs(i - 1);
        const R* weights = k_.matrix(std::max(i - 1, 0), false);
        const Vec<R> most_out = most(a);
        for (int v = 0; i > 0 && v < chain_.vectors; ++v) {
            const Value in = after(i, v);
            if (are_zero(most_out + N::exponent(in))) continue;
            const Vec<R> log_in = log_mantissa(N::mantissa(in));
            Vec<R> p{}, p_log{};
            for (int u = 0; u < tags_; ++u) {
                // In lanes, a forbidden transition is forbidden for all.
                if (L::IN_LANES && !(weights[size_t(u) * width_ + v] > 0)) continue;
                const Value q = N::times(N::times(before(i, u), weight(i - 1, u, v)), in);
                const Vec<R> x = N::plain(q), e = N::exponent(q) * R(LOG_2);
                const Vec<R> log = L::template each<Plain<R>>(before_logs_, 0, u) + (log_in + log_weight(u, v));
                p += x;
                p_log += x * (log + e);
            }
            // The last token has the entropy of its tags, too.
            sums += times_log(p) * inner - p_log;
        }
        entropy_.add(L::sum(sums * live));
    }

    // Set weights_ to the weights of the tags of row_, times those of a row of transitions, or 1 if it is null.
    void weigh(const R* k) {
        const auto product = [&](int t) BCRF_INLINE_LAMBDA {
            const auto x = N::load(row_ + t, width_);
            return k ? N::times(x, load_weights<L, N>(k_, k + t)) : x;
        };
        Vec<R> top = broadcast<R>(N::PARTS == 2 ? 2 * Exponents<R>::ZERO : R(0));
        for (int t = 0; t < width_; t += W) top = max<R>(top, N::exponent(product(t)));
        const R highest = maximum<R>(top);
        for (int t = 0; t < width_; t += W) {
            const auto x = product(t);
            store(weights_ + t, N::mantissa(x) * power_of_two<R>(N::exponent(x) - highest));
        }
    }

    // Draw labelings of sequence k by forward filtering and backward sampling, which needs forward weights alone.
    void draw(const Sequence<R>& s, int k) {
        for (int i = s.length - 1; i >= 0; --i) {
            check_signals();
            for (int part = 0; part < N::PARTS; ++part)
                for (int t = 0; t < tags_; ++t)
                    row_[part * width_ + t] = chain_.alpha(i)[part * part_ + L::index(t, k)];
            const bool last = i + 1 == s.length;
            const R* matrix = last ? nullptr : k_.matrix(i, true);
            for (int j = 0; j < out_.n; ++j) {
                const size_t here = j * tokens_ + s.first + i;
                weigh(last ? nullptr : matrix + size_t(out_.labels[here + 1]) * width_);
                out_.labels[here] =
                    pick_tag(tags_, out_.uniform[here], [&](int t) { return double(weights_[t]); });
            }
        }
    }

  public:
    // longest: the most tokens of a tile.
    BCRF_NOINLINE Posterior(const Batch<R>& batch, const Outputs<R>& out, int longest)
        : out_(out), shared_(batch.shared), tags_(batch.tags), width_(padded<R>(tags_)), tokens_(batch.tokens()),
          chain_(batch, longest), k_(chain_.transitions), part_(chain_.part),
          own_(out.sum && longest > LONG_LENGTH ? size_t(tags_) * tags_ : 0),
          logs_(out.entropies ? size_t(tags_) * width_ : 0), before_logs_(out.entropies ? part_ : 0),
          row_(out.labels ? N::PARTS * width_ : 0), weights_(out.labels ? width_ : 0) {
        for (int t = 0; t < width_ && out.labels; ++t) N::clear(row_ + t, width_);
    }

    void begin(bool many) {
        many_ = many;
        entropy_ = typename L::Sums();
        if (!many || !out_.sum) return;
        k_.flush(sum_);
        std::fill_n(own_.data(), size_t(tags_) * tags_, 0.0);
    }
    void visit(int from, int to, Vec<R> failed) {
        if (out_.sum) return add_sums(std::max(from, 1), to, failed);
        for (int i = from; i < to; ++i) {
            if (out_.each && i > 0) write_each(i);
            if (out_.pairs && i > 0) write_pairs(i);
            if (out_.entropies) add_entropy(i);
        }
    }
    // A sequence that fails in one window has added edges of another one.
    bool end(bool any) {
        if (!many_ || !out_.sum) return false;
        k_.flush(own_);
        for (size_t i = 0; !any && i < size_t(tags_) * tags_; ++i) sum_[i] += own_[i];
        return any;
    }

    // Compute a tile. sum: see Outputs; failed: see ForwardBackward::run.
    void run(const Tile<R>& tile, double* sum, char* failed) {
        tile_ = &tile, sum_ = sum;
        const bool only_value = !(out_.node || out_.each || out_.entropies || out_.pairs || out_.sum);
        chain_.run(tile, out_.value, out_.node, *this, only_value, failed);
        double entropies[W];
        entropy_.read(entropies);
        for (int k = 0; k < tile.size; ++k) {
            const Sequence<R>& s = tile.sequence[k];
            if (failed[s.index]) {
                out_.clear_edges(s);
                continue;
            }
            const R value = out_.value[s.index];
            const bool possible = value > -infinity<R>;
            if (out_.entropies) out_.entropies[s.index] = possible ? R(std::max(entropies[k], 0.0)) : value;
            if (out_.pairs)
                std::fill_n(out_.pairs + (s.first + (possible ? s.length - 1 : 0)) * out_.n,
                            size_t(possible ? 1 : s.length) * out_.n, R(0));
            if (out_.labels && possible) draw(s, k);
            subtract_gold(s, out_, sum);
        }
    }

    void flush(double* sum) { k_.flush(sum); }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
