// The layout with tags in the vector: a tile is one sequence. A number of a token (a sum, a scale, a flag) is in all
// lanes.
#pragma once

#include "numbers.hh"
#include "paths.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R> class Rows {
    static constexpr int W = lanes<R>;
    const R* const end_;
    Buffer<R> padding_, ignored_;  // infinity, and 0, beyond the tags

  protected:
    const Sequence<R>* s_ = nullptr;

  public:
    static constexpr bool IN_LANES = false;
    const int tags, vectors;

    explicit Rows(const Batch<R>& batch)
        : end_(batch.end()), padding_(padded<R>(batch.tags)), ignored_(padded<R>(batch.tags)), tags(batch.tags),
          vectors(padded<R>(batch.tags) / W) {
        for (int t = 0; t < vectors * W; ++t) {
            padding_[t] = t < tags ? R(0) : infinity<R>;
            ignored_[t] = t < tags ? -infinity<R> : R(0);
        }
    }

    static std::vector<Tile<R>> tiles(const Shape&, std::vector<Sequence<R>>& list, std::vector<Sequence<R>>&,
                                      double) {
        return single_tiles(list);
    }
    static size_t room(const Tile<R>& tile) { return tile.longest; }

    void set(const Tile<R>& tile) { s_ = tile.sequence; }
    BCRF_INLINE int lengths() const { return s_->length; }
    static BCRF_INLINE Vec<R> has_token(int, int) { return broadcast<R>(1); }
    static BCRF_INLINE bool all(Vec<R> flags) { return flags[0] > 0; }
    static BCRF_INLINE bool any(Vec<R> flags) { return flags[0] > 0; }
    static BCRF_INLINE Vec<R> sum(Vec<R> v) { return lane_sums<R>(v); }
    static BCRF_INLINE Vec<R> max(Vec<R> v) { return lane_maxima<R>(v); }
    static BCRF_INLINE Vec<R> min(Vec<R> v) { return lane_minima<R>(v); }
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
    int last_end(int before) const { return s_->length - 1 < before ? s_->length - 1 : -1; }
    // Return 1 where token i, or one before, is the last one.
    static BCRF_INLINE Vec<R> ended(int length, int i) { return broadcast(R(length <= i + 1)); }

    // Set a row to the scores of token i. The padding is -inf.
    BCRF_INLINE void load(R* row, int i) {
        const R* from = s_->unary + size_t(i) * tags;
        if (i + TOKENS_AHEAD < s_->length) prefetch(from + TOKENS_AHEAD * tags, tags);
        for (int t = 0; t < vectors * W; t += W) {
            // A difference would keep NaN and inf of the next token, which may be another sequence's.
            const Vec<R> x = load_first(from + t, std::min(W, tags - t), end_);
            store(row + t, BCRF_TARGET::load(padding_ + t) > Vec<R>{} ? broadcast<R>(-infinity<R>) : x);
        }
    }

    // Writes a row of each sequence to the first of `stride` numbers a token.
    struct Writer {
        R* to;
        int tags;
        BCRF_INLINE void put(int v, Vec<R> x) const {
            if (to) store_first(to + v * W, x, std::min(W, tags - v * W));
        }
        BCRF_INLINE void end() const {}
    };
    BCRF_INLINE Writer writer(int i, R* to, size_t stride) const {
        return {to ? to + (s_->first + i) * stride : nullptr, tags};
    }

    struct Sums {
        double sum = 0;
        BCRF_INLINE void add(Vec<R> x) { sum += double(x[0]); }
        void read(double* sums) const { *sums = sum; }
    };
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
