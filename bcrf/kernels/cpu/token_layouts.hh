// Layouts of recursions that treat tokens of one parity at once: TokenRows has a token in a row, TokenLanes has tokens
// in the lanes of vectors, from one or several sequences.
//
// A position is a token in rows, and as many tokens of one parity as a vector has lanes in lanes. Its numbers of a tag
// are vectors of `vectors` tags, `step` apart. Messages has the sums over a position's neighbours.
#pragma once

#include "interrupt.hh"
#include "transitions.hh"

namespace bcrf {
namespace BCRF_TARGET {

struct Position {
    size_t here, before, after;  // offsets in arrays of the numbers of tokens: of the tokens and of their neighbours
    size_t number;               // offset in arrays with one number a token
    int token;                   // in rows
};

template <class R> class TokenRows : public Rows<R> {
    static constexpr int W = lanes<R>;
    using Rows<R>::s_;
    const int width_, longest_;

    static Vec<R> flag(bool x) { return broadcast(R(x)); }

  public:
    using Layout = Rows<R>;
    static constexpr int MOST = 4;  // positions that are projected together

    // room: the most tokens of a tile.
    TokenRows(const Batch<R>& batch, size_t room) : Rows<R>(batch), width_(this->vectors * W), longest_(int(room)) {}

    size_t size() const { return size_t(longest_ + 2) * width_; }  // of the numbers of tokens
    size_t step() const { return W; }                              // between vectors of numbers
    size_t numbers() const { return size_t(longest_) * W; }        // of arrays with one number a token

    // Return how many of the remaining positions to take at once: parts of similar sizes, because a product of one row
    // takes nearly as long as a product of two.
    static int together(int left) {
        const int parts = (left + MOST - 1) / MOST;
        return (left + parts - 1) / parts;
    }

    int count() const { return s_->length; }
    Position position(int i) const {
        const size_t at = size_t(i) * width_;
        return {at + width_, at, at + 2 * width_, size_t(i) * W, i};
    }
    // The inner tokens of a parity.
    int count_inner(int parity) const { return (s_->length - 2 + parity) / 2; }
    Position inner(int parity, int k) const { return position(2 - parity + 2 * k); }

    // Return 1 where a token is the first or last one. A single token is the last one.
    Vec<R> is_first(const Position& at) const { return flag(at.token == 0 && s_->length > 1); }
    Vec<R> is_last(const Position& at) const { return flag(at.token + 1 == s_->length); }
    static Vec<R> is_token(const Position&) { return flag(true); }
    template <class N>
    static BCRF_INLINE typename N::Value if_inner(const Position&, typename N::Value x, const R*, size_t) {
        return x;
    }
    static size_t number(int, int i) { return size_t(i) * W; }
    template <class Use> void for_numbers(int, Use use) const { use(0, size_t(s_->length) * W); }
    void stop(int) {}

    // Return x in the lane with the most.
    static Vec<R> likeliest(Vec<R> x, Vec<R> most) {
        R found[W];
        store(found, most);
        return broadcast<R>(x[std::max_element(found, found + W) - found]);
    }

    // Call use(lane, sequence of the tile, token) for the tokens of a position.
    template <class Use> BCRF_INLINE void for_tokens(const Position& at, Use use) const { use(0, 0, at.token); }
    // Return the offset of tag t of the token in lane k from the first number of a position.
    static size_t place(int t, int) { return t; }

    // Set the numbers of a position to its scores, -inf for padding.
    void load(R* row, const Position& at) { Rows<R>::load(row, at.token); }
    // Write the numbers of a position, of vectors `step` apart, to an array (N, tags).
    void write(const Position& at, const R* numbers, size_t, R* to) const {
        const auto writer = this->writer(at.token, to, this->tags);
        for (int v = 0; v < this->vectors && s_->from <= at.token && at.token < s_->to; ++v)
            writer.put(v, BCRF_TARGET::load(numbers + v * W));
    }
    // Set the numbers beyond both ends to 0.
    void clear_margins(R* array) const {
        for (const size_t row : {0, s_->length + 1}) std::fill_n(array + row * width_, width_, R(0));
    }
    // Add the sums of the pairs of numbers a of a token and b of the next one.
    template <class T> void add_edges(T& k, const R* a, const R* b, size_t part, double* sum) const {
        const Position at = position(s_->from);
        k.add_edges(a + at.here, b + at.after, std::min(s_->to, s_->length - 1) - s_->from, width_, part, sum);
    }
};

// Arrays of numbers are (2, tags, stride): a number for each parity and column, between W numbers that no sequence has.
// A sequence of length L has L / 2 + 1 columns: column j has its tokens 2 j and 2 j + 1.
template <class R> class TokenLanes : public Lanes<R> {
    static constexpr int W = lanes<R>;
    const size_t longest_;            // columns
    size_t columns_ = 0, stride_ = 0;
    enum Kind { LAST = -2, FIRST, NONE, INNER };
    Buffer<R> kind_;                  // (2, longest): of tokens; a single token is the last one
    std::vector<int> owner_, token_;  // (2, longest): the sequence of a token in the tile, or -1; its position there
    std::vector<size_t> column_;      // the first column of each sequence
    std::vector<int> busy_[2];        // columns j such that inner tokens are in W columns from j on
    const Tile<R>* tile_ = nullptr;
    static size_t columns_of(int length) { return size_t(length) / 2 + 1; }

    Position at(int parity, size_t column) const {
        const size_t here = parity * this->tags * stride_ + W + column;
        const size_t other = (1 - parity) * this->tags * stride_ + W + column;
        return {here, other - (parity == 0), other + (parity == 1), parity * longest_ + column, 0};
    }
    BCRF_INLINE Vec<R> kinds(const Position& at) const { return BCRF_TARGET::load(kind_.data() + at.number); }
    BCRF_INLINE Vec<R> is(Kind kind, const Position& at) const { return one_where<R>(kinds(at) == broadcast(R(kind))); }
    void find_busy() {
        for (int p = 0; p < 2; ++p) {
            busy_[p].clear();
            for (size_t j = 0; j < columns_; j += W)
                if (this->any(kinds(at(p, j)))) busy_[p].push_back(int(j));
        }
    }

  public:
    using Layout = Lanes<R>;
    static constexpr int MOST = 1;

    TokenLanes(const Batch<R>& batch, size_t room)
        : Lanes<R>(batch), longest_(room), kind_(2 * longest_), owner_(2 * longest_), token_(2 * longest_) {}

    // Return tiles of sequences of at least three tokens that fill at least a share of their lanes, see Lanes.
    static std::vector<Tile<R>> tiles(const Shape& shape, std::vector<Sequence<R>>& list,
                                      std::vector<Sequence<R>>& rest, double share) {
        const auto middle = std::stable_partition(list.begin(), list.end(), [](const auto& s) { return s.length > 2; });
        rest.assign(middle, list.end());
        std::vector<Tile<R>> found;
        const size_t least = least_tokens(shape, share);
        const Sequence<R>*first = list.data(), *end = first + (middle - list.begin());
        size_t columns = 0;
        for (const Sequence<R>* s = first; s < end; ++s) {
            columns += columns_of(s->length);
            // A long sequence has a tile of its own.
            if (s + 1 < end && columns + columns_of(s->length) <= size_t(TOKEN_VECTORS) * W && s[1].length <= LONG_LENGTH)
                continue;
            const Tile<R> next(first, int(s + 1 - first));
            if (double(next.tokens) >= 2 * share * double(room(next)) && next.tokens >= least) found.push_back(next);
            else rest.insert(rest.end(), first, s + 1);
            first = s + 1, columns = 0;
        }
        return found;
    }
    // Return the columns of a tile, a whole number of vectors.
    static size_t room(const Tile<R>& tile) {
        size_t columns = 0;
        for (int q = 0; q < tile.size; ++q) columns += columns_of(tile.sequence[q].length);
        return (columns + W - 1) / W * W;
    }

    // Assign columns to the tokens of a tile.
    void set(const Tile<R>& tile) {
        tile_ = &tile;
        columns_ = room(tile);
        stride_ = columns_ + 2 * W;
        column_.clear();
        std::fill(owner_.begin(), owner_.end(), -1);
        std::fill_n(kind_.data(), 2 * longest_, R(NONE));
        size_t next = 0;
        for (int q = 0; q < tile.size; ++q) {
            const int length = tile.sequence[q].length;
            column_.push_back(next);
            for (int i = 0; i < length; ++i) {
                owner_[number(q, i)] = q;
                token_[number(q, i)] = i;
                kind_[number(q, i)] = R(i + 1 == length ? LAST : i == 0 ? FIRST : INNER);
            }
            next += columns_of(length);
        }
        find_busy();
    }

    size_t size() const { return 2 * this->tags * (longest_ + 2 * W); }
    size_t step() const { return stride_; }
    size_t numbers() const { return 2 * longest_; }
    static int together(int) { return 1; }

    int count() const { return int(2 * columns_ / W); }
    Position position(int k) const {
        const size_t column = size_t(k) * W;
        return column < columns_ ? at(0, column) : at(1, column - columns_);
    }
    int count_inner(int parity) const { return int(busy_[parity].size()); }
    Position inner(int parity, int k) const { return at(parity, busy_[parity][k]); }

    Vec<R> is_first(const Position& at) const { return is(FIRST, at); }
    Vec<R> is_last(const Position& at) const { return is(LAST, at); }
    // Before `stop`, after which the inner tokens of a sequence are none.
    Vec<R> is_token(const Position& at) const { return one_where<R>(kinds(at) != broadcast(R(NONE))); }
    // Return x for inner tokens, and the number at `other` for the rest.
    template <class N>
    BCRF_INLINE typename N::Value if_inner(const Position& at, typename N::Value x, const R* other, size_t part) const {
        return N::select(kinds(at), x, N::load(other, part));
    }
    size_t number(int q, int i) const { return i % 2 * longest_ + column_[q] + i / 2; }
    template <class Use> void for_numbers(int q, Use use) const {
        for (int p = 0; p < 2; ++p) use(p * longest_ + column_[q], columns_of(tile_->sequence[q].length));
    }
    void stop(int q) {
        for_numbers(q, [&](size_t first, size_t n) { std::replace(kind_ + first, kind_ + first + n, R(INNER), R(NONE)); });
        find_busy();
    }
    static Vec<R> likeliest(Vec<R> x, Vec<R>) { return x; }

    template <class Use> BCRF_INLINE void for_tokens(const Position& at, Use use) const {
        for (int k = 0; k < W; ++k)
            if (const int q = owner_[at.number + k]; q >= 0) use(k, q, token_[at.number + k]);
    }
    size_t place(int t, int k) const { return t * stride_ + k; }

    void load(R* rows, const Position& at) {
        const R* scores[W];
        std::fill_n(scores, W, this->nothing_.data());
        for_tokens(at, [&](int k, int q, size_t i) { scores[k] = tile_->sequence[q].unary + i * this->tags; });
        pack(rows, stride_, scores, this->end_, this->tags);
    }
    void write(const Position& at, const R* numbers, size_t step, R* to) const {
        R* rows[W] = {};
        for_tokens(at, [&](int k, int q, int i) {
            const Sequence<R>& s = tile_->sequence[q];
            if (s.from <= i && i < s.to) rows[k] = to + (s.first + i) * this->tags;
        });
        unpack(rows, numbers, step, this->tags);
    }
    void clear_margins(R* array) const {
        for (int row = 0; row < 2 * this->tags; ++row, array += stride_)
            for (const size_t at : {size_t(0), W + columns_}) store(array + at, Vec<R>{});
    }
    template <class T> void add_edges(T& k, const R* a, const R* b, size_t part, double* sum) const {
        const int half = count() / 2;
        for (int first : {0, half}) {
            const Position at = position(first);
            k.add_edges(a + at.here, b + at.after, half, W, part, sum, stride_);
        }
    }
};

// Cut a long sequence with shared transitions into windows that stay in the cache, through all iterations. An iteration
// moves information to the next token, so the tokens in the middle of a window have exact results. alive: see LiveTags,
// or null.
template <class R>
std::vector<Sequence<R>> windows(const Sequence<R>& s, int n_iter, const std::uint64_t* alive, int words) {
    const int border = std::min(n_iter, s.length) + 2;
    const int size = token_window(border, s.length);
    std::vector<Sequence<R>> found;
    for (int from = 0, to; from < s.length; from = to) {
        to = s.length - from < 2 * size ? s.length : from + size;
        // An even start keeps the parities.
        const int start = std::max(from - border, 0) / 2 * 2, stop = std::min(to + border, s.length);
        Sequence<R> window = s;
        window.unary += size_t(start) * s.tags;
        window.length = stop - start;
        window.index = int(found.size());
        window.first += start;
        window.from = from - start, window.to = to - start;
        if (alive) window.alive = alive + size_t(start) * words;
        found.push_back(window);
    }
    return found;
}

// The sums over a token's neighbours, which projections and mean field need: in = K^T x[i-1] and out = K y[i+1].
template <class L, class N> class Messages {
    using R = typename N::R;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>, MOST = L::MOST;
    L& layout_;
    const int vectors_;
    const size_t part_, row_part_;
    const double work_;
    const Value alone_;       // `in` of a sequence of one token
    SignalCheck signals_;
    Buffer<R> in_, out_;      // (PARTS, MOST, vectors)

    R* in(int r) { return in_ + r * vectors_ * W; }
    R* out(int r) { return out_ + r * vectors_ * W; }

    // Set `to` to the products of the numbers of the neighbours of n positions: of the tokens before, or after.
    BCRF_INLINE void multiply(const Position* at, int n, const Sequence<R>& s, const R* numbers, bool after, R* to) {
        size_t Position::*neighbour = after ? &Position::after : &Position::before;
        if constexpr (N::PARTS == 1 && !L::IN_LANES)
            if (s.shared) {
                const R* x[MOST];
                for (int r = 0; r < n; ++r) x[r] = numbers + at[r].*neighbour;
                return k.products(n, x, after, [&](int r, int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
                    store(to + (r * vectors_ + v) * W, sum);
                });
            }
        for (int r = 0; r < n; ++r, to += vectors_ * W) {
            // The ends of a sequence have one edge. The neighbour beyond has numbers that do not count.
            const int edge = after ? std::min(at[r].token, s.length - 2) : std::max(at[r].token - 1, 0);
            k.write_product(edge, numbers + at[r].*neighbour, layout_.step(), part_, after, to, row_part_);
        }
    }
    BCRF_NOINLINE void sums(const Position* at, int n, const Sequence<R>& s, const R* x, const R* y) {
        signals_.add(work_ * n);
        if (L::IN_LANES || s.length > 1) {
            multiply(at, n, s, x, false, in_);
            multiply(at, n, s, y, true, out_);
        } else {
            for (int v = 0; v < vectors_; ++v) {
                N::store(in_ + v * W, row_part_, alone_);
                N::store(out_ + v * W, row_part_, N::zero());
            }
        }
    }

  public:
    Transitions<typename L::Layout, N> k;

    Messages(const Batch<R>& batch, const Shape& shape, L& layout, size_t room, double scale, Value alone)
        : layout_(layout), vectors_(layout.vectors), part_(layout.size()), row_part_(size_t(MOST) * vectors_ * W),
          work_(2.0 * batch.tags * vectors_ * W), alone_(alone), in_(N::PARTS * row_part_), out_(N::PARTS * row_part_),
          k(batch, shape, int(room), scale) {}

    size_t part() const { return row_part_; }  // of the sums

    // Call use(position, in, out) for n positions get(k) of the numbers x and y.
    template <class Get, class Use>
    BCRF_INLINE void for_positions(const Tile<R>& tile, const R* x, const R* y, int n, Get get, Use use) {
        for (int k = 0, together; k < n; k += together) {
            Position at[MOST];
            together = L::together(n - k);
            for (int r = 0; r < together; ++r) at[r] = get(k + r);
            sums(at, together, tile.sequence[0], x, y);
            for (int r = 0; r < together; ++r) use(at[r], in(r), out(r));
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
