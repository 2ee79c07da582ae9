// The best labeling, by Dijkstra's algorithm.
#pragma once

#include <queue>

#include "chunks.hh"
#include "target.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Dijkstra's algorithm needs scores <= 0. So the search subtracts from the scores of each edge,
// which include the tag that it leads to, their maximum. This shifts all labelings by the same
// amount. The first dequeued prefix that ends in a pair of token and tag is then the best one.
template <class R> class Dijkstra {
    // The score of a prefix, and minus the pair in which it ends: the lower pair comes first in a tie. Of several that
    // end in the same pair, the first dequeued one counts.
    using Prefix = std::pair<double, std::ptrdiff_t>;

    int tags_;
    std::vector<double> score_;     // (longest, tags)
    std::vector<double> top_into_;  // (tags): largest transition into each tag
    std::vector<int> before_;       // (longest, tags): the tag before
    std::priority_queue<Prefix> queue_;

    // Record a prefix that ends in a pair, if it is new or better.
    void reach(size_t pair, double score, int from) {
        if (!(score > score_[pair])) return;
        score_[pair] = score;
        before_[pair] = from;
        queue_.push({score, -std::ptrdiff_t(pair)});
    }

    void find_tops(const R* w) {
        std::fill(top_into_.begin(), top_into_.end(), -infinity<double>);
        for (int u = 0; u < tags_; ++u, w += tags_)
            for (int v = 0; v < tags_; ++v) top_into_[v] = w[v] > top_into_[v] ? w[v] : top_into_[v];
    }

  public:
    Dijkstra(const Batch<R>& batch, int longest)
        : tags_(batch.tags), score_(size_t(longest) * batch.tags), top_into_(batch.tags, 0.0), before_(score_.size()) {
        if (batch.shared) find_tops(batch.transitions);
    }

    // Write the best labeling to `tags` and return its score, or -inf if there is none. `expanded`
    // counts the dequeued pairs.
    double run(const Sequence<R>& s, int* tags, long long& expanded) {
        std::fill_n(score_.begin(), size_t(s.length) * tags_, -infinity<double>);
        SignalCheck signals;
        queue_ = {};
        expanded = 0;
        std::vector<double> top(s.length);
        for (int i = 0; i < s.length; ++i) {
            if (i && !s.shared) find_tops(s.edge(i - 1));
            top[i] = -infinity<double>;
            for (int t = 0; t < tags_; ++t) {
                const double score = s.unary[size_t(i) * tags_ + t] + (i ? top_into_[t] : 0);
                top[i] = score > top[i] ? score : top[i];
            }
            if (top[i] == -infinity<double>) top[i] = 0;
        }
        for (int t = 0; t < tags_; ++t) reach(t, s.unary[t] - top[0], -1);
        while (!queue_.empty()) {
            const double score = queue_.top().first;
            const size_t pair = -queue_.top().second;
            queue_.pop();
            if (score < score_[pair]) continue;
            ++expanded;
            signals.add(50.0 * tags_);
            const int next = int(pair / tags_) + 1, tag = int(pair % tags_);
            if (next == s.length) {
                tags[next - 1] = tag;
                for (int i = next - 1; i > 0; --i) tags[i - 1] = before_[size_t(i) * tags_ + tags[i]];
                return path_score(s, tags, 0, s.length);
            }
            const R *w = s.edge(next - 1) + size_t(tag) * tags_, *unary = s.unary + size_t(next) * tags_;
            for (int v = 0; v < tags_; ++v)
                reach(size_t(next) * tags_ + v, score + (double(w[v]) + unary[v] - top[next]), tag);
        }
        return -infinity<double>;
    }
};

template <class R> void dijkstra(const Batch<R>& batch, int* tags, R* scores, long long* expanded) {
    for_each_sequence(
        batch, batch.sequences(), pass(batch), [&] { return Dijkstra<R>(batch, batch.longest()); },
        [&](Dijkstra<R>& search, const Sequence<R>& s) {
            scores[s.index] = R(search.run(s, tags + s.first, expanded[s.index]));
        });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
