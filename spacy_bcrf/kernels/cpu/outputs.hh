// Outputs of forward-backward: visitors of a token's forward row and backward row. The marginal of an edge u -> v into
// token i is (alpha[i-1, u] K[u, v]) inward[i, v], multiplied in this order: beside the exponents of huge scores, another
// order would lose digits.
#pragma once

#include <memory>

#include "forward_backward.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A visitor of the edges of a chain, one after the other.
template <class Chain> class EdgeOutput : public EdgeVisitor<typename Chain::R> {
  protected:
    using L = typename Chain::Layout;
    using N = typename Chain::Number;
    using R = typename Chain::R;
    using Value = typename Chain::Value;
    using Tile = typename Chain::Tile;
    static constexpr int W = lanes<R>;
    Chain& chain_;
    Transitions<L, N>& k_;
    const int tags_;
    const size_t part_;
    const Tile* tile_ = nullptr;

    // Return the weights of tag u of the token before, of all vectors, and of vector v.
    BCRF_INLINE Value before(int i, int u) { return L::template each<N>(chain_.alpha(i - 1), part_, u); }
    BCRF_INLINE Value after(int i, int v) { return N::load(chain_.inward(i) + v * W, part_); }
    // Return the largest exponent of the weights of a row, 0 for plain numbers.
    Vec<R> most(const R* row) {
        Vec<R> top{};
        if (N::PARTS == 2) top = broadcast<R>(2 * Exponents<R>::ZERO);
        for (int v = 0; v < chain_.vectors(); ++v) top = max<R>(top, N::exponent(N::load(row + v * W, part_)));
        return L::max(top);
    }
    // Return whether products of these exponents are 0, as exponents of transitions are at most 0.
    static bool are_zero(Vec<R> exponents) { return maximum<R>(exponents) <= -Exponents<R>::BIAS; }

  public:
    explicit EdgeOutput(Chain& chain)
        : chain_(chain), k_(chain.transitions()), tags_(chain.layout().tags), part_(chain.part()) {}
    // Prepare for a tile. sum: see Outputs.
    virtual void set(const Tile& tile, double* sum) { (void)sum, tile_ = &tile; }
    // Complete the output of sequence k of the tile, which has an allowed labeling and has not failed.
    virtual void finish(int k) { (void)k; }
    // Whether the output needs the backward weights.
    virtual bool needs_edges() const { return true; }
};

// The sum over all edges of shared transitions.
template <class Chain> class EdgeSum : public EdgeOutput<Chain> {
    using Base = EdgeOutput<Chain>;
    using typename Base::N, typename Base::R;
    double* sum_ = nullptr;
    Buffer<double> own_;  // of a tile of several windows: a sequence that fails in one has added edges of another
    bool many_ = false;

    size_t size() const { return size_t(this->tags_) * this->tags_; }

  public:
    EdgeSum(Chain& chain, bool many) : Base(chain), own_(many ? size_t(chain.layout().tags) * chain.layout().tags : 0) {}
    void set(const typename Base::Tile& tile, double* sum) override { Base::set(tile, sum_ = sum); }
    void begin(bool many) override {
        many_ = many;
        if (!many) return;
        this->k_.flush(sum_);
        std::fill_n(own_.data(), size(), 0.0);
    }
    void visit(int from, int to, Vec<R> failed) override {
        constexpr int W = lanes<R>;
        Chain& chain = this->chain_;
        from = std::max(from, 1);
        if (from >= to) return;
        // The weights of a sequence that has failed may be out of range.
        if (Base::L::any(failed))
            for (int i = from; i < to; ++i)
                for (int v = 0; v < chain.vectors(); ++v)
                    for (R* x : {chain.alpha(i - 1) + v * W, chain.inward(i) + v * W})
                        N::store(x, this->part_, N::select(failed, N::zero(), N::load(x, this->part_)));
        this->k_.add_edges(chain.alpha(from - 1), chain.inward(from), to - from, chain.width(), this->part_,
                           many_ ? own_.data() : sum_);
    }
    bool end(bool any) override {
        if (!many_) return false;
        this->k_.flush(own_);
        for (size_t i = 0; !any && i < size(); ++i) sum_[i] += own_[i];
        return any;
    }
};

// The marginals of each edge, (N, tags, tags), zeros before. Zeros are not written again: nothing then takes memory.
template <class Chain> class EachEdge : public EdgeOutput<Chain> {
    using Base = EdgeOutput<Chain>;
    using typename Base::N, typename Base::R, typename Base::Value;
    R* each_;

  public:
    EachEdge(Chain& chain, R* each) : Base(chain), each_(each) {}
    void visit(int from, int to, Vec<R>) override {
        const size_t tags = this->tags_;
        for (int i = std::max(from, 1); i < to; ++i) {
            const Vec<R> most = this->most(this->chain_.inward(i));
            for (int u = 0; u < this->tags_; ++u) {
                const Value a = this->before(i, u);
                if (this->are_zero(N::exponent(a) + most) || !(maximum<R>(N::mantissa(a)) > 0)) continue;
                const auto writer = this->chain_.layout().writer(*this->tile_, i - 1, each_, tags * tags, u * tags);
                for (int v = 0; v < this->chain_.vectors(); ++v)
                    writer.put(v, N::plain(N::times(N::times(a, weight(this->k_, i - 1, u, v)), this->after(i, v))));
                writer.end();
            }
        }
    }
};

// The marginals of n pairs of tags: pairs (N, n) of tag heads[m] at a token and tails[m] at the next one.
template <class Chain> class PairMarginals : public EdgeOutput<Chain> {
    using Base = EdgeOutput<Chain>;
    using typename Base::L, typename Base::N, typename Base::R;
    const int n_, *heads_, *tails_;
    R* pairs_;

  public:
    PairMarginals(Chain& chain, const Outputs<R>& out)
        : Base(chain), n_(out.n), heads_(out.heads), tails_(out.tails), pairs_(out.pairs) {}
    void begin(bool) override {
        for (int k = 0; k < this->tile_->size; ++k) {
            const Sequence<R>& s = this->tile_->sequence[k];
            std::fill_n(pairs_ + s.first * n_, size_t(s.length) * n_, R(0));
        }
    }
    void visit(int from, int to, Vec<R>) override {
        for (int i = std::max(from, 1); i < to; ++i) {
            const R *a = this->chain_.alpha(i - 1), *b = this->chain_.inward(i), *k = this->k_.matrix(i - 1, false);
            for (int s = 0; s < this->tile_->size; ++s) {
                const Sequence<R>& sequence = this->tile_->sequence[s];
                for (int m = 0; m < n_ && i < sequence.length; ++m) {
                    const auto out = N::times(N::single(a + L::index(heads_[m], s), this->part_),
                                              single_weight(this->k_, k + heads_[m] * this->k_.width() + tails_[m]));
                    const auto in = N::single(b + L::index(tails_[m], s), this->part_);
                    pairs_[(sequence.first + i - 1) * n_ + m] = N::plain(N::times(out, in))[0];
                }
            }
        }
    }
};

// The entropies (size) of the sequences: that of the last tag, and of each other tag given the next one. No large numbers
// cancel. Only mantissas need logarithms, T a token, and the sums of exponents are exact.
template <class Chain> class Entropy : public EdgeOutput<Chain> {
    using Base = EdgeOutput<Chain>;
    using typename Base::L, typename Base::N, typename Base::R, typename Base::Value;
    using Base::W, Base::k_, Base::tags_;
    const int width_;
    const bool shared_;
    int edge_ = -1;
    Buffer<R> logs_;         // (tags, width): of the mantissas of transitions
    Buffer<R> before_logs_;  // of the mantissas of a row
    typename L::Sums total_;
    R* entropies_;

    // Return the logarithm of a positive number, and 0 for 0.
    static BCRF_INLINE Vec<R> log_mantissa(Vec<R> m) { return logarithm(m > Vec<R>{} ? m : broadcast<R>(1)); }
    static BCRF_INLINE Vec<R> times_log(Vec<R> p) {
        return p * logarithm(max<R>(p, broadcast<R>(Precision<R>::MIN_NORMAL)));
    }
    void load(int edge) {
        if (edge_ >= 0 && shared_) return;
        edge_ = edge;
        const R* k = k_.matrix(edge, false);
        for (size_t at = 0; at < size_t(tags_) * width_; at += W)
            store(logs_ + at, log_mantissa(BCRF_TARGET::load(k + at)));
    }
    BCRF_INLINE Vec<R> log_weight(int u, int v) {
        const R* row = logs_ + size_t(u) * width_;
        return L::IN_LANES ? broadcast<R>(row[v]) : BCRF_TARGET::load(row + v * W);
    }

  public:
    Entropy(Chain& chain, bool shared, R* entropies)
        : Base(chain), width_(padded<R>(chain.layout().tags)), shared_(shared), logs_(size_t(tags_) * width_),
          before_logs_(chain.part()), entropies_(entropies) {}
    void begin(bool) override { total_ = typename L::Sums(); }
    void visit(int from, int to, Vec<R>) override {
        const auto lengths = L::lengths(*this->tile_);
        const Vec<R> one = broadcast<R>(1);
        for (int i = from; i < to; ++i) {
            const Vec<R> live = L::live(lengths, i).ones(), inner = one - L::ended(lengths, i);
            Vec<R> sums{};
            const R* a = this->chain_.alpha(std::max(i - 1, 0));
            for (int v = 0; v < this->chain_.vectors(); ++v) {
                const Value x = N::load(a + v * W, this->part_);
                store(before_logs_ + v * W, log_mantissa(N::mantissa(x)));
                // Forward weights of the only token are its marginals.
                if (i == 0) sums += times_log(N::plain(x)) * (inner - live);
            }
            if (i > 0) {
                load(i - 1);
                const R* weights = k_.matrix(i - 1, false);
                const Vec<R> most = this->most(a);
                for (int v = 0; v < this->chain_.vectors(); ++v) {
                    const Value in = this->after(i, v);
                    if (this->are_zero(most + N::exponent(in))) continue;
                    const Vec<R> log_in = log_mantissa(N::mantissa(in));
                    Vec<R> p{}, p_log{};
                    for (int u = 0; u < tags_; ++u) {
                        // In lanes, a forbidden transition is forbidden for all.
                        if (L::IN_LANES && !(weights[size_t(u) * width_ + v] > 0)) continue;
                        const Value q = N::times(N::times(this->before(i, u), weight(k_, i - 1, u, v)), in);
                        const Vec<R> x = N::plain(q), e = N::exponent(q) * R(LOG_2);
                        const Vec<R> log = L::template each<Plain<R>>(before_logs_, 0, u) + (log_in + log_weight(u, v));
                        p += x;
                        p_log += x * (log + e);
                    }
                    // The last token has the entropy of its tags, too.
                    sums += times_log(p) * inner - p_log;
                }
            }
            total_.add(L::sum(sums * live));
        }
    }
    bool end(bool) override {
        double found[W];
        total_.read(found);
        for (int k = 0; k < this->tile_->size; ++k)
            entropies_[this->tile_->sequence[k].index] = R(std::max(found[k], 0.0));
        return false;
    }
};

// Draws labelings by forward filtering and backward sampling. It needs forward weights alone, and visits no edges.
template <class Chain> class Sampler : public EdgeOutput<Chain> {
    using Base = EdgeOutput<Chain>;
    using typename Base::L, typename Base::N, typename Base::R;
    const int n_;
    const size_t tokens_;
    const double* uniform_;
    int* labels_;
    const int width_;
    Buffer<R> row_, weights_;  // (PARTS, width): forward weights of a token; (width)

    // Set weights_ to the weights of the tags of row_, times those of a row of transitions, or 1 if it is null.
    void weigh(const R* k) {
        constexpr int W = lanes<R>;
        const auto product = [&](int t) BCRF_INLINE_LAMBDA {
            const auto x = N::load(row_ + t, width_);
            return k ? N::times(x, load_weights(this->k_, k + t)) : x;
        };
        Vec<R> top = broadcast<R>(N::PARTS == 2 ? 2 * Exponents<R>::ZERO : R(0));
        for (int t = 0; t < width_; t += W) top = max<R>(top, N::exponent(product(t)));
        const R most = maximum<R>(top);
        for (int t = 0; t < width_; t += W) {
            const auto x = product(t);
            store(weights_ + t, N::PARTS == 2 ? N::mantissa(x) * power_of_two<R>(N::exponent(x) - most) : N::plain(x));
        }
    }

  public:
    Sampler(Chain& chain, size_t tokens, const Outputs<R>& out)
        : Base(chain), n_(out.n), tokens_(tokens), uniform_(out.uniform), labels_(out.labels),
          width_(padded<R>(chain.layout().tags)), row_(size_t(N::PARTS) * width_), weights_(width_) {
        for (int t = 0; t < width_; ++t) N::clear(row_ + t, width_);
    }
    void visit(int, int, Vec<R>) override {}
    bool needs_edges() const override { return false; }
    void finish(int k) override {
        const Sequence<R>& s = this->tile_->sequence[k];
        for (int i = s.length - 1; i >= 0; --i) {
            check_signals();
            const bool last = i + 1 == s.length;
            for (int part = 0; part < N::PARTS; ++part)
                for (int t = 0; t < this->tags_; ++t)
                    row_[part * width_ + t] = this->chain_.alpha(i)[part * this->part_ + L::index(t, k)];
            const R* matrix = last ? nullptr : this->k_.matrix(i, true);
            for (int j = 0; j < n_; ++j) {
                const size_t here = j * tokens_ + s.first + i;
                weigh(last ? nullptr : matrix + size_t(labels_[here + 1]) * width_);
                labels_[here] = pick_tag(this->tags_, uniform_[here], [&](int t) { return double(weights_[t]); });
            }
        }
    }
};

// Return the visitor of the wanted output, of which an operation has one, or null if there is none.
template <class Chain>
std::unique_ptr<EdgeOutput<Chain>> make_output(Chain& chain, const Batch<typename Chain::R>& batch,
                                               const Outputs<typename Chain::R>& out) {
    if (out.each) return std::make_unique<EachEdge<Chain>>(chain, out.each);
    if (out.entropies) return std::make_unique<Entropy<Chain>>(chain, batch.shared, out.entropies);
    if (out.pairs) return std::make_unique<PairMarginals<Chain>>(chain, out);
    if (out.labels) return std::make_unique<Sampler<Chain>>(chain, batch.tokens(), out);
    if (out.sum) return std::make_unique<EdgeSum<Chain>>(chain, batch.longest() > LONG_LENGTH);
    return nullptr;
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
