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
    Buffer<std::int32_t> found_;      // (longest, W)

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
                lane_product<MaxPlus>(best, W, best - row_, W, forth_.data(), tags_, width_);
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
          forth_(size_t(tags_) * width_), back_(size_t(tags_) * width_), nothing_(width_),
          found_(size_t(longest) * W) {
        for (int u = 0; u < tags_; ++u)
            load_row<R, R>(forth_ + size_t(u) * width_, batch.transitions + size_t(u) * tags_, 0, tags_);
        transpose<R>(back_, forth_, tags_, width_);
    }

    void run(const Group<R>& g, int* tags, R* scores) {
        const Vec<R> lengths = g.lengths();
        R feasible[W];
        store(feasible, fill(g, lengths));
        double score[W] = {};
        std::int32_t to[W] = {};
        for (int i = g.longest - 1; i >= 0; --i) {
            const R* best = best_ + i * row_;
            const R* rows[W];
            for (int k = 0; k < W; ++k)
                rows[k] = i + 1 < g.length[k] ? back_ + size_t(to[k]) * width_ : nothing_.data();
            pack(from_.data(), W, rows, ANYWHERE, tags_);
            Vec<R> top = load(best) + load(from_.data());
            IntVec<R> at{};
            for (int u = 1; u < tags_; ++u) {
                const Vec<R> v = load(best + u * W) + load(from_ + u * W);
                at = v > top ? IntVec<R>{} + u : at;
                top = max<R>(v, top);
            }
            IntOf<R> tag[W];
            std::memcpy(tag, &at, sizeof at);
            for (int k = 0; k < g.size; ++k) {
                if (i >= g.length[k]) continue;
                const int t = int(tag[k]);
                if (i + 1 < g.length[k]) score[k] += batch_.transitions[size_t(t) * tags_ + to[k]];
                score[k] += batch_.unary[(g.place[k].first + i) * tags_ + t];
                found_[size_t(i) * W + k] = to[k] = t;
            }
        }
        for (int k = 0; k < g.size; ++k) {
            scores[g.place[k].index] = feasible[k] > 0 ? R(score[k]) : -infinity<R>;
            if (!(feasible[k] > 0)) continue;
            int* out = tags + g.place[k].first;
            for (int i = 0; i < g.length[k]; ++i) out[i] = found_[size_t(i) * W + k];
        }
    }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
