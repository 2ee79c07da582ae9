// The layout with tags in the vector: a tile is one sequence. A number of a token (a sum, a scale, a flag) is in all
// lanes.
#pragma once

#include "numbers.hh"
#include "prefetch.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R> class Rows {
    static constexpr int W = lanes<R>;
    const R* const end_;
    Buffer<R> padding_, ignored_;  // infinity, and 0, beyond the tags

  public:
    static constexpr bool IN_LANES = false;
    const int tags, vectors;

    struct Tile {
        static constexpr int size = 1;
        int longest = 0;
        size_t tokens = 0;
        Sequence<R> sequence[1];

        Tile() = default;
        explicit Tile(const Sequence<R>& s) : longest(s.length), tokens(s.length), sequence{s} {}
    };
    // All tokens of the sequence are live.
    struct Live {
        BCRF_INLINE Vec<R> ones() const { return broadcast<R>(1); }
        template <class N> BCRF_INLINE typename N::Value keep(typename N::Value x) const { return x; }
    };

    explicit Rows(const Batch<R>& batch)
        : end_(batch.end()), padding_(padded<R>(batch.tags)), ignored_(padded<R>(batch.tags)), tags(batch.tags),
          vectors(padded<R>(batch.tags) / W) {
        for (int t = 0; t < vectors * W; ++t) {
            padding_[t] = t < tags ? R(0) : infinity<R>;
            ignored_[t] = t < tags ? -infinity<R> : R(0);
        }
    }

    // Move all sequences of a list to tiles.
    static std::vector<Tile> tiles(const Batch<R>&, std::vector<Sequence<R>>& which, double) {
        std::vector<Tile> found(which.begin(), which.end());
        which.clear();
        return found;
    }

    static BCRF_INLINE int lengths(const Tile& tile) { return tile.longest; }
    static BCRF_INLINE Live live(int, int) { return {}; }
    static BCRF_INLINE bool all(Vec<R> flags) { return flags[0] > 0; }
    static BCRF_INLINE bool any(Vec<R> flags) { return flags[0] > 0; }
    static BCRF_INLINE Vec<R> sum(Vec<R> v) { return lane_sums<R>(v); }
    static BCRF_INLINE Vec<R> max(Vec<R> v) { return lane_maxima<R>(v); }
    BCRF_INLINE Vec<R> ignore_padding(int v, Vec<R> x) {
        return BCRF_TARGET::max<R>(x, BCRF_TARGET::load(ignored_ + v * W));
    }
    // Return the position of tag t of sequence k in a row.
    static size_t index(int t, int) { return t; }
    // Return a tag's number of a row that the vectors of another row meet.
    template <class N> static BCRF_INLINE typename N::Value each(const R* row, size_t part, int t) {
        return N::single(row + t, part);
    }
    // Return the largest i such that a sequence ends with token i < before, or -1.
    static int last_end(const Tile& tile, int before) { return tile.longest - 1 < before ? tile.longest - 1 : -1; }
    // Return 1 where token i, or one before, is the last one.
    static BCRF_INLINE Vec<R> ended(int length, int i) { return broadcast(R(length <= i + 1)); }

    // Set a row to scores. The padding is -inf.
    BCRF_INLINE void load(R* row, const R* scores) {
        for (int t = 0; t < vectors * W; t += W)
            store(row + t, load_first<R>(scores + t, std::min(W, tags - t), end_) - BCRF_TARGET::load(padding_ + t));
    }
    BCRF_INLINE void load(R* row, const Tile& tile, int i) {
        const R* from = tile.sequence[0].unary + size_t(i) * tags;
        if (i + TOKENS_AHEAD < tile.longest) prefetch(from + TOKENS_AHEAD * tags, tags);
        load(row, from);
    }

    // Writes a row of each sequence to `stride` numbers a token from `to` on. `place`: of the row in a token's numbers.
    struct Writer {
        R* to;
        int tags;
        BCRF_INLINE void put(int v, Vec<R> x) const {
            if (to) store_first<R>(to + v * W, x, std::min(W, tags - v * W));
        }
        BCRF_INLINE void end() const {}
    };
    BCRF_INLINE Writer writer(const Tile& tile, int i, R* to, size_t stride, size_t place = 0) const {
        return {to ? to + (tile.sequence[0].first + i) * stride + place : nullptr, tags};
    }

    struct Sums {
        double sum = 0;
        BCRF_INLINE void add(Vec<R> x) { sum += double(x[0]); }
        void read(double* sums) const { *sums = sum; }
    };
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
