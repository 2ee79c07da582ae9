// The best labeling, by the Viterbi algorithm.
#pragma once

#include "interrupt.hh"
#include "transitions.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The predecessors of a labeling in a layout, given transitions k.
//
// find(w, best, to, ended, arc) returns the tag u with the largest score best[u] + w[u, to], the lowest one in a tie, and
// sets `arc` to that transition of the edge w. It counts as 0 where `ended` is 1: no token follows.
template <class Layout> class Predecessors;

template <class R> class Predecessors<Rows<R>> {
    static constexpr int W = lanes<R>;
    Transitions<Rows<R>, Tropical<R>>& k_;
    const int tags_;
    const bool shared_;
    Buffer<R> count_;          // 0, 1, .. for each lane
    Buffer<R> into_, nothing_;  // (width): transitions into a tag, and zeros

    // Return the tag with the largest best[t] + w[t]. The padding of `best` is -inf.
    int argmax(const R* best, const R* w) {
        Vec<R> top = broadcast<R>(-infinity<R>), at{}, tag = load(count_.data());
        for (int t = 0; t < tags_; t += W, tag += R(W)) {
            const Vec<R> v = load(best + t) + load(w + t);
            at = v > top ? tag : at;
            top = max<R>(top, v);
        }
        const Vec<R> most = broadcast(maximum<R>(top));
        return int(minimum<R>(top < most ? broadcast(infinity<R>) : at));
    }

  public:
    using Tags = int;

    Predecessors(const Batch<R>& batch, Transitions<Rows<R>, Tropical<R>>& k)
        : k_(k), tags_(batch.tags), shared_(batch.shared), count_(W), into_(k.width), nothing_(k.width) {
        for (int i = 0; i < W; ++i) count_[i] = R(i);
    }

    // Return the transitions (width) into a tag.
    const R* into(const R* w, int to) {
        if (shared_) return k_.matrix(0, true) + size_t(to) * k_.width;
        for (int u = 0; u < tags_; ++u) into_[u] = w[size_t(u) * tags_ + to];
        return into_;
    }
    int find(const R* w, const R* best, int to, Vec<R> ended, Vec<R>& arc) {
        const R* row = ended[0] > 0 ? nothing_.data() : into(w, to);
        const int tag = argmax(best, row);
        arc = broadcast<R>(row[tag]);
        return tag;
    }
    static int tag(Tags tags, int) { return tags; }
};

// Return table[at[k]] in each lane k, for a table of 1 to 4 vectors.
template <int VECTORS, class R> BCRF_INLINE Vec<R> pick(const R* table, IntVec<R> at) {
    if constexpr (VECTORS == 1) {
        return permute<R>(load(table), at);
    } else {
        constexpr int LOW = VECTORS > 2 ? 2 : 1, PLACES = LOW * lanes<R>;
        const Vec<R> low = pick<LOW>(table, at), high = pick<VECTORS - LOW>(table + PLACES, at);
        return (at & IntOf<R>(PLACES)) != 0 ? high : low;
    }
}

template <class R> class Predecessors<Lanes<R>> {
    static constexpr int W = lanes<R>;
    static constexpr int MOST_PICKED = 4;  // vectors of a row of which a lane picks a number without a load
    const int tags_, width_;
    const bool picks_;
    const R *forth_, *back_;
    Buffer<R> into_;  // (tags, W)

    // Find the best tag if x(u) are the transitions from tag u.
    template <class From> BCRF_INLINE IntVec<R> argmax(const R* best, Vec<R> ended, Vec<R>& arc, From x) {
        Vec<R> top = broadcast<R>(-infinity<R>), found{};
        const Vec<R> none{};
        IntVec<R> at{};
        for (int u = 0; u < tags_; ++u) {
            const Vec<R> w = ended > none ? none : x(u), v = load(best + u * W) + w;
            const auto more = v > top;
            at = more ? IntVec<R>{} + u : at;
            found = more ? w : found;
            top = more ? v : top;
        }
        arc = found;
        return at;
    }

  public:
    using Tags = IntVec<R>;

    Predecessors(const Batch<R>& batch, Transitions<Lanes<R>, Tropical<R>>& k)
        : tags_(batch.tags), width_(k.width), picks_(BCRF_VECTOR_BYTES > 16 && width_ <= MOST_PICKED * W),
          forth_(k.matrix(0, false)), back_(k.matrix(0, true)), into_(size_t(tags_) * W) {}

    BCRF_INLINE IntVec<R> find(const R*, const R* best, IntVec<R> to, Vec<R> ended, Vec<R>& arc) {
        IntVec<R> found{};
        if (picks_) {
            with_constant<MOST_PICKED>(width_ / W, [&](auto vectors) BCRF_INLINE_LAMBDA {
                constexpr int VECTORS = vectors.value;
                found = argmax(best, ended, arc, [&](int u) BCRF_INLINE_LAMBDA {
                    return pick<VECTORS>(forth_ + size_t(u) * (VECTORS * W), to);
                });
            });
        } else {
            const R* rows[W];
            for (int k = 0; k < W; ++k) rows[k] = back_ + size_t(to[k]) * width_;
            pack<R>(into_, W, rows, back_ + size_t(tags_) * width_, tags_);
            const R* into = into_.data();
            found = argmax(best, ended, arc, [&](int u) BCRF_INLINE_LAMBDA { return load(into + u * W); });
        }
        return found;
    }
    static BCRF_INLINE int tag(Tags tags, int k) { return int(tags[k]); }
};

// `best` is the score of the best prefix that ends in each tag, minus the largest one at the token. There are no
// back-pointers: finding a predecessor afterwards costs O(T). The operations on each score are the same in both
// layouts, so the labelings are.
template <class L, class R> class Viterbi {
  protected:
    static constexpr int W = lanes<R>;
    L layout_;
    const int vectors_;
    const size_t row_;
    Transitions<L, Tropical<R>> k_;
    Predecessors<L> predecessors_;
    Buffer<R> best_, unary_;  // (longest, row), (row)

    R* at(int i) { return best_ + size_t(i) * row_; }

    // Set the scores of token i, and return the largest. Not inlined: the product needs the registers.
    BCRF_NOINLINE Vec<R> step(const Sequence<R>& s, int i) {
        R *best = at(i), *unary = i ? unary_.data() : best;
        Vec<R> top = broadcast<R>(-infinity<R>);
        layout_.load(unary, i);
        if (i > 0 && !s.shared) k_.set(0, s.edge(i - 1));
        if (i == 0)
            for (int v = 0; v < vectors_; ++v) top = max<R>(top, load(best + v * W));
        else
            k_.product(0, at(i - 1), W, 0, false, [&](int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
                const Vec<R> x = sum + load(unary + v * W);
                top = max<R>(top, x);
                store(best + v * W, x);
            });
        top = L::max(top);
        const Vec<R> shift = i ? max<R>(top, broadcast(std::numeric_limits<R>::lowest())) : Vec<R>{};
        for (int v = 0; v < vectors_; ++v) store(best + v * W, load(best + v * W) - shift);
        return top;
    }

    // Set the scores of the best prefixes. Return 1 or more for each sequence that has none at some token.
    Vec<R> fill(const Tile<R>& tile) {
        layout_.set(tile);
        const auto lengths = layout_.lengths();
        Vec<R> infeasible{};
        for (int i = 0; i < tile.longest; ++i) {
            if (i % TOKENS_A_CHECK == TOKENS_A_CHECK - 1) check_signals();
            const Vec<R> top = step(tile.sequence[0], i);
            infeasible = top > -infinity<R> ? infeasible : infeasible + L::has_token(lengths, i);
            if (!L::IN_LANES && L::any(infeasible)) break;
        }
        return infeasible;
    }

    // Write the labelings to `tags` (N), and the scores of the tile's sequences.
    void trace(const Tile<R>& tile, int* tags, double* scores) {
        const auto lengths = layout_.lengths();
        const R* unary[W];  // of the current token
        int* next[W];       // the tag of the next one
        for (int k = 0; k < tile.size; ++k) {
            const Sequence<R>& s = tile.sequence[k];
            unary[k] = s.unary + size_t(s.length - 1) * s.tags;
            next[k] = tags + s.first + s.length;
        }
        int with_token = 0;  // sequences that have the token; the longest come first
        typename L::Sums score;
        typename Predecessors<L>::Tags found{};
        for (int i = tile.longest - 1; i >= 0; --i) {
            if (i % TOKENS_A_CHECK == TOKENS_A_CHECK - 1) check_signals();
            Vec<R> arc{};
            found = predecessors_.find(tile.sequence[0].edge(i), at(i), found, L::ended(lengths, i), arc);
            R own[W] = {};
            while (with_token < tile.size && i < tile.sequence[with_token].length) ++with_token;
            for (int k = 0; k < with_token; ++k) {
                const int tag = Predecessors<L>::tag(found, k);
                own[k] = unary[k][tag];
                unary[k] -= layout_.tags;
                *--next[k] = tag;
            }
            score.add(arc);
            score.add(load(own));
        }
        score.read(scores);
    }

  public:
    // longest: the most tokens of a tile.
    Viterbi(const Batch<R>& batch, const Shape& shape, int longest)
        : layout_(batch), vectors_(layout_.vectors), row_(size_t(vectors_) * W), k_(batch, shape, 1), predecessors_(batch, k_),
          best_(longest * row_, Fill::NONE), unary_(row_) {}

    // Write the best labelings to `tags` (N), and their scores (size): zeros and -inf if there is none.
    void run(const Tile<R>& tile, int* tags, R* scores) {
        const Vec<R> infeasible = fill(tile);
        double found[W] = {};
        if (!L::all(infeasible)) trace(tile, tags, found);
        for (int k = 0; k < tile.size; ++k) {
            const Sequence<R>& s = tile.sequence[k];
            scores[s.index] = infeasible[k] > 0 ? -infinity<R> : R(found[k]);
            if (infeasible[k] > 0) std::fill_n(tags + s.first, s.length, 0);
        }
    }
};

template <class R> void max_product(const Batch<R>& batch, int* tags, R* scores) {
    const Shape shape = shape_of(batch, {Operation::MAX_PRODUCT}, 0);
    run_plan<Rows, Lanes>(
        batch, batch.sequences(), shape,
        [&](auto layout, auto, const auto& tiles, char*) {
            using Layout = typename decltype(layout)::type;
            using Search = Viterbi<Layout, R>;
            for_each_tile(
                batch, tiles, 2 * pass(batch), nullptr,
                [&] { return Search(batch, shape, int(largest_room<Layout>(tiles))); },
                [&](Search& search, const Tile<R>& tile, double*) { search.run(tile, tags, scores); });
        },
        nullptr);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
