// The best labeling, by the Viterbi algorithm.
#pragma once

#include "for_each_sequence.hh"
#include "lane_viterbi.hh"
#include "products.hh"

namespace bcrf {
namespace BCRF_TARGET {

// `best` (length, width) is the score of the best prefix that ends in each tag, minus the largest
// one at the token. There are no back-pointers: finding a predecessor afterwards costs O(T).
template <class R> class Viterbi {
  protected:
    int tags_, width_;
    bool shared_;
    Buffer<R> best_, forth_, back_;  // (longest, width), (tags, width), its transpose if shared

    void load(const R* w) {
        for (int u = 0; u < tags_; ++u)
            load_row<R, R>(forth_ + size_t(u) * width_, w + size_t(u) * tags_, 0, tags_);
        // Without sharing, the traceback reads one column of each matrix, so a transpose does not
        // pay.
        if (shared_) transpose<R>(back_, forth_, tags_, width_);
    }

    R* at(int i) { return best_ + size_t(i) * width_; }

    // Add a token's scores and subtract the maximum. Return false if all are -inf.
    bool step(R* best, const R* unary) {
        R top = -infinity<R>;
        for (int t = 0; t < tags_; ++t) {
            best[t] += unary[t];
            top = best[t] > top ? best[t] : top;
        }
        if (top == -infinity<R>) return false;
        for (int t = 0; t < tags_; ++t) best[t] -= top;
        return true;
    }

    // Return the tag with the largest score, the lowest one in a tie.
    template <class Score> int argmax(Score score) {
        int best = 0;
        for (int t = 1; t < tags_; ++t)
            if (score(t) > score(best)) best = t;
        return best;
    }

  public:
    Viterbi(const Batch<R>& batch, int longest)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared),
          best_(size_t(longest) * width_), forth_(size_t(batch.tags) * width_),
          back_(size_t(batch.tags) * width_) {
        if (shared_) load(batch.transitions);
    }

    // Return false if there is no allowed labeling.
    bool fill(const Sequence<R>& s) {
        load_row<R, R>(at(0), s.unary, 0, tags_);
        for (int i = 1; i < s.length; ++i) {
            if (!shared_) load(s.edge(i - 1));
            product<MaxPlus>(at(i), at(i - 1), (const R*)forth_, tags_, width_);
            if (!step(at(i), s.unary + size_t(i) * tags_)) return false;
            if (i % 1024 == 0) check_signals();
        }
        return largest(at(s.length - 1), tags_) > -infinity<R>;
    }

    // Write the best labeling to `tags` and return its score, or -inf if there is none.
    double run(const Sequence<R>& s, int* tags) {
        if (!fill(s)) return -infinity<double>;
        double score = 0;
        const R* last = at(s.length - 1);
        int tag = argmax([&](int t) { return last[t]; });
        for (int i = s.length - 1;; --i) {
            tags[i] = tag;
            score += s.unary[size_t(i) * tags_ + tag];
            if (i == 0) break;
            const R *best = at(i - 1), *w = shared_ ? back_ + size_t(tag) * width_ : nullptr;
            const R* edge = s.edge(i - 1);
            const int to = tag;
            tag = w ? argmax([&](int u) { return best[u] + w[u]; })
                    : argmax([&](int u) { return best[u] + edge[size_t(u) * tags_ + to]; });
            score += edge[size_t(tag) * tags_ + to];
        }
        return score;
    }
};

template <class R>
void max_product(const Batch<R>& batch, int* tags, R* scores) {
    std::vector<Place> which = places(batch);
#if defined(__GNUC__)
    if (batch.shared) {
        // No sums need registers, so lanes are faster up to more tags.
        const bool many = BCRF_VECTOR_BYTES == 64 && batch.tags >= 32 && batch.tags < 64;
        const double share = many ? 0.45 : lane_share<R>(batch.tags, 32);
        const auto groups = group<R>(batch, which, share, LANE_LENGTH);
        const R* end = batch.unary + batch.tokens() * batch.tags;
        for_each_item(
            batch, groups.size(), [&](size_t i) { return groups[i].tokens; }, 0.3 * pass(batch),
            nullptr, [&] { return LaneViterbi<R>(batch, end, groups[0].longest); },
            [&](LaneViterbi<R>& chain, size_t i, double*) { chain.run(groups[i], tags, scores); },
            [](LaneViterbi<R>&, double*) {});
    }
#endif
    for_each_sequence(
        batch, which, 2 * pass(batch), nullptr,
        [&] { return Viterbi<R>(batch, batch.longest()); },
        [&](Viterbi<R>& chain, const Sequence<R>& s, double*) {
            scores[s.index] = R(chain.run(s, tags + s.first));
        },
        [](Viterbi<R>&, double*) {});
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
