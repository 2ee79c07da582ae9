// The operations of the CRF: log-partition with marginals, entropy, marginals of tag pairs, and samples.
//
// Each is an output of forward-backward, from a token's forward row and backward row. The marginal of an edge u -> v into token i is
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
                writer.put(v, N::plain(N::times(N::times(a, edge_weight(k_, i - 1, int(u), v)), after(i, v))));
            writer.end();
        }
    }

    // Write the marginals of the pairs of tags at the edge into token i.
    void write_pairs(int i) {
        for (int m = 0; m < out_.n; ++m) {
            const int u = out_.heads[m], t = out_.tails[m], v = L::IN_LANES ? t : t / W;
            const Vec<R> found = N::plain(N::times(N::times(before(i, u), edge_weight(k_, i - 1, u, v)), after(i, v)));
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
        const Vec<R> has_token = L::has_token(lengths, i), is_inner = broadcast<R>(1) - L::ended(lengths, i);
        Vec<R> sums{};
        const R* a = chain_.alpha(std::max(i - 1, 0));
        for (int v = 0; v < chain_.vectors; ++v) {
            const Value x = N::load(a + v * W, part_);
            store(before_logs_ + v * W, log_mantissa(N::mantissa(x)));
            // Forward weights of the only token are its marginals.
            if (i == 0) sums += times_log(N::plain(x)) * (is_inner - has_token);
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
                const Value q = N::times(N::times(before(i, u), edge_weight(k_, i - 1, u, v)), in);
                const Vec<R> x = N::plain(q), e = N::exponent(q) * R(LOG_2);
                const Vec<R> log = L::template each<Plain<R>>(before_logs_, 0, u) + (log_in + log_weight(u, v));
                p += x;
                p_log += x * (log + e);
            }
            // The last token has the entropy of its tags, too.
            sums += times_log(p) * is_inner - p_log;
        }
        entropy_.add(L::sum(sums * has_token));
    }

    // Set weights_ to the weights of the tags of row_, times those of a row of transitions, or 1 if it is null.
    void weigh(const R* k) {
        const auto product = [&](int t) BCRF_INLINE_LAMBDA {
            const auto x = N::load(row_ + t, width_);
            if (!k) return x;
            if constexpr (L::IN_LANES) return N::times(x, N::of(load(k + t)));
            else return N::times(x, N::load(k + t, k_.part));
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
                out_.labels[here] = pick_tag(weights_.data(), tags_, out_.uniform[here]);
            }
        }
    }

  public:
    // longest: the most tokens of a tile.
    BCRF_NOINLINE Posterior(const Batch<R>& batch, const Shape& shape, const Outputs<R>& out, int longest)
        : out_(out), shared_(batch.shared), tags_(batch.tags), width_(padded<R>(tags_)), tokens_(batch.tokens()),
          chain_(batch, shape, longest), k_(chain_.transitions), part_(chain_.part),
          own_(out.sum && longest > LONG_LENGTH ? size_t(tags_) * tags_ : 0),
          logs_(out.entropies ? size_t(tags_) * width_ : 0), before_logs_(out.entropies ? part_ : 0),
          row_(out.labels ? N::PARTS * width_ : 0), weights_(out.labels ? width_ : 0) {
        for (int t = 0; t < width_ && out.labels; t += W) N::store(row_ + t, width_, N::zero());
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
                // Kernels do not clear edges first: zeros that nothing has written take no memory.
                const size_t pairs = size_t(tags_) * tags_;
                if (out_.each) std::fill_n(out_.each + s.first * pairs, (s.length - 1) * pairs, R(0));
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

// Compute the sequences of a list.
template <class R> void sum_product(const Batch<R>& batch, std::vector<Sequence<R>> list, const Outputs<R>& outputs) {
    const bool is_posterior = outputs.entropies || outputs.pairs || outputs.labels;
    const Request request{is_posterior ? Operation::POSTERIOR : Operation::SUM_PRODUCT, outputs.each != nullptr};
    // The operation may not want the values, which tell whether a labeling is allowed.
    std::vector<R> own(outputs.value ? 0 : batch.size);
    Outputs<R> out = outputs;
    if (!out.value) out.value = own.data();
    const Shape shape = shape_of(batch, request, guess_range(batch, request));
    const auto run = [&](auto layout, auto number, const auto& tiles, char* failed) {
        using Layout = typename decltype(layout)::type;
        using Thread = Posterior<Layout, typename decltype(number)::type>;
        const int longest = int(largest_room<Layout>(tiles));
        for_each_tile(
            batch, tiles, 3 * pass(batch), out.sum, [&] { return Thread(batch, shape, out, longest); },
            [&](Thread& thread, const Tile<R>& tile, double* sum) { thread.run(tile, sum, failed); });
    };
    const auto in_double = [&](const std::vector<Sequence<R>>& left) {
        run_in_double(batch, left, out, [](const Batch<double>& doubles, const Outputs<double>& to) {
            sum_product(doubles, doubles.sequences(), to);
        });
        for (const Sequence<R>& s : left) subtract_gold(s, out, out.sum);
    };
    run_plan<Rows, Lanes>(batch, std::move(list), shape, run, in_double);
}

template <class R> void sum_product(const Batch<R>& batch, const Outputs<R>& outputs) {
    sum_product<R>(batch, batch.sequences(), outputs);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
