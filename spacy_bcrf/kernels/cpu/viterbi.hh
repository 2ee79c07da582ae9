// The best labeling, by the Viterbi algorithm.
#pragma once

#include "features.hh"
#include "for_each_sequence.hh"
#include "lane_viterbi.hh"
#include "prefetch.hh"
#include "products.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A long sequence in two halves, [0, middle) and [middle, length). In the first half, `best` has the score
// of the best prefix that ends in each tag of a token. In the second half, it has the score of the best
// suffix that starts with the tag. The largest score at a token is subtracted.
template <class R> struct ViterbiHalves {
    Sequence<R> s;
    int middle;
    Buffer<R> best[2];  // (tokens, width)
    bool feasible[2] = {true, true};
    double score[2] = {0, 0};

    ViterbiHalves(const Sequence<R>& sequence, int width)
        : s(sequence), middle(s.length / 2),
          best{Buffer<R>(size_t(middle) * width), Buffer<R>(size_t(s.length - middle) * width)} {}

    int tokens(int half) const { return half ? s.length - middle : middle; }
};

// `best` (length, width) is the score of the best prefix that ends in each tag, minus the largest
// one at the token. There are no back-pointers: finding a predecessor afterwards costs O(T).
template <class R> class Viterbi {
  protected:
    int tags_, width_;
    bool shared_;
    const R* end_;  // of the scores
    Buffer<R> best_, forth_, back_;  // (longest, width), (tags, width), its transpose if shared
    Buffer<R> numbers_;              // 0, 1, .. for each lane

    void load_transitions(const R* w) {
        for (int u = 0; u < tags_; ++u)
            load_row<R, R>(forth_ + size_t(u) * width_, w + size_t(u) * tags_, 0, tags_);
        // Without sharing, the traceback reads one column of each matrix, so a transpose does not
        // pay.
        if (!shared_) return;
        std::fill_n(back_.data(), size_t(tags_) * width_, -infinity<R>);
        transpose<R>(back_, forth_, tags_, width_);
    }

    R* at(int i) { return best_ + size_t(i) * width_; }

    // Compute the scores of a token from the scores of its neighbour and the transitions `w` between
    // them. Subtract the maximum. Return false if all scores are -inf.
    bool step(R* best, const R* neighbour, const R* w, const R* unary) {
        product<MaxPlus>(best, neighbour, w, tags_, width_);
        Vec<R> tops = broadcast<R>(-infinity<R>);
        for (int t = 0; t < width_; t += lanes<R>) {
            const Vec<R> v = load(best + t) + load_first<R>(unary + t, std::min(lanes<R>, tags_ - t), end_);
            store(best + t, v);
            tops = max<R>(tops, v);
        }
        const R top = maximum<R>(tops);
        if (top == -infinity<R>) return false;
        for (int t = 0; t < width_; t += lanes<R>) store(best + t, load(best + t) - top);
        return true;
    }

    // Set the scores of the best prefixes of the first n tokens. Return false if a token has none.
    bool fill(const Sequence<R>& s, int n, R* best) {
        load_row<R, R>(best, s.unary, 0, tags_);
        for (int i = 1; i < n; ++i, best += width_) {
            if (i + TOKENS_AHEAD < n) prefetch(s.unary + size_t(i + TOKENS_AHEAD) * tags_, tags_);
            if (!shared_) load_transitions(s.edge(i - 1));
            if (!step(best + width_, best, forth_, s.unary + size_t(i) * tags_)) return false;
            if (i % 1024 == 0) check_signals();
        }
        return largest(best, tags_) > -infinity<R>;
    }

    // Set the scores of the best suffixes of tokens from `first` on.
    bool fill_suffixes(const Sequence<R>& s, int first, R* best) {
        best += size_t(s.length - 1 - first) * width_;
        load_row<R, R>(best, s.unary + size_t(s.length - 1) * tags_, 0, tags_);
        for (int i = s.length - 2; i >= first; --i, best -= width_) {
            if (i >= TOKENS_AHEAD) prefetch(s.unary + size_t(i - TOKENS_AHEAD) * tags_, tags_);
            if (!step(best - width_, best, back_, s.unary + size_t(i) * tags_)) return false;
            if (i % 1024 == 0) check_signals();
        }
        return largest(best, tags_) > -infinity<R>;
    }

    // Return the tag with the largest score, the lowest one in a tie.
    template <class Score> int argmax(Score score) {
        int best = 0;
        for (int t = 1; t < tags_; ++t)
            if (score(t) > score(best)) best = t;
        return best;
    }

    // Return the best tag next to a tag, the lowest one in a tie. w: the transitions between them by tag.
    // The padding of `best` is -inf.
    int best_neighbour(const R* best, const R* w) {
        // Reductions over lanes take longer than a few comparisons.
        if (tags_ < 12) return argmax([&](int t) { return best[t] + w[t]; });
        Vec<R> top = broadcast<R>(-infinity<R>), at{}, tag = load(numbers_.data());
        for (int t = 0; t < width_; t += lanes<R>, tag += R(lanes<R>)) {
            const Vec<R> v = load(best + t) + load(w + t);
            at = v > top ? tag : at;
            top = max<R>(top, v);
        }
        const Vec<R> most = broadcast(maximum<R>(top));
        return int(-maximum<R>(top < most ? broadcast<R>(-infinity<R>) : -at));
    }

    const R* into(int tag) { return back_ + size_t(tag) * width_; }
    const R* out_of(int tag) { return forth_ + size_t(tag) * width_; }

  public:
    Viterbi(const Batch<R>& batch, int longest)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared),
          end_(batch.unary + batch.tokens() * batch.tags), best_(size_t(longest) * width_),
          forth_(size_t(batch.tags) * width_), back_(size_t(batch.tags) * width_), numbers_(lanes<R>) {
        for (int k = 0; k < lanes<R>; ++k) numbers_[k] = R(k);
        if (shared_) load_transitions(batch.transitions);
    }

    bool fill(const Sequence<R>& s) { return fill(s, s.length, best_); }

    // Write the best labeling to `tags` and return its score, or -inf if there is none.
    double run(const Sequence<R>& s, int* tags) {
        if (!fill(s)) return -infinity<double>;
        const R* last = at(s.length - 1);
        trace(s, s.length - 1, argmax([&](int t) { return last[t]; }), best_, tags);
        return path_score(s, tags, 0, s.length);
    }

    // Write the best labeling of tokens [0, i] in which token i has this tag.
    void trace(const Sequence<R>& s, int i, int tag, const R* best, int* tags) {
        for (;; --i) {
            tags[i] = tag;
            if (i == 0) return;
            const R *before = best + size_t(i - 1) * width_, *edge = s.edge(i - 1);
            if (i > TOKENS_AHEAD) prefetch(before - TOKENS_AHEAD * width_, width_);
            const int to = tag;
            tag = shared_ ? best_neighbour(before, into(to))
                          : argmax([&](int u) { return before[u] + edge[size_t(u) * tags_ + to]; });
        }
    }

    // Set the scores of a half, from its end of the sequence to the middle.
    void go_to_middle(ViterbiHalves<R>& h, int half) {
        h.feasible[half] = half == 0 ? fill(h.s, h.middle, h.best[0]) : fill_suffixes(h.s, h.middle, h.best[1]);
    }

    // Write the labeling of a half, from the middle to its end of the sequence.
    void leave_middle(ViterbiHalves<R>& h, int half, int* tags) {
        Buffer<R> row(width_);
        const R *before = h.best[0] + size_t(h.middle - 1) * width_, *after = h.best[1];
        product<MaxPlus>(row.data(), before, (const R*)forth_, tags_, width_);
        int tag = best_neighbour(after, row);
        if (after[tag] + row[tag] == -infinity<R>) {
            h.score[half] = -infinity<double>;
            return;
        }
        const int last = best_neighbour(before, into(tag));
        if (half == 0) {
            trace(h.s, h.middle - 1, last, h.best[0], tags);
            h.score[0] = path_score(h.s, tags, 0, h.middle);
            return;
        }
        h.score[1] = into(tag)[last];
        tags[h.middle] = tag;
        for (int i = h.middle + 1; i < h.s.length; ++i) {
            after += width_;
            if (i + TOKENS_AHEAD < h.s.length) prefetch(after + TOKENS_AHEAD * width_, width_);
            tags[i] = best_neighbour(after, out_of(tags[i - 1]));
        }
        h.score[1] += path_score(h.s, tags, h.middle, h.s.length);
    }
};

// Find the best labelings of long sequences with shared transitions in halves, like sum_product_long.
template <class R>
void max_product_long(const Batch<R>& batch, const std::vector<Place>& which, int* tags, R* scores) {
    std::vector<ViterbiHalves<R>> all;
    all.reserve(which.size());
    for (Place place : which)
        all.emplace_back(batch.sequence(place), padded<R>(batch.tags));
    const auto for_each_half = [&](auto run) {
        for_each_item(
            batch, 2 * all.size(), [&](size_t i) { return size_t(all[i / 2].tokens(i % 2)); }, pass(batch),
            nullptr, [&] { return Viterbi<R>(batch, 0); },
            [&](Viterbi<R>& chain, size_t i, double*) { run(chain, all[i / 2], int(i % 2)); },
            [](Viterbi<R>&, double*) {});
    };
    for_each_half([](Viterbi<R>& chain, auto& h, int half) { chain.go_to_middle(h, half); });
    for_each_half([&](Viterbi<R>& chain, auto& h, int half) {
        if (h.feasible[0] && h.feasible[1]) chain.leave_middle(h, half, tags + h.s.first);
    });
    for (const auto& h : all)
        scores[h.s.index] =
            h.feasible[0] && h.feasible[1] ? R(h.score[0] + h.score[1]) : -infinity<R>;
}

template <class R>
void max_product(const Batch<R>& batch, int* tags, R* scores) {
    std::vector<Place> which = places(batch);
#if defined(__GNUC__)
    if (batch.shared) {
        // No sums need registers, so lanes are faster up to more tags. Rows have no blocks.
        const bool many = BCRF_VECTOR_BYTES == 64 && batch.tags >= 32 && batch.tags < 64;
        const bool blocks = lanes<R> >= 4 && are_blocks_faster(batch);
        const double share = blocks ? 0.6 : many ? 0.45 : lane_share<R>(batch.tags, 32);
        const auto groups = group<R>(batch, which, share);
        const R* end = batch.unary + batch.tokens() * batch.tags;
        for_each_item(
            batch, groups.size(), [&](size_t i) { return groups[i].tokens; }, 0.3 * pass(batch),
            nullptr, [&] { return LaneViterbi<R>(batch, end, groups[0].longest); },
            [&](LaneViterbi<R>& chain, size_t i, double*) { chain.run(groups[i], tags, scores); },
            [](LaneViterbi<R>&, double*) {});
    }
#endif
    if (batch.shared) max_product_long(batch, take_long(batch, which), tags, scores);
    for_each_sequence(
        batch, which, 2 * pass(batch), nullptr,
        [&] { return Viterbi<R>(batch, longest(batch, which)); },
        [&](Viterbi<R>& chain, const Sequence<R>& s, double*) {
            scores[s.index] = R(chain.run(s, tags + s.first));
        },
        [](Viterbi<R>&, double*) {});
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
