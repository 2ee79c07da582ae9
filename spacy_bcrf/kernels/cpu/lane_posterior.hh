// Edge marginals, entropy, marginals of tag pairs, and samples of the CRF with sequences in the lanes of vectors of
// Scaled numbers. Scores of a moderate range take rows, see posterior.hh.
#pragma once

#include "lane_crf.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

template <class In> class LanePosterior : public LaneForwardBackward<Wide<In>, In> {
    using N = Wide<In>;
    using Base = LaneForwardBackward<N, In>;
    using Base::alpha_, Base::at, Base::batch_, Base::in_window, Base::inward_, Base::matrices_, Base::part_,
        Base::tags_;
    static constexpr int W = lanes<In>;
    static constexpr In TINY = Precision<In>::MIN_NORMAL;
    const int width_;
    Buffer<In> rows_{0}, columns_{0};  // (2, tags, width): see Rows
    Buffer<In> from_, to_;             // (2, W, width): mantissas and exponents of a token's weights
    Buffer<In> row_;                   // (width)
    Buffer<In> pairs_{0};              // (pairs, W)
    Buffer<In> logs_{0};               // (tags, width): of the mantissas of columns_
    Buffer<In> alpha_logs_{0};         // (tags, W): of the mantissas of forward weights
    Buffer<In> ignored_;               // (size): values

    // exp(transitions - shift) or its transpose, (tags, width): mantissas and exponents.
    struct Rows {
        const In *m, *e;
    };

    Rows weights(bool transposed) {
        Buffer<In>& rows = transposed ? columns_ : rows_;
        const size_t size = size_t(tags_) * width_;
        if (rows.data()) return {rows.data(), rows.data() + size};
        rows = Buffer<In>(2 * size);
        const In* w = batch_.transitions;
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v, ++w) {
                const size_t at = transposed ? size_t(v) * width_ + u : size_t(u) * width_ + v;
                const auto entry = matrices_.entry(u, *w, 1);
                const bool allowed = *w > -infinity<In>;
                rows[at] = allowed ? entry.m : 0;
                rows[size + at] = allowed ? entry.e : Exponents<In>::ZERO;
            }
        return {rows.data(), rows.data() + size};
    }

    // Return the marginals of an edge.
    static BCRF_INLINE Vec<In> marginal(Scaled<In> alpha, Rows k, size_t edge, Scaled<In> inward) {
        return alpha.m * inward.m * k.m[edge] * power_of_two<In>(alpha.e + inward.e + k.e[edge]);
    }

    // Return whether the marginals of an edge are 0, as exponents of transitions are at most 0. exponent: of the other
    // weights.
    static bool is_zero(In exponent) { return exponent <= -Exponents<In>::BIAS; }

    // Copy weights of a token to rows, one for each sequence.
    void copy_rows(Buffer<In>& rows, const In* weights) {
        for (int part = 0; part < 2; ++part) {
            In* to[W];
            for (int k = 0; k < W; ++k) to[k] = rows + (part * W + k) * size_t(width_);
            unpack(to, weights + part * part_, W, tags_);
        }
    }
    const In* mantissas(Buffer<In>& rows, int k) { return rows + k * size_t(width_); }
    const In* exponents(Buffer<In>& rows, int k) { return rows + (W + k) * size_t(width_); }

    // Write the marginals of the edges into tokens [from, to). each: zeros.
    void write_edges(const Group<In>& g, int from, int to, In* each) {
        const Rows k = weights(false);
        for (int i = std::max(from, 1); i < to; ++i) {
            copy_rows(from_, at(alpha_, i - 1));
            copy_rows(to_, in_window(inward_, i));
            for (int s = 0; s < g.size; ++s) {
                if (i >= g.length[s]) continue;
                In* out = each + (g.first[s] + size_t(i - 1) * tags_) * tags_;
                const In *a = mantissas(from_, s), *exponent = exponents(from_, s);
                const In *b = mantissas(to_, s), *next = exponents(to_, s);
                const In most = *std::max_element(next, next + tags_);
                for (int u = 0; u < tags_; ++u, out += tags_) {
                    if (is_zero(exponent[u] + most)) continue;
                    for (int v = 0; v < tags_; v += W) {
                        const size_t at = size_t(u) * width_ + v;
                        const Vec<In> e = load(k.e + at) + load(next + v) + exponent[u];
                        const Vec<In> m = load(k.m + at) * load(b + v) * a[u];
                        store_first<In>(out + v, m * power_of_two<In>(e), std::min(W, tags_ - v));
                    }
                }
            }
        }
    }

    // Return the logarithm of a positive mantissa, and 0 for 0.
    static BCRF_INLINE Vec<In> log_mantissa(Vec<In> m) {
        return logarithm(m > Vec<In>{} ? m : broadcast<In>(1));
    }

    // Add the conditional entropy of tag i - 1 given tag i to `total`, for tokens i in [from, to), and the entropy of
    // the last tag. Only mantissas need logarithms, and the sums of exponents are exact.
    void add_entropies(Vec<In> lengths, int from, int to, LaneSums<In>& total) {
        const Rows k = weights(true);
        if (!logs_.data()) {
            logs_ = Buffer<In>(size_t(tags_) * width_), alpha_logs_ = Buffer<In>(size_t(tags_) * W);
            for (int e = 0; e < tags_ * width_; ++e) logs_[e] = k.m[e] > 0 ? std::log(k.m[e]) : 0;
        }
        const Vec<In> none{}, one = broadcast<In>(1);
        const auto times_log = [&](Vec<In> p) { return p * logarithm(max<In>(p, broadcast<In>(TINY))); };
        for (int i = from; i < to; ++i) {
            const Vec<In> live = broadcast(In(i)) < lengths ? one : none;
            const Vec<In> inner = broadcast(In(i + 1)) < lengths ? one : none;
            Vec<In> sums{}, most = broadcast<In>(2 * Exponents<In>::ZERO);
            for (int u = 0; u < tags_; ++u) {
                const auto alpha = N::load(at(alpha_, std::max(i - 1, 0)) + u * W, part_);
                most = max<In>(most, alpha.e);
                store(alpha_logs_ + u * W, log_mantissa(alpha.m));
                // Forward weights of the only token are its marginals.
                if (i == 0) sums += times_log(N::plain(alpha)) * (inner - live);
            }
            for (int v = 0; i > 0 && v < tags_; ++v) {
                const auto inward = N::load(in_window(inward_, i) + v * W, part_);
                if (is_zero(maximum<In>(most + inward.e))) continue;
                const Vec<In> inward_log = log_mantissa(inward.m);
                Vec<In> p{}, p_log{};
                for (int u = 0; u < tags_; ++u) {
                    const size_t edge = size_t(v) * width_ + u;
                    if (!(k.m[edge] > 0)) continue;
                    const auto alpha = N::load(at(alpha_, i - 1) + u * W, part_);
                    const Vec<In> e = alpha.e + (inward.e + k.e[edge]);
                    const Vec<In> q = alpha.m * (inward.m * k.m[edge]) * power_of_two<In>(e);
                    p += q;
                    p_log += q * (load(alpha_logs_ + u * W) + (inward_log + logs_[edge]) + e * In(LOG_2));
                }
                // The last token has the entropy of its tags, too.
                sums += times_log(p) * inner - p_log;
            }
            total.add(sums * live);
        }
    }

    // Write the marginals of n pairs of tags of the edges into tokens [from, to).
    void write_pairs(const Group<In>& g, int from, int to, int n, const int* heads, const int* tails, In* pairs) {
        const Rows k = weights(false);
        for (int i = std::max(from, 1); i < to; ++i) {
            for (int m = 0; m < n; ++m) {
                const auto alpha = N::load(at(alpha_, i - 1) + heads[m] * W, part_);
                const auto inward = N::load(in_window(inward_, i) + tails[m] * W, part_);
                store(pairs_ + m * W, marginal(alpha, k, size_t(heads[m]) * width_ + tails[m], inward));
            }
            In* rows[W];
            for (int s = 0; s < W; ++s) rows[s] = i < g.length[s] ? pairs + (g.place[s].first + i - 1) * n : nullptr;
            unpack(rows, pairs_.data(), W, n);
        }
    }

    // Set the row to the weights of the tags of token i given tag `next` of token i + 1. next: -1 at the end.
    void weigh(int s, int next) {
        const Rows k = weights(true);
        const In *m = mantissas(from_, s), *e = exponents(from_, s);
        const size_t column = std::max(next, 0) * size_t(width_);
        Vec<In> top = broadcast<In>(2 * Exponents<In>::ZERO), none{}, one = broadcast<In>(1);
        for (int t = 0; t < width_; t += W)
            top = max<In>(top, load(e + t) + (next < 0 ? none : load(k.e + column + t)));
        const In most = maximum<In>(top);
        for (int t = 0; t < width_; t += W) {
            const Vec<In> exponent = load(e + t) + (next < 0 ? none : load(k.e + column + t));
            const Vec<In> weight = load(m + t) * (next < 0 ? one : load(k.m + column + t));
            store(row_ + t, weight * power_of_two<In>(exponent - most));
        }
    }

  public:
    LanePosterior(const Batch<In>& batch, const In* end, int longest)
        : Base(batch, end, longest), width_(padded<In>(batch.tags)), from_(2 * size_t(W) * width_),
          to_(2 * size_t(W) * width_), row_(width_), ignored_(batch.size) {
        // The padding is 0.
        for (Buffer<In>* rows : {&from_, &to_})
            std::fill_n(*rows + size_t(W) * width_, size_t(W) * width_, Exponents<In>::ZERO);
    }

    // See Base::run. each: (N, tags, tags), zeros.
    void edges(const Group<In>& g, In* value, In* node, double* sum, In* each, char* failed) {
        Base::run(g, value, node, sum, false, failed, [&](int from, int to) { write_edges(g, from, to, each); });
    }

    // Set the entropies (size) of the sequences.
    void entropy(const Group<In>& g, In* entropies, char* failed) {
        LaneSums<In> total;
        const Vec<In> lengths = g.lengths();
        Base::run(g, ignored_, nullptr, nullptr, false, failed,
                  [&](int from, int to) { add_entropies(lengths, from, to, total); });
        double found[W];
        total.read(found);
        for (int s = 0; s < g.size; ++s) entropies[g.place[s].index] = In(std::max(found[s], 0.0));
    }

    // Set pairs (N, n) to the marginals of tag heads[m] at a token and tails[m] at the next one.
    void pairs(const Group<In>& g, int n, const int* heads, const int* tails, In* node, In* pairs, char* failed) {
        if (!pairs_.data()) pairs_ = Buffer<In>(size_t(n) * W);
        for (int s = 0; s < g.size; ++s) std::fill_n(pairs + g.place[s].first * n, size_t(g.length[s]) * n, In(0));
        Base::run(g, ignored_, node, nullptr, false, failed,
                  [&](int from, int to) { write_pairs(g, from, to, n, heads, tails, pairs); });
    }

    // Draw n labelings from uniform numbers (n, stride), by forward filtering and backward sampling.
    void sample(const Group<In>& g, int n, size_t stride, const double* uniform, int* labels, char* failed) {
        Base::run(g, ignored_, nullptr, nullptr, true, failed);
        for (int i = g.longest - 1; i >= 0; --i) {
            copy_rows(from_, at(alpha_, i));
            for (int s = 0; s < g.size; ++s) {
                if (i >= g.length[s] || failed[g.place[s].index]) continue;
                for (int j = 0; j < n; ++j) {
                    const size_t here = j * stride + g.place[s].first + i;
                    weigh(s, i + 1 < g.length[s] ? labels[here + 1] : -1);
                    labels[here] = pick_tag(tags_, uniform[here], [&](int t) { return double(row_[t]); });
                }
            }
        }
    }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
