// The layout with sequences in the lanes of vectors: a tile is as many sequences as a vector has lanes. A number of a
// token differs between lanes.
//
// With few tags, a row of tags fills a vector badly and each sum over tags is a horizontal reduction. Here a row is
// (tags, lanes): all loops over tags are vertical, and no tag is padding.
#pragma once

#include "numbers.hh"
#include "paths.hh"

namespace bcrf {
namespace BCRF_TARGET {

// One stage of a transposition: exchange blocks of H lanes between two rows. Within 128 bits, the
// rows interleave, which is one instruction on each platform, and the caller reorders the rows.
template <class R, int H, bool HIGH, int... J>
BCRF_INLINE Vec<R> exchange(Vec<R> a, Vec<R> b, std::integer_sequence<int, J...>) {
    constexpr int W = lanes<R>, Q = 16 / int(sizeof(R));
    if constexpr (H >= Q)
        return shuffle<R, (J & H ? W + J - (HIGH ? 0 : H) : J + (HIGH ? H : 0))...>(a, b);
    else if constexpr (H == 1)
        return shuffle<R, (J / Q * Q + J % Q / 2 + (HIGH ? Q / 2 : 0) + J % 2 * W)...>(a, b);
    else  // pairs of lanes
        return shuffle<R, (J / Q * Q + J % 2 + (HIGH ? 2 : 0) + J % Q / 2 * W)...>(a, b);
}

template <class R, int H> BCRF_INLINE void exchange_all(Vec<R>* rows) {
    using Lanes = std::make_integer_sequence<int, lanes<R>>;
    for (int i = 0; i < lanes<R>; ++i)
        if (!(i & H)) {
            const Vec<R> a = rows[i], b = rows[i + H];
            rows[i] = exchange<R, H, false>(a, b, Lanes());
            rows[i + H] = exchange<R, H, true>(a, b, Lanes());
        }
}

// Transpose a matrix of lanes<R> vectors.
template <class R> BCRF_INLINE void transpose_lanes(Vec<R>* rows) {
    constexpr int W = lanes<R>;
    if constexpr (sizeof(R) == 4) {
        // unpack(0, 1), unpack(2, 3), then pairs: the 4 x 4 transposition of each 128 bits.
        exchange_all<R, 1>(rows);
        exchange_all<R, 2>(rows);
        for (int i = 0; i < W; i += 4) std::swap(rows[i + 1], rows[i + 2]);
        if constexpr (W > 4) exchange_all<R, 4>(rows);
        if constexpr (W > 8) exchange_all<R, 8>(rows);
    } else {
        exchange_all<R, 1>(rows);
        if constexpr (W > 2) exchange_all<R, 2>(rows);
        if constexpr (W > 4) exchange_all<R, 4>(rows);
    }
}

// Set out[t, k] = rows[k][t] for `tags` numbers t; rows of `out` are `stride` apart. A row may load
// numbers after its end, up to a whole vector, if they are before `end`.
template <class R> void pack(R* out, size_t stride, const R* const* rows, const R* end, int tags) {
    constexpr int W = lanes<R>;
    int t = 0;
    for (; tags - t >= W || tags - t > W / 4; t += W) {
        const int n = tags - t < W ? tags - t : W;
        Vec<R> tile[W];
        BCRF_UNROLL for (int k = 0; k < W; ++k) tile[k] = load_first(rows[k] + t, n, end);
        transpose_lanes<R>(tile);
        BCRF_UNROLL for (int k = 0; k < W; ++k)
            if (k < n) store(out + (t + k) * stride, tile[k]);
    }
    for (; t < tags; ++t)
        for (int k = 0; k < W; ++k) out[t * stride + k] = rows[k][t];
}

// Set rows[k][t] = in[t, k] for each row that is not null.
template <class R> void unpack(R* const* rows, const R* in, size_t stride, int tags) {
    constexpr int W = lanes<R>;
    int t = 0;
    for (; tags - t >= W || tags - t > W / 4; t += W) {
        const int n = tags - t < W ? tags - t : W;
        Vec<R> tile[W];
        BCRF_UNROLL for (int k = 0; k < W; ++k)
            tile[k] = k < n ? load(in + (t + k) * stride) : Vec<R>{};
        transpose_lanes<R>(tile);
        BCRF_UNROLL for (int k = 0; k < W; ++k)
            if (rows[k]) store_first(rows[k] + t, tile[k], n);
    }
    for (; t < tags; ++t)
        for (int k = 0; k < W; ++k)
            if (rows[k]) rows[k][t] = in[t * stride + k];
}

// Sums of numbers in double, one in each lane.
template <class R> class LaneSums {
    static constexpr int W = lanes<R>, PARTS = int(sizeof(double) / sizeof(R));
    Vec<double> part_[PARTS];

  public:
    LaneSums() : part_{} {}
    BCRF_INLINE void add(Vec<R> x) {
        R copy[W];
        store(copy, x);
        for (int p = 0; p < PARTS; ++p) part_[p] += load_as<double>(copy + p * lanes<double>);
    }
    void read(double* sums) const {
        for (int p = 0; p < PARTS; ++p) store(sums + p * lanes<double>, part_[p]);
    }
};

template <class R> class Lanes {
    static constexpr int W = lanes<R>;
    const R* const scores_;
    Buffer<R> node_;  // (tags, W)
    std::int64_t first_[W], length_[W];  // of the sequences of the tile; 0 for other lanes

  protected:
    const R* const end_;
    Buffer<R> nothing_;  // the scores of lanes without a token

  public:
    static constexpr bool IN_LANES = true;
    const int tags, vectors;

    explicit Lanes(const Batch<R>& batch)
        : scores_(batch.unary), node_(size_t(batch.tags) * W), end_(batch.end()), nothing_(batch.tags),
          tags(batch.tags), vectors(batch.tags) {}

    // Return tiles of sequences of similar length, the longest first, that fill at least a share of their lanes. Sort
    // the list, which must outlive them. Add the other sequences to `rest`.
    static std::vector<Tile<R>> tiles(const Shape&, std::vector<Sequence<R>>& list, std::vector<Sequence<R>>& rest,
                                      double share) {
        std::vector<Tile<R>> found;
        if (list.size() < share * W) return rest = list, found;
        const auto is_longer = [](const auto& a, const auto& b) { return a.length > b.length; };
        if (!std::is_sorted(list.begin(), list.end(), is_longer))
            std::stable_sort(list.begin(), list.end(), is_longer);
        found.reserve(list.size() / W + 1);
        for (size_t at = 0; at < list.size();) {
            const Tile<R> next(&list[at], int(std::min<size_t>(W, list.size() - at)));
            if (next.longest <= Precision<R>::MOST_COUNTED && double(next.tokens) >= share * W * next.longest) {
                at += next.size;
                found.push_back(next);
            } else {
                rest.push_back(list[at++]);
            }
        }
        return found;
    }
    static size_t room(const Tile<R>& tile) { return tile.longest; }

    void set(const Tile<R>& tile) {
        for (int k = 0; k < W; ++k) {
            first_[k] = k < tile.size ? tile.sequence[k].first : 0;
            length_[k] = k < tile.size ? tile.sequence[k].length : 0;
        }
    }

    Vec<R> lengths() const {
        R n[W];
        for (int k = 0; k < W; ++k) n[k] = R(length_[k]);
        return BCRF_TARGET::load(n);
    }
    // Return 1 for the sequences that have a token i.
    static BCRF_INLINE Vec<R> has_token(Vec<R> lengths, int i) { return one_where<R>(broadcast(R(i)) < lengths); }
    static BCRF_INLINE bool all(Vec<R> flags) { return minimum<R>(flags) > 0; }
    static BCRF_INLINE bool any(Vec<R> flags) { return maximum<R>(flags) > 0; }
    static BCRF_INLINE Vec<R> sum(Vec<R> v) { return v; }
    static BCRF_INLINE Vec<R> max(Vec<R> v) { return v; }
    static BCRF_INLINE Vec<R> min(Vec<R> v) { return v; }
    static BCRF_INLINE Vec<R> ignore_padding(int, Vec<R> x) { return x; }
    static size_t index(int t, int k) { return size_t(t) * W + k; }
    template <class N> static BCRF_INLINE typename N::Value each(const R* row, size_t part, int t) {
        return N::load(row + t * W, part);
    }
    int last_end(int before) const {
        int end = -1;
        for (int k = 0; k < W; ++k)
            if (const int last = int(length_[k]) - 1; last < before) end = std::max(end, last);
        return end;
    }
    static BCRF_INLINE Vec<R> ended(Vec<R> lengths, int i) { return one_where<R>(lengths <= broadcast(R(i + 1))); }

    BCRF_INLINE void load(R* row, int i) {
        const R* rows[W];
        for (int k = 0; k < W; ++k)
            rows[k] = i < length_[k] ? scores_ + size_t(first_[k] + i) * tags : nothing_.data();
        pack(row, W, rows, end_, tags);
    }

    struct Writer {
        Lanes& layout;
        int i;
        R* to;
        size_t stride;
        BCRF_INLINE void put(int v, Vec<R> x) const { store(layout.node_ + v * W, x); }
        BCRF_INLINE void end() const {
            if (!to) return;
            R* rows[W];
            for (int k = 0; k < W; ++k)
                rows[k] = i < layout.length_[k] ? to + size_t(layout.first_[k] + i) * stride : nullptr;
            unpack(rows, layout.node_.data(), W, layout.tags);
        }
    };
    BCRF_INLINE Writer writer(int i, R* to, size_t stride) { return {*this, i, to, stride}; }

    using Sums = LaneSums<R>;
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
