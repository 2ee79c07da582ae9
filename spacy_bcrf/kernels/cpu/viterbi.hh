// The best labeling, by the Viterbi algorithm.
#pragma once

#include "interrupt.hh"
#include "plan.hh"
#include "products.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Transitions of the Viterbi algorithm in a layout.
//
// product(w, out, x, visit) calls visit(v, sum) with each vector of the max-plus product of x and the transitions w of
// an edge. It may use `out`, a row. best_before(w, best, to, ended, arc) returns the tag u with the largest score
// best[u] + w[u, to], the lowest one in a tie, and sets `arc` to that transition. It counts as 0 where `ended` is 1: no
// token follows.
template <class Layout, class N> class ViterbiArcs;

template <class R, class N> class ViterbiArcs<Rows<R>, N> {
    static constexpr int W = lanes<R>;
    const int tags_, width_;
    const bool shared_;
    Buffer<R> forth_, back_;  // (tags, width), its transpose if shared
    Buffer<R> count_;         // 0, 1, .. for each lane

    void load_transitions(const R* w) {
        for (int u = 0; u < tags_; ++u)
            load_row<R, R>(forth_ + size_t(u) * width_, w + size_t(u) * tags_, 0, tags_);
    }
    // Return the tag with the largest score.
    template <class Score> int argmax(Score score) {
        int best = 0;
        for (int t = 1; t < tags_; ++t)
            if (score(t) > score(best)) best = t;
        return best;
    }
    // Return the tag with the largest best[t] + w[t]. The padding of `best` is -inf.
    int argmax_of_sum(const R* best, const R* w) {
        if (tags_ < MIN_VECTOR_ARGMAX_TAGS) return argmax([&](int t) { return best[t] + w[t]; });
        Vec<R> top = broadcast<R>(-infinity<R>), at{}, tag = load(count_.data());
        for (int t = 0; t < width_; t += W, tag += R(W)) {
            const Vec<R> v = load(best + t) + load(w + t);
            at = v > top ? tag : at;
            top = max<R>(top, v);
        }
        const Vec<R> most = broadcast(maximum<R>(top));
        return int(-maximum<R>(top < most ? broadcast<R>(-infinity<R>) : -at));
    }

  public:
    using Tags = int;

    explicit ViterbiArcs(const Batch<R>& batch)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared), forth_(size_t(tags_) * width_),
          back_(shared_ ? size_t(tags_) * width_ : 0), count_(W) {
        for (int k = 0; k < W; ++k) count_[k] = R(k);
        if (!shared_) return;
        load_transitions(batch.transitions);
        std::fill_n(back_.data(), size_t(tags_) * width_, -infinity<R>);
        transpose<R>(back_, forth_, tags_, width_);
    }

    template <class Visit> BCRF_INLINE void product(const R* w, R*, const R* x, Visit visit) {
        if (!shared_) load_transitions(w);
        row_products<N, 1>(&x, forth_.data(), tags_, width_, [&](int, int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
            visit(v, sum);
        });
    }
    int best_before(const R* w, const R* best, int to, Vec<R> ended, Vec<R>& arc) {
        arc = Vec<R>{};
        if (ended[0] > 0) return argmax([&](int t) { return best[t]; });
        // Without sharing, this reads one column of each matrix, so a transpose does not pay.
        const int tag = shared_ ? argmax_of_sum(best, into(to))
                                : argmax([&](int u) { return best[u] + w[size_t(u) * tags_ + to]; });
        arc = broadcast<R>(w[size_t(tag) * tags_ + to]);
        return tag;
    }
    static int tag(Tags tags, int) { return tags; }

    // The shared transitions from each tag into one.
    const R* into(int tag) { return back_ + size_t(tag) * width_; }
};

// Return table[at[k]] in each lane k, for a table of 1 to 4 vectors.
template <int VECTORS, class R> BCRF_INLINE Vec<R> pick(const R* table, IntVec<R> at) {
    constexpr int W = lanes<R>;
    if constexpr (VECTORS == 1) {
        return permute<R>(load(table), at);
    } else if constexpr (VECTORS == 2) {
        return permute<R>(load(table), load(table + W), at);
    } else {
        const Vec<R> low = pick<2>(table, at), high = pick<VECTORS - 2>(table + 2 * W, at);
        return (at & IntOf<R>(2 * W)) != 0 ? high : low;
    }
}

template <class R, class N> class ViterbiArcs<Lanes<R>, N> {
    static constexpr int W = lanes<R>;
    static constexpr int MOST_PICKED = 4;  // vectors of a row of which a lane picks a number without a load
    const int tags_, width_;
    const bool picks_;
    Buffer<R> forth_, back_;  // (tags, width), its transpose
    Buffer<R> into_;          // (tags, W)
    std::vector<TransitionBlock<R>> blocks_;

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

    explicit ViterbiArcs(const Batch<R>& batch)
        : tags_(batch.tags), width_(padded<R>(batch.tags)),
          picks_(BCRF_VECTOR_BYTES > 16 && width_ <= MOST_PICKED * W), forth_(size_t(tags_) * width_),
          back_(size_t(tags_) * width_), into_(size_t(tags_) * W) {
        for (int u = 0; u < tags_; ++u)
            load_row<R, R>(forth_ + size_t(u) * width_, batch.transitions + size_t(u) * tags_, 0, tags_);
        transpose<R>(back_, forth_, tags_, width_);
        if (are_blocks_faster(batch))
            blocks_ = transition_blocks<R>(
                batch, false, [&](size_t u, size_t v) { return batch.transitions[u * tags_ + v]; });
    }

    template <class Visit> BCRF_INLINE void product(const R*, R* out, const R* x, Visit visit) {
        if (blocks_.empty()) return lane_product<N>(x, W, forth_.data(), tags_, tags_, width_, visit);
        lane_block_products<N>(out, x, W, blocks_);
        for (int v = 0; v < tags_; ++v) visit(v, load(out + v * W));
    }
    BCRF_INLINE IntVec<R> best_before(const R*, const R* best, IntVec<R> to, Vec<R> ended, Vec<R>& arc) {
        IntVec<R> found{};
        if (picks_) {
            const R* forth = forth_.data();
            for_vectors<MOST_PICKED>(width_ / W, [&](auto vectors, int) BCRF_INLINE_LAMBDA {
                constexpr int VECTORS = vectors.value;
                found = argmax(best, ended, arc, [&](int u) BCRF_INLINE_LAMBDA {
                    return pick<VECTORS>(forth + size_t(u) * (VECTORS * W), to);
                });
            });
        } else {
            const R* rows[W];
            for (int k = 0; k < W; ++k) rows[k] = back_ + size_t(to[k]) * width_;
            pack<R, R>(into_, W, rows, back_ + size_t(tags_) * width_, tags_);
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
template <class L, class N> class Viterbi {
  public:
    using R = typename N::R;
    using Tile = typename L::Tile;

  protected:
    static constexpr int W = lanes<R>;
    static constexpr int CHECKED = 1024;  // tokens between two looks at the signals
    L layout_;
    const int vectors_;
    const size_t row_;
    ViterbiArcs<L, N> arcs_;
    Buffer<R> best_, unary_;  // (longest, row), (row)

    R* at(int i) { return best_ + size_t(i) * row_; }

    // Set the scores of token i, and return the largest. Not inlined: the product needs the registers.
    BCRF_NOINLINE Vec<R> step(const Tile& tile, int i) {
        R *best = at(i), *unary = i ? unary_.data() : best;
        Vec<R> top = broadcast<R>(-infinity<R>);
        layout_.load(unary, tile, i);
        if (i == 0)
            for (int v = 0; v < vectors_; ++v) top = max<R>(top, load(best + v * W));
        else
            arcs_.product(tile.sequence[0].edge(i - 1), best, at(i - 1), [&](int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
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
    Vec<R> fill(const Tile& tile) {
        const auto lengths = L::lengths(tile);
        Vec<R> bad{};
        for (int i = 0; i < tile.longest; ++i) {
            if (i % CHECKED == CHECKED - 1) check_signals();
            const Vec<R> top = step(tile, i);
            bad = top > -infinity<R> ? bad : bad + L::live(lengths, i).ones();
            if (!L::IN_LANES && L::any(bad)) break;
        }
        return bad;
    }

    // Write the labelings to `tags` (N), and the scores of the tile's sequences.
    void trace(const Tile& tile, int* tags, double* scores) {
        const auto lengths = L::lengths(tile);
        const R* unary[W];  // of the current token
        int* next[W];       // the tag of the next one
        for (int k = 0; k < tile.size; ++k) {
            const Sequence<R>& s = tile.sequence[k];
            unary[k] = s.unary + size_t(s.length - 1) * s.tags;
            next[k] = tags + s.first + s.length;
        }
        int live = 0;  // sequences that have the token; the longest come first
        typename L::Sums score;
        typename ViterbiArcs<L, N>::Tags found{};
        for (int i = tile.longest - 1; i >= 0; --i) {
            if (i % CHECKED == CHECKED - 1) check_signals();
            if (!L::IN_LANES && i >= TOKENS_AHEAD) {
                prefetch(at(i - TOKENS_AHEAD), row_);
                prefetch(unary[0] - TOKENS_AHEAD * layout_.tags, layout_.tags);
            }
            Vec<R> arc{};
            found = arcs_.best_before(tile.sequence[0].edge(i), at(i), found, L::ended(lengths, i), arc);
            R own[W] = {};
            while (live < tile.size && i < tile.sequence[live].length) ++live;
            for (int k = 0; k < live; ++k) {
                const int tag = ViterbiArcs<L, N>::tag(found, k);
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
    Viterbi(const Batch<R>& batch, int longest)
        : layout_(batch), vectors_(layout_.vectors), row_(size_t(vectors_) * W), arcs_(batch),
          best_(longest * row_, Fill::NONE), unary_(row_) {}

    // Write the best labelings to `tags` (N), and their scores (size): zeros and -inf if there is none.
    void run(const Tile& tile, int* tags, R* scores) {
        const Vec<R> bad = fill(tile);
        double found[W] = {};
        if (!L::all(bad + L::unused(tile))) trace(tile, tags, found);
        for (int k = 0; k < tile.size; ++k) {
            const Sequence<R>& s = tile.sequence[k];
            scores[s.index] = bad[k] > 0 ? -infinity<R> : R(found[k]);
            if (bad[k] > 0) std::fill_n(tags + s.first, s.length, 0);
        }
    }
};

template <class R> void max_product(const Batch<R>& batch, int* tags, R* scores) {
    run_plan<R, SequenceLayouts>(
        batch, batch.sequences(), shape_of(batch, Operation::MAX_PRODUCT, 0),
        [&](auto layout, auto number, const auto& tiles, char*) {
            using Layout = typename decltype(layout)::type;
            using Search = Viterbi<Layout, Tropical<R>>;
            // No plan has wide numbers.
            if constexpr (decltype(number)::type::PARTS == 1)
                for_each_tile(
                    batch, tiles, (Layout::IN_LANES ? 0.3 : 2) * pass(batch), nullptr,
                    [&] { return Search(batch, longest(tiles)); },
                    [&](Search& search, const auto& tile, double*) { search.run(tile, tags, scores); },
                    [](Search&, double*) {});
        },
        [](const std::vector<Sequence<R>>&) {});
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
