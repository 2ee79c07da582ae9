// Mean field for the linear chain, and its loss with the gradient.
#pragma once

#include "interrupt.hh"
#include "transitions.hh"

namespace bcrf {
namespace BCRF_TARGET {

constexpr int CHECKED_TOKENS = 256;  // tokens between two looks at the signals

// Layouts of the recursion: a position is a token in rows, and as many consecutive tokens as a vector has lanes in
// lanes. Arrays have a number for each tag and token; the vectors of a position are `step` apart, from `at` on.
// messages(x, use) calls use(position, m) for all positions, where m (vectors, lanes) are the products of the numbers
// of the tokens before and after with the transitions between.
struct FieldPosition {
    size_t at, number;  // offsets in an array, and in an array with one number a token
};

template <class R_> class MeanFieldRows : public Rows<R_> {
  public:
    using R = R_;
    using Tile = typename Rows<R>::Tile;

  private:
    static constexpr int W = lanes<R>, MOST = 4;  // positions whose messages share the transitions' loads
    const size_t width_, longest_;
    const Sequence<R>* s_ = nullptr;
    Transitions<Rows<R>, Plain<R>> k_;
    Buffer<R> zeros_, messages_;  // (width), (MOST, width)

    FieldPosition position(int i) const { return {size_t(i) * width_, size_t(i) * W}; }
    size_t token(FieldPosition p) const { return s_->first + p.number / W; }
    R* message(int r, int v) { return messages_ + r * width_ + v * W; }
    // Set messages_ of n tokens from token i on.
    BCRF_NOINLINE void multiply(int n, int i, const R* const* before, const R* const* after) {
        k_.products(
            n, before, false,
            [&](int r, int v, Vec<R> sum) BCRF_INLINE_LAMBDA { store(message(r, v), sum); }, i ? i - 1 : 0);
        k_.products(
            n, after, true,
            [&](int r, int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
                store(message(r, v), BCRF_TARGET::load(message(r, v)) + sum);
            },
            i);
    }

  public:
    MeanFieldRows(const Batch<R>& batch, size_t room)
        : Rows<R>(batch), width_(this->vectors * W), longest_(room), k_(batch, int(room), 1, Weights::SCORES),
          zeros_(width_), messages_(MOST * width_) {}

    static size_t room(const Tile& tile) { return tile.longest; }
    size_t size() const { return longest_ * width_; }
    size_t numbers() const { return longest_ * W; }
    size_t step() const { return W; }
    static size_t offset(int t, int) { return t; }
    static size_t number(int, int i) { return size_t(i) * W; }

    void set(const Tile& tile) {
        s_ = tile.sequence;
        k_.prepare(tile);
    }
    void stop(const Tile&, int) {}
    template <class Use> BCRF_INLINE void positions(Use use) {
        for (int i = 0; i < s_->length; ++i) use(position(i));
    }
    // Call use(lane, token of the batch) for the tokens of a position.
    template <class Use> BCRF_INLINE void tokens(FieldPosition p, Use use) { use(0, token(p)); }
    // Return x, or 0 without a token.
    static BCRF_INLINE Vec<R> keep(FieldPosition, Vec<R> x) { return x; }

    template <class Use> BCRF_INLINE void messages(const R* x, Use use) {
        for (int i = 0, n = 0; i < s_->length; i += n) {
            n = s_->shared ? std::min(MOST, s_->length - i) : 1;
            if (i % CHECKED_TOKENS == 0) check_signals();
            const R *before[MOST], *after[MOST];
            for (int r = 0; r < n; ++r) {
                before[r] = i + r > 0 ? x + (i + r - 1) * width_ : zeros_.data();
                after[r] = i + r + 1 < s_->length ? x + (i + r + 1) * width_ : zeros_.data();
            }
            multiply(n, i, before, after);
            for (int r = 0; r < n; ++r) use(position(i + r), message(r, 0));
        }
    }
    void load(R* array, FieldPosition p) { Rows<R>::load(array + p.at, s_->unary + p.number / W * this->tags); }
    void write(const R* array, FieldPosition p, R* node) {
        node += token(p) * this->tags;
        for (int t = 0; t < this->tags; t += W)
            store_first<R>(node + t, BCRF_TARGET::load(array + p.at + t), std::min(W, this->tags - t));
    }
    // Add the products of the numbers of a at each token with those of b at the next one, to sum (tags, tags) or to
    // each (edges, tags, tags).
    void add_edges(const R* a, const R* b, double* sum, R* each) {
        const int edges = s_->length - 1, tags = this->tags;
        if (sum) return k_.add_edges(a, b + width_, edges, width_, 0, sum);
        if (!each) return;
        each += s_->first * tags * tags;
        for (int i = 0; i < edges; ++i, a += width_) {
            b += width_;
            for (int u = 0; u < tags; ++u, each += tags)
                for (int v = 0; v < tags; ++v) each[v] += a[u] * b[v];
        }
    }
    void flush(double* sum) { k_.flush(sum); }
};

// Sequences follow one another, each with an empty position after it. Arrays are (tags, stride): the neighbours of
// tokens are the vectors that begin one token before and after. It does not matter which sequences tokens belong to:
// the update is the same for all, and the numbers of empty positions are 0.
template <class R_> class MeanFieldLanes : public Lanes<R_> {
  public:
    using R = R_;
    struct Tile {
        int size = 0;
        size_t tokens = 0;
        std::vector<Sequence<R>> sequence;
    };

  private:
    static constexpr int W = lanes<R>;
    const R* const unary_;               // of the batch
    const size_t room_, stride_;         // a whole number of vectors, and one more before and after them
    size_t used_ = 0;
    Transitions<Lanes<R>, Plain<R>> k_;
    Buffer<R> live_;                     // (room): 1 for tokens
    Buffer<R> nothing_, messages_;       // the scores of empty positions; (tags, W)
    std::vector<std::ptrdiff_t> token_;  // (room): of the batch, or -1
    std::vector<size_t> first_;          // number of each sequence

    static size_t filled(size_t numbers) { return (numbers + W - 1) / W * W; }

    // Set messages_. Both products are in one loop, whose totals need all registers.
    BCRF_NOINLINE void multiply(const R* x) {
        R* m = messages_;
        const R *forth = k_.matrix(0, false), *back = k_.matrix(0, true);
        const size_t width = k_.width();
        for_columns(this->tags, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
            constexpr int COLUMNS = columns.value;
            const R *before = x - 1, *after = x + 1, *k = forth + v, *l = back + v;
            Vec<R> total[COLUMNS];
            for (int c = 0; c < COLUMNS; ++c) total[c] = Vec<R>{};
            for (int u = 0; u < this->tags; ++u, before += stride_, after += stride_, k += width, l += width) {
                const Vec<R> y = BCRF_TARGET::load(before), z = BCRF_TARGET::load(after);
                for (int c = 0; c < COLUMNS; ++c) total[c] += k[c] * y;
                for (int c = 0; c < COLUMNS; ++c) total[c] += l[c] * z;
            }
            for (int c = 0; c < COLUMNS; ++c) store(m + (v + c) * W, total[c]);
        });
    }

  public:
    MeanFieldLanes(const Batch<R>& batch, size_t room)
        : Lanes<R>(batch), unary_(batch.unary), room_(filled(room)), stride_(room_ + 2 * W),
          k_(batch, 1, 1, Weights::SCORES), live_(room_), nothing_(batch.tags), messages_(size_t(batch.tags) * W),
          token_(room_) {}

    // Move sequences to tiles whose iterates stay in the cache, unless they have a single, long sequence.
    static std::vector<Tile> tiles(const Batch<R>& batch, std::vector<Sequence<R>>& which, double share) {
        std::vector<Tile> found;
        std::vector<Sequence<R>> rest;
        for (const Sequence<R>& s : which) {
            if (s.length > LONG_LENGTH && batch.tags > MOST_LONG_LANE_TAGS) {
                rest.push_back(s);
                continue;
            }
            if (found.empty() || room(found.back()) + s.length + 1 > LANE_TILE_TOKENS) found.emplace_back();
            found.back().sequence.push_back(s);
            found.back().tokens += s.length;
            ++found.back().size;
        }
        if (!found.empty() && double(found.back().tokens) < share * W) {
            const auto& last = found.back().sequence;
            rest.insert(rest.end(), last.begin(), last.end());
            found.pop_back();
        }
        which = std::move(rest);
        return found;
    }

    static size_t room(const Tile& tile) { return tile.tokens + tile.sequence.size(); }
    size_t size() const { return this->tags * stride_; }
    size_t numbers() const { return room_; }
    size_t step() const { return stride_; }
    size_t offset(int t, int k) const { return t * stride_ + k; }
    size_t number(int q, int i) const { return first_[q] + i; }

    void set(const Tile& tile) {
        used_ = filled(room(tile));
        std::fill_n(token_.begin(), used_, -1);
        std::fill_n(live_.data(), used_, R(0));
        first_.clear();
        size_t next = 0;
        for (const Sequence<R>& s : tile.sequence) {
            first_.push_back(next);
            for (int i = 0; i < s.length; ++i, ++next) token_[next] = s.first + i, live_[next] = 1;
            ++next;
        }
    }
    // Leave a sequence out.
    void stop(const Tile& tile, int q) {
        std::fill_n(token_.begin() + first_[q], tile.sequence[q].length, -1);
        std::fill_n(live_ + first_[q], tile.sequence[q].length, R(0));
    }
    template <class Use> BCRF_INLINE void positions(Use use) {
        for (size_t n = 0; n < used_; n += W) use(FieldPosition{n + W, n});
    }
    template <class Use> BCRF_INLINE void tokens(FieldPosition p, Use use) {
        for (int k = 0; k < W; ++k)
            if (token_[p.number + k] >= 0) use(k, size_t(token_[p.number + k]));
    }
    BCRF_INLINE Vec<R> keep(FieldPosition p, Vec<R> x) const {
        return BCRF_TARGET::load(live_.data() + p.number) > Vec<R>{} ? x : Vec<R>{};
    }
    template <class Use> BCRF_INLINE void messages(const R* x, Use use) {
        positions([&](FieldPosition p) BCRF_INLINE_LAMBDA {
            if (p.number % CHECKED_TOKENS == 0) check_signals();
            multiply(x + p.at);
            use(p, messages_.data());
        });
    }
    void load(R* array, FieldPosition p) {
        const R* rows[W];
        for (int k = 0; k < W; ++k) {
            const auto token = token_[p.number + k];
            rows[k] = token < 0 ? nothing_.data() : unary_ + size_t(token) * this->tags;
        }
        Lanes<R>::load(array + p.at, stride_, rows);
    }
    void write(const R* array, FieldPosition p, R* node) {
        R* rows[W] = {};
        tokens(p, [&](int k, size_t token) { rows[k] = node + token * this->tags; });
        unpack(rows, array + p.at, stride_, this->tags);
    }
    void add_edges(const R* a, const R* b, double* sum, R*) {
        if (sum) k_.add_edges(a + W, b + W + 1, int(used_ / W), W, 0, sum, stride_);
    }
    void flush(double* sum) { k_.flush(sum); }
};

// All tokens are updated at once, n_iter times, from the softmax of their scores on.
template <class L> class MeanField {
    using R = typename L::R;
    using Tile = typename L::Tile;
    static constexpr int W = lanes<R>;
    L layout_;
    const int n_iter_, vectors_;
    const size_t size_, step_;
    const bool keep_;                  // keep all iterates for the backward pass
    Buffer<R> unary_, r_;              // an array, and one for each kept iterate
    Buffer<R> delta_, before_, node_;  // gradients of the logits of two iterates, and of the unary scores
    Buffer<R> values_;                 // a number for each token
    std::vector<int> bad_;             // the sequences of a tile in which a token has no allowed tag

    R* iterate(int k) { return r_ + size_t(keep_ ? k : k % 2) * size_; }

    // Set the scores, and find bad sequences.
    void load_scores(const Tile& tile) {
        Vec<R> worst{};
        layout_.positions([&](FieldPosition p) {
            layout_.load(unary_, p);
            Vec<R> top = broadcast<R>(-infinity<R>);
            for (int v = 0; v < vectors_; ++v) top = max<R>(top, load(unary_ + p.at + v * step_));
            store(values_ + p.number, L::max(top));
            worst = min<R>(worst, L::max(top));
        });
        bad_.clear();
        if (-maximum<R>(-worst) > -infinity<R>) return;
        for (int q = 0; q < tile.size; ++q) {
            bool is_bad = false;
            for (int i = 0; i < tile.sequence[q].length; ++i) is_bad |= !(values_[layout_.number(q, i)] > -infinity<R>);
            if (!is_bad) continue;
            bad_.push_back(q);
            layout_.stop(tile, q);
        }
    }

    // Set out = softmax(logits), or 0 without a token. Return the largest logit and the sum of exponentials.
    BCRF_INLINE void softmax(FieldPosition p, R* out, const R* logits, size_t step, Vec<R>& top, Vec<R>& total) {
        Vec<R> most = broadcast<R>(-infinity<R>), sum{};
        for (int v = 0; v < vectors_; ++v) most = max<R>(most, load(logits + v * step));
        most = L::max(most);
        for (int v = 0; v < vectors_; ++v) {
            const Vec<R> x = exponential(load(logits + v * step) - most);
            sum += x;
            store(out + v * step_, x);
        }
        sum = L::sum(sum);
        // A product with 0 would keep NaN, which an empty position must not pass on.
        const Vec<R> by = R(1) / sum;
        for (int v = 0; v < vectors_; ++v) store(out + v * step_, layout_.keep(p, load(out + v * step_) * by));
        top = most, total = sum;
    }

    // Compute all iterates, and for each token the loss of gold, or the entropy if gold is null.
    void forward(const int* gold) {
        Vec<R> top, total;
        layout_.positions([&](FieldPosition p) {
            softmax(p, iterate(0) + p.at, unary_ + p.at, step_, top, total);
        });
        for (int k = 1; k <= n_iter_; ++k)
            layout_.messages(iterate(k - 1), [&](FieldPosition p, R* logits) BCRF_INLINE_LAMBDA {
                for (int v = 0; v < vectors_; ++v)
                    store(logits + v * W, load(logits + v * W) + load(unary_ + p.at + v * step_));
                softmax(p, iterate(k) + p.at, logits, W, top, total);
                if (k == n_iter_) set_values(p, gold, logits, iterate(k) + p.at, top, total);
            });
    }

    void set_values(FieldPosition p, const int* gold, const R* logits, const R* out, Vec<R> top, Vec<R> total) {
        const Vec<R> log = logarithm(total), none{};
        if (gold) {
            R tops[W], logs[W];
            store(tops, top);
            store(logs, log);
            return layout_.tokens(p, [&](int k, size_t token) {
                const int tag = gold[token];
                values_[p.number + k] = tag < 0 ? R(0) : (tops[k] - logits[L::index(tag, k)]) + logs[k];
            });
        }
        // Subtracting the largest logit first loses no digits.
        Vec<R> mean{};
        for (int v = 0; v < vectors_; ++v) {
            const Vec<R> x = load(out + v * step_);
            mean += x > none ? x * (load(logits + v * W) - top) : none;
        }
        store(values_ + p.number, log - L::sum(mean));
    }

    // Add each token's share of <w, r>, where forbidden scores count as 0: each edge has two tokens.
    void add_scores() {
        const R* last = iterate(n_iter_);
        layout_.messages(last, [&](FieldPosition p, const R* m) BCRF_INLINE_LAMBDA {
            Vec<R> edges{}, own{};
            for (int v = 0; v < vectors_; ++v) {
                const size_t at = p.at + v * step_;
                const Vec<R> x = load(last + at), none{};
                edges += x * load(m + v * W);
                own += x > none ? x * load(unary_ + at) : none;
            }
            store(values_ + p.number, load(values_ + p.number) + L::sum(edges * R(0.5) + own));
        });
    }

    // Back-propagate the loss. The gradient of the unary scores is the sum of the gradients of all iterates' logits.
    void backward(const int* gold, double* sum, R* each) {
        R *delta = delta_, *before = before_, *node = node_;
        const R* last = iterate(n_iter_);
        layout_.positions([&](FieldPosition p) {
            for (int v = 0; v < vectors_; ++v) store(delta + p.at + v * step_, load(last + p.at + v * step_));
            layout_.tokens(p, [&](int k, size_t token) {
                R* d = delta + p.at;
                if (gold[token] >= 0) d[layout_.offset(gold[token], k)] -= 1;
                else
                    for (int t = 0; t < layout_.tags; ++t) d[layout_.offset(t, k)] = 0;
            });
            for (int v = 0; v < vectors_; ++v) store(node + p.at + v * step_, load(delta + p.at + v * step_));
        });
        for (int k = n_iter_ - 1; k >= 0; --k) {
            const R* r = iterate(k);
            layout_.add_edges(r, delta, sum, each);
            layout_.add_edges(delta, r, sum, each);
            layout_.messages(delta, [&](FieldPosition p, const R* m) BCRF_INLINE_LAMBDA {
                Vec<R> mean{};
                for (int v = 0; v < vectors_; ++v) mean += load(m + v * W) * load(r + p.at + v * step_);
                mean = L::sum(mean);
                for (int v = 0; v < vectors_; ++v) {
                    const size_t at = p.at + v * step_;
                    const Vec<R> d = layout_.keep(p, load(r + at) * (load(m + v * W) - mean));
                    store(before + at, d);
                    store(node + at, load(node + at) + d);
                }
            });
            std::swap(delta, before);
        }
    }

  public:
    // room: of the largest tile. keep: compute gradients.
    MeanField(const Batch<R>& batch, size_t room, int n_iter, bool keep)
        : layout_(batch, room), n_iter_(n_iter), vectors_(layout_.vectors), size_(layout_.size()),
          step_(layout_.step()), keep_(keep), unary_(size_), r_((keep ? size_t(n_iter) + 1 : 2) * size_),
          delta_(keep ? size_ : 0), before_(keep ? size_ : 0), node_(keep ? size_ : 0), values_(layout_.numbers()) {}

    // With gold, compute losses and write the gradient; without, compute values and write the tag marginals. The value
    // of a bad sequence is -inf, and its other results are 0. sum: see Outputs.
    void run(const Tile& tile, const Outputs<R>& out, double* sum) {
        layout_.set(tile);
        load_scores(tile);
        if (int(bad_.size()) < tile.size) {
            forward(out.gold);
            if (out.gold) backward(out.gold, sum, out.each);
            else add_scores();
            const R* from = out.gold ? node_.data() : iterate(n_iter_);
            layout_.positions([&](FieldPosition p) { layout_.write(from, p, out.node); });
        }
        for (int q = 0; q < tile.size; ++q) {
            double total = 0;
            for (int i = 0; i < tile.sequence[q].length; ++i) total += values_[layout_.number(q, i)];
            out.value[tile.sequence[q].index] = R(total);
        }
        for (int q : bad_) {
            const Sequence<R>& s = tile.sequence[q];
            out.value[s.index] = -infinity<R>;
            std::fill_n(out.node + s.first * s.tags, s.length * size_t(s.tags), R(0));
        }
    }

    void flush(double* sum) { layout_.flush(sum); }
};

struct MeanFieldLayouts {
    template <class R> using RowsOf = MeanFieldRows<R>;
    template <class R> using LanesOf = MeanFieldLanes<R>;
};

template <class R>
void mean_field(const Batch<R>& batch, int n_iter, const Outputs<R>& out) {
    const int passes = out.gold ? 6 : 2;  // forward 2, backward 2, transitions 2
    run_plan<R, MeanFieldLayouts>(
        batch, batch.sequences(), shape_of(batch, Operation::MEAN_FIELD, 0),
        [&](auto layout, auto number, const auto& tiles, char*) {
            using Layout = typename decltype(layout)::type;
            // No plan has wide numbers.
            if constexpr (decltype(number)::type::PARTS == 1) {
                size_t room = 0;
                for (const auto& tile : tiles) room = std::max(room, Layout::room(tile));
                for_each_tile(
                    batch, tiles, passes * (n_iter + 1.0) * pass(batch), out.sum,
                    [&] { return MeanField<Layout>(batch, room, n_iter, out.gold != nullptr); },
                    [&](MeanField<Layout>& field, const auto& tile, double* sum) { field.run(tile, out, sum); },
                    [](MeanField<Layout>& field, double* sum) { field.flush(sum); });
            }
        },
        [](const std::vector<Sequence<R>>&) {});
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
