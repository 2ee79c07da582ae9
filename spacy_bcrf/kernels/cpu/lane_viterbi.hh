// The Viterbi algorithm with sequences in the lanes of vectors.
#pragma once

#include "lanes.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

// See Viterbi for the algorithm. The operations on each score are the same, so the labelings are.
template <class R> class LaneViterbi {
    static constexpr int W = lanes<R>;
    // Rows of transitions are padded, so no load is out of range.
    static inline const R* const ANYWHERE = reinterpret_cast<const R*>(~std::uintptr_t(0));
    const Batch<R>& batch_;
    const int tags_, width_;
    const size_t row_;
    const R* const end_;  // of the scores
    Buffer<R> best_;                  // (longest, tags, W)
    Buffer<R> unary_, from_;          // (tags, W)
    Buffer<R> forth_, back_;          // (tags, width): the transitions, and their transpose
    Buffer<R> nothing_;               // (width)
    LaneSums<R> score_;
    std::vector<TransitionBlock<R>> blocks_;

    // Set the scores of the best prefixes, and return in each lane whether there is one.
    Vec<R> fill(const Group<R>& g, Vec<R> lengths) {
        const R lowest = std::numeric_limits<R>::lowest();
        const R* rows[W];
        Vec<R> feasible = broadcast<R>(1);
        for (int i = 0; i < g.longest; ++i) {
            R* best = best_ + i * row_;
            g.template rows<const R>(rows, batch_.unary, tags_, i, nothing_.data());
            pack(i ? unary_.data() : best, W, rows, end_, tags_);
            Vec<R> top = broadcast<R>(lowest);
            if (i == 0) {
                for (int t = 0; t < tags_; ++t) top = max<R>(top, load(best + t * W));
            } else {
                if (blocks_.empty())
                    lane_product<MaxPlus>(best, W, best - row_, W, forth_.data(), tags_, tags_, width_);
                else
                    lane_block_products<MaxPlus>(best, W, best - row_, W, blocks_);
                for (int t = 0; t < tags_; ++t) {
                    const Vec<R> v = load(best + t * W) + load(unary_ + t * W);
                    top = max<R>(top, v);
                    store(best + t * W, v);
                }
                for (int t = 0; t < tags_; ++t) store(best + t * W, load(best + t * W) - top);
            }
            const Vec<R> live = broadcast(R(i)) < lengths ? feasible : Vec<R>{};
            feasible = top > broadcast<R>(lowest) ? feasible : feasible - live;
        }
        return feasible;
    }

  public:
    LaneViterbi(const Batch<R>& batch, const R* end, int longest)
        : batch_(batch), tags_(batch.tags), width_(padded<R>(batch.tags)),
          row_(size_t(batch.tags) * W), end_(end), best_(longest * row_), unary_(row_), from_(row_),
          forth_(size_t(tags_) * width_), back_(size_t(tags_) * width_), nothing_(width_) {
        for (int u = 0; u < tags_; ++u)
            load_row<R, R>(forth_ + size_t(u) * width_, batch.transitions + size_t(u) * tags_, 0, tags_);
        transpose<R>(back_, forth_, tags_, width_);
        if (are_blocks_faster(batch))
            blocks_ = transition_blocks<R>(
                batch, false, [&](size_t u, size_t v) { return batch.transitions[u * tags_ + v]; });
    }

    void run(const Group<R>& g, int* tags, R* scores) {
        const Vec<R> lengths = g.lengths();
        R feasible[W];
        store(feasible, fill(g, lengths));
        switch (width_ / W <= MOST_PICKED ? width_ / W : 0) {
#if BCRF_VECTOR_BYTES > 16
            case 1: trace<1>(g, lengths, tags); break;
            case 2: trace<2>(g, lengths, tags); break;
            case 3: trace<3>(g, lengths, tags); break;
            case 4: trace<4>(g, lengths, tags); break;
#endif
            default: trace<0>(g, lengths, tags);
        }
        double score[W];
        score_.read(score);
        for (int k = 0; k < g.size; ++k) {
            const Place place = g.place[k];
            scores[place.index] = feasible[k] > 0 ? R(score[k]) : -infinity<R>;
            if (!(feasible[k] > 0)) std::fill_n(tags + place.first, g.length[k], 0);
        }
    }

  private:
    // Write the labelings, and add up their scores. VECTORS: the vectors of a row of transitions, or
    // 0 if `pick` does not have so many.
    template <int VECTORS> void trace(const Group<R>& g, Vec<R> lengths, int* tags) {
        const int n = tags_;
        const R* forth = forth_.data();
        const R* scores[W];  // of the current token
        int* out[W];         // the tag of the next one
        for (int k = 0; k < g.size; ++k) {
            scores[k] = batch_.unary + g.first[k] + size_t(g.length[k] - 1) * n;
            out[k] = tags + g.place[k].first + g.length[k];
        }
        int live = 0;  // sequences that have the token; the longest come first
        score_ = LaneSums<R>();
        IntVec<R> to{};
        for (int i = g.longest - 1; i >= 0; --i) {
            const R* best = best_ + i * row_;
            const Vec<R> inner = broadcast(R(i + 1)) < lengths ? broadcast<R>(1) : Vec<R>{};
            if constexpr (VECTORS == 0) {
                IntOf<R> at[W];
                std::memcpy(at, &to, sizeof at);
                const R* rows[W];
                for (int k = 0; k < W; ++k) rows[k] = back_ + size_t(at[k]) * width_;
                pack(from_.data(), W, rows, ANYWHERE, n);
            }
            const R* from = from_.data();
            Vec<R> top = broadcast<R>(-infinity<R>), arc{};
            IntVec<R> at{};
            for (int u = 0; u < n; ++u) {
                Vec<R> x;
                if constexpr (VECTORS == 0)
                    x = load(from + u * W);
                else
                    x = pick<VECTORS>(forth + size_t(u) * (VECTORS * W), to);
                x = inner > Vec<R>{} ? x : Vec<R>{};
                const Vec<R> v = load(best + u * W) + x;
                const auto more = v > top;
                at = more ? IntVec<R>{} + u : at;
                arc = more ? x : arc;
                top = more ? v : top;
            }
            to = at;
            IntOf<R> tag[W];
            std::memcpy(tag, &at, sizeof tag);
            R own[W] = {};
            while (live < g.size && i < g.length[live]) ++live;
            for (int k = 0; k < live; ++k) {
                own[k] = scores[k][tag[k]];
                scores[k] -= n;
                *--out[k] = int(tag[k]);
            }
            score_.add(arc);
            score_.add(load(own));
        }
    }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
