// The best labeling, by Dijkstra's algorithm.
#pragma once

#include <queue>
#include <stdexcept>
#include <string>

#include "chunks.hh"
#include "target.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Dijkstra's algorithm needs scores <= 0. So the search subtracts from the scores of each edge,
// which include the tag that it leads to, their maximum. This shifts all labelings by the same
// amount. The first dequeued prefix that ends in a pair of token and tag is then the best one.
template <class R> class Dijkstra {
    // A prefix that ends in a pair. Of several that end in the same pair, the first dequeued one counts.
    struct Prefix {
        double score;
        int pair;
        bool operator<(const Prefix& other) const {
            return score != other.score ? score < other.score : pair > other.pair;
        }
    };

    int tags_;
    std::vector<double> score_;     // (longest, tags)
    std::vector<double> top_into_;  // (tags): largest transition into each tag
    std::vector<int> before_;       // (longest, tags): predecessor
    std::priority_queue<Prefix> queue_;

    // Record a prefix that ends in a pair, if it is new or better.
    void reach(int pair, double score, int from) {
        if (!(score > score_[pair])) return;
        score_[pair] = score;
        before_[pair] = from;
        queue_.push({score, pair});
    }

    void find_tops(const R* w) {
        std::fill(top_into_.begin(), top_into_.end(), -infinity<double>);
        for (int u = 0; u < tags_; ++u, w += tags_)
            for (int v = 0; v < tags_; ++v) top_into_[v] = w[v] > top_into_[v] ? w[v] : top_into_[v];
    }

    // Return the number of pairs, which must be an int. Throw std::invalid_argument, ValueError in
    // Python, if there are too many.
    static int count_pairs(int length, int tags) {
        if (length > std::numeric_limits<int>::max() / tags)
            throw std::invalid_argument("Dijkstra's algorithm takes a sequence of at most 2147483647 "
                                        "pairs of token and tag, got " + std::to_string(length) +
                                        " tokens and " + std::to_string(tags) + " tags");
        return length * tags;
    }

  public:
    Dijkstra(const Batch<R>& batch, int longest)
        : tags_(batch.tags), score_(count_pairs(longest, batch.tags)), top_into_(batch.tags, 0.0),
          before_(score_.size()) {
        if (batch.shared) find_tops(batch.transitions);
    }

    // Write the best labeling to `tags` and return its score, or -inf if there is none. `expanded`
    // counts the dequeued pairs.
    double run(const Sequence<R>& s, int* tags, long long& expanded) {
        std::fill_n(score_.begin(), s.length * tags_, -infinity<double>);
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
            const auto [score, pair] = queue_.top();
            queue_.pop();
            if (score < score_[pair]) continue;
            ++expanded;
            signals.add(50.0 * tags_);
            const int next = pair / tags_ + 1, tag = pair % tags_;
            if (next == s.length) return trace(s, pair, tags);
            const R *w = s.edge(next - 1) + size_t(tag) * tags_, *unary = s.unary + size_t(next) * tags_;
            for (int v = 0; v < tags_; ++v)
                reach(next * tags_ + v, score + (double(w[v]) + unary[v] - top[next]), pair);
        }
        return -infinity<double>;
    }

    double trace(const Sequence<R>& s, int pair, int* tags) {
        double score = 0;
        for (int i = s.length - 1; i >= 0; --i, pair = before_[pair]) {
            tags[i] = pair % tags_;
            score += s.unary[pair];
            if (i + 1 < s.length) score += s.edge(i)[size_t(tags[i]) * tags_ + tags[i + 1]];
        }
        return score;
    }
};

template <class R>
void dijkstra(const Batch<R>& batch, int* tags, R* scores, long long* expanded) {
    for_each_sequence(
        batch, batch.sequences(), pass(batch), [&] { return Dijkstra<R>(batch, batch.longest()); },
        [&](Dijkstra<R>& search, const Sequence<R>& s) {
            scores[s.index] = R(search.run(s, tags + s.first, expanded[s.index]));
        });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
