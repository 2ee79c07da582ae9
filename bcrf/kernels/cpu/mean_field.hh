// Mean field for the linear chain, and its loss with the gradient.
#pragma once

#include "token_layouts.hh"

namespace bcrf {
namespace BCRF_TARGET {

// All tokens are updated at once, n_iter times, from the softmax of their scores on. Numbers of neighbours that do not
// exist are 0.
template <class L, class R> class MeanField {
    static constexpr int W = lanes<R>;
    L layout_;
    Messages<L, Plain<R>> messages_;
    const int n_iter_, vectors_;
    const size_t size_;                // of an array, whose neighbours are not a power of 2 away
    const bool keep_;                  // keep all iterates for the backward pass
    Buffer<R> unary_, r_;              // an array, and one for each kept iterate
    Buffer<R> delta_, before_, node_;  // gradients of the logits of two iterates, and of the unary scores
    Buffer<R> values_;                 // a number for each token
    std::vector<char> infeasible_;            // the sequences of a tile in which a token has no allowed tag

    R* iterate(int k) { return r_ + size_t(keep_ ? k : k % 2) * size_; }
    size_t step() const { return layout_.step(); }

    // Return x, or 0 without a token. A product with 0 would keep NaN, which such a position must not pass on.
    BCRF_INLINE Vec<R> keep(const Position& at, Vec<R> x) {
        return Plain<R>::select(layout_.is_token(at), x, Vec<R>{});
    }

    template <class Use> BCRF_INLINE void for_positions(Use use) {
        for (int k = 0; k < layout_.count(); ++k) use(layout_.position(k));
    }
    // Call use(position, m), where m (vectors, lanes) are the products of the numbers of the tokens before and after
    // with the transitions between.
    template <class Use> BCRF_INLINE void for_messages(const Tile<R>& tile, const R* x, Use use) {
        messages_.for_positions(
            tile, x, x, layout_.count(), [&](int k) { return layout_.position(k); },
            [&](const Position& at, R* in, const R* out) BCRF_INLINE_LAMBDA {
                for (int v = 0; v < vectors_; ++v) store(in + v * W, load(in + v * W) + load(out + v * W));
                use(at, in);
            });
    }

    void load_scores(const Tile<R>& tile) {
        infeasible_.assign(tile.size, 0);
        for_positions([&](const Position& at) {
            layout_.load(unary_ + at.here, at);
            Vec<R> top = broadcast<R>(-infinity<R>);
            for (int v = 0; v < vectors_; ++v) top = max<R>(top, load(unary_ + at.here + v * step()));
            top = L::max(top);
            const Vec<R> allowed = top > -infinity<R> ? broadcast<R>(1) : Vec<R>{};
            if (minimum<R>(allowed) > 0) return;
            // Any scores will do, as long as they are finite.
            layout_.for_tokens(at, [&](int k, int q, int) { infeasible_[q] |= !(allowed[k] > 0); });
            for (int v = 0; v < vectors_; ++v) {
                R* x = unary_ + at.here + v * step();
                store(x, Plain<R>::select(allowed, load(x), Vec<R>{}));
            }
        });
    }

    // Set out = softmax(logits), or 0 without a token. Return the largest logit and the sum of exponentials.
    BCRF_INLINE void softmax(const Position& at, R* out, const R* logits, size_t step, Vec<R>& top, Vec<R>& total) {
        Vec<R> most = broadcast<R>(-infinity<R>), sum{};
        for (int v = 0; v < vectors_; ++v) most = max<R>(most, load(logits + v * step));
        most = L::max(most);
        for (int v = 0; v < vectors_; ++v) {
            const Vec<R> x = exponential(load(logits + v * step) - most);
            sum += x;
            store(out + v * this->step(), x);
        }
        sum = L::sum(sum);
        const Vec<R> by = R(1) / sum;
        for (int v = 0; v < vectors_; ++v) store(out + v * this->step(), keep(at, load(out + v * this->step()) * by));
        top = most, total = sum;
    }

    // Compute all iterates, and for each token the loss of gold, or the entropy if gold is null.
    void forward(const Tile<R>& tile, const int* gold) {
        Vec<R> top, total;
        for_positions([&](const Position& at) {
            softmax(at, iterate(0) + at.here, unary_ + at.here, step(), top, total);
        });
        for (int k = 1; k <= n_iter_; ++k)
            for_messages(tile, iterate(k - 1), [&](const Position& at, R* logits) BCRF_INLINE_LAMBDA {
                for (int v = 0; v < vectors_; ++v)
                    store(logits + v * W, load(logits + v * W) + load(unary_ + at.here + v * step()));
                softmax(at, iterate(k) + at.here, logits, W, top, total);
                if (k == n_iter_) set_values(tile, at, gold, logits, iterate(k) + at.here, top, total);
            });
    }

    void set_values(const Tile<R>& tile, const Position& at, const int* gold, const R* logits, const R* out, Vec<R> top,
                    Vec<R> total) {
        const Vec<R> log = logarithm(total), none{};
        if (gold) {
            R tops[W], logs[W];
            store(tops, top);
            store(logs, log);
            return layout_.for_tokens(at, [&](int k, int q, int i) {
                const int tag = gold[tile.sequence[q].first + i];
                values_[at.number + k] = tag < 0 ? R(0) : (tops[k] - logits[L::index(tag, k)]) + logs[k];
            });
        }
        // Subtracting the largest logit first loses no digits.
        Vec<R> mean{};
        for (int v = 0; v < vectors_; ++v) {
            const Vec<R> x = load(out + v * step());
            mean += x > none ? x * (load(logits + v * W) - top) : none;
        }
        store(values_ + at.number, log - L::sum(mean));
    }

    // Add each token's share of <w, r>, where forbidden scores count as 0: each edge has two tokens.
    void add_scores(const Tile<R>& tile) {
        const R* last = iterate(n_iter_);
        for_messages(tile, last, [&](const Position& at, const R* m) BCRF_INLINE_LAMBDA {
            Vec<R> edges{}, own{};
            for (int v = 0; v < vectors_; ++v) {
                const size_t here = at.here + v * step();
                const Vec<R> x = load(last + here), none{};
                edges += x * load(m + v * W);
                own += x > none ? x * load(unary_ + here) : none;
            }
            store(values_ + at.number, load(values_ + at.number) + L::sum(edges * R(0.5) + own));
        });
    }

    // Add the products of the numbers of a at each token with those of b at the next one, to sum (tags, tags) or to
    // each (edges, tags, tags).
    void add_edges(const Tile<R>& tile, const R* a, const R* b, double* sum, R* each) {
        if (sum) return layout_.add_edges(messages_.k, a, b, 0, sum);
        if (!each) return;
        const Sequence<R>& s = tile.sequence[0];
        const size_t tags = s.tags;
        each += s.first * tags * tags;
        for (int i = 0; i + 1 < s.length; ++i) {
            const Position at = layout_.position(i);
            for (size_t u = 0; u < tags; ++u, each += tags)
                BCRF_VECTORIZE for (size_t v = 0; v < tags; ++v) each[v] += a[at.here + u] * b[at.after + v];
        }
    }

    // Back-propagate the loss. The gradient of the unary scores is the sum of the gradients of all iterates' logits.
    // An infeasible sequence has no loss: a token of it has no allowed tag.
    void backward(const Tile<R>& tile, const int* gold, double* sum, R* each) {
        R *delta = delta_, *before = before_, *node = node_;
        const R* last = iterate(n_iter_);
        for_positions([&](const Position& at) {
            for (int v = 0; v < vectors_; ++v) store(delta + at.here + v * step(), load(last + at.here + v * step()));
            layout_.for_tokens(at, [&](int k, int q, int i) {
                R* d = delta + at.here;
                const int tag = gold[tile.sequence[q].first + i];
                if (tag >= 0 && !infeasible_[q]) d[layout_.place(tag, k)] -= 1;
                else
                    for (int t = 0; t < layout_.tags; ++t) d[layout_.place(t, k)] = 0;
            });
            for (int v = 0; v < vectors_; ++v) store(node + at.here + v * step(), load(delta + at.here + v * step()));
        });
        for (int k = n_iter_ - 1; k >= 0; --k) {
            const R* r = iterate(k);
            add_edges(tile, r, delta, sum, each);
            add_edges(tile, delta, r, sum, each);
            for_messages(tile, delta, [&](const Position& at, const R* m) BCRF_INLINE_LAMBDA {
                Vec<R> mean{};
                for (int v = 0; v < vectors_; ++v) mean += load(m + v * W) * load(r + at.here + v * step());
                mean = L::sum(mean);
                for (int v = 0; v < vectors_; ++v) {
                    const size_t here = at.here + v * step();
                    const Vec<R> d = keep(at, load(r + here) * (load(m + v * W) - mean));
                    store(before + here, d);
                    store(node + here, load(node + here) + d);
                }
            });
            std::swap(delta, before);
        }
    }

  public:
    // room: of the largest tile. keep: compute gradients.
    MeanField(const Batch<R>& batch, const Shape& shape, size_t room, int n_iter, bool keep)
        : layout_(batch, room), messages_(batch, shape, layout_, room, 0, Vec<R>{}), n_iter_(n_iter),
          vectors_(layout_.vectors), size_(layout_.size() + 5 * W), keep_(keep), unary_(size_),
          r_((keep ? size_t(n_iter) + 1 : 2) * size_), delta_(keep ? size_ : 0), before_(keep ? size_ : 0),
          node_(keep ? size_ : 0), values_(layout_.numbers()) {}

    // With gold, compute losses and write the gradient; without, compute values and write the tag marginals. The value
    // of an infeasible sequence is -inf, and its other results are 0. sum: see Outputs.
    void run(const Tile<R>& tile, const Outputs<R>& out, double* sum) {
        layout_.set(tile);
        messages_.k.prepare(tile.sequence[0]);
        for (int k = 0; k < (keep_ ? n_iter_ + 1 : 2); ++k) layout_.clear_margins(iterate(k));
        if (keep_) layout_.clear_margins(delta_), layout_.clear_margins(before_);
        load_scores(tile);
        forward(tile, out.gold);
        if (out.gold) backward(tile, out.gold, sum, out.each);
        else add_scores(tile);
        const R* from = out.gold ? node_.data() : iterate(n_iter_);
        for_positions([&](const Position& at) { layout_.write(at, from + at.here, step(), out.node); });
        for (int q = 0; q < tile.size; ++q) {
            const Sequence<R>& s = tile.sequence[q];
            double total = 0;
            for (int i = 0; i < s.length; ++i) total += values_[layout_.number(q, i)];
            out.value[s.index] = infeasible_[q] ? -infinity<R> : R(total);
            if (infeasible_[q]) std::fill_n(out.node + s.first * s.tags, s.length * size_t(s.tags), R(0));
        }
    }

    void flush(double* sum) { messages_.k.flush(sum); }
};

template <class R> void mean_field(const Batch<R>& batch, int n_iter, const Outputs<R>& out) {
    const int passes = out.gold ? 6 : 2;  // forward 2, backward 2, transitions 2
    const Shape shape = shape_of(batch, {Operation::MEAN_FIELD}, 0);
    run_plan<TokenRows, TokenLanes>(
        batch, batch.sequences(), shape,
        [&](auto layout, auto, const auto& tiles, char*) {
            using Layout = typename decltype(layout)::type;
            using Field = MeanField<Layout, R>;
            const size_t room = largest_room<Layout>(tiles);
            for_each_tile(
                batch, tiles, passes * (n_iter + 1.0) * pass(batch), out.sum,
                [&] { return Field(batch, shape, room, n_iter, out.gold != nullptr); },
                [&](Field& field, const auto& tile, double* sum) { field.run(tile, out, sum); });
        },
        nullptr);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
