// The n best labelings, by A*.
#pragma once

#include "viterbi.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A* over the suffixes of labelings, from the last token to the first. The heuristic is Viterbi's
// table, which is exact. So the best labeling that ends in a dequeued suffix is found greedily, and
// only the other tags on its way enter the queue.
template <class R> class NBest : Viterbi<Rows<R>, R> {
    using Base = Viterbi<Rows<R>, R>;

    // The suffix that has `tag` at position `at`, followed by the tags of the labeling `parent`.
    // cost: the score of the best labeling minus the score of the best one with this suffix.
    struct Suffix {
        R cost;
        int parent, at, tag;
    };

    const int tags_, width_;
    int n_, longest_, found_ = 0;
    std::vector<Suffix> queue_;  // by cost; the entries before next_ are done
    size_t next_ = 0;
    std::vector<int> tags_of_;          // (n, longest), grown as labelings are found
    std::vector<int> order_;            // (found): labelings by score
    std::vector<double> suffix_score_;  // (n, longest), up to where a labeling leaves its parent
    Buffer<R> row_;
    SignalCheck signals_;

    double total(int k) const { return suffix_score_[size_t(k) * longest_]; }
    int* labeling(int k) { return tags_of_.data() + size_t(k) * longest_; }

    bool full() const { return int(queue_.size() - next_) + found_ >= n_; }

    // Return the cost below which a suffix is among the n best.
    R limit() const {
        if (found_ == n_) return -infinity<R>;
        return full() ? queue_.back().cost : infinity<R>;
    }

    void push(const Suffix& suffix) {
        if (!(suffix.cost < limit())) return;
        if (full()) queue_.pop_back();
        auto after = [](R cost, const Suffix& other) { return cost < other.cost; };
        queue_.insert(std::upper_bound(queue_.begin() + next_, queue_.end(), suffix.cost, after),
                      suffix);
    }

    // Return the best tag at position i before a suffix, given the scores of all tags (padded).
    // Queue the other tags that may be among the n best.
    int choose(int k, int i, R cost, const R* row) {
        Vec<R> tops = broadcast<R>(-infinity<R>), rivals{};
        for (int t = 0; t < width_; t += lanes<R>) tops = max<R>(tops, BCRF_TARGET::load(row + t));
        const R top = maximum<R>(tops), least = top - (limit() - cost);
        for (int t = 0; t < width_; t += lanes<R>)
            rivals += BCRF_TARGET::load(row + t) > least ? broadcast<R>(1) : broadcast<R>(0);
        int best = 0;
        while (best + 1 < tags_ && row[best] != top) ++best;
        // Usually no other tag is good enough.
        if (sum<R>(rivals) > 1)
            for (int t = 0; t < tags_; ++t)
                if (t != best) push({cost + (top - row[t]), k, i, t});
        return best;
    }

    // Return the scores of the best prefixes that end in each tag at position i, followed by `to`.
    const R* scores(const Sequence<R>& s, int i, int to) {
        const R *best = this->at(i), *w = this->k_.matrix(0, true) + size_t(to) * width_, *edge = s.edge(i) + to;
        if (s.shared)
            for (int t = 0; t < width_; t += lanes<R>)
                store(row_ + t, BCRF_TARGET::load(best + t) + BCRF_TARGET::load(w + t));
        else
            for (int t = 0; t < tags_; ++t) row_[t] = best[t] + edge[size_t(t) * tags_];
        return row_;
    }

    // Return the score of a labeling's suffix from position i, given the score from position i + 1.
    double extended(const Sequence<R>& s, const int* tags, int i, double score) const {
        score += s.unary[size_t(i) * tags_ + tags[i]];
        if (i + 1 < s.length) score += s.edge(i)[size_t(tags[i]) * tags_ + tags[i + 1]];
        return score;
    }

    // Add the best labeling with a given suffix, whose tags from position i on are set.
    void complete(const Sequence<R>& s, int i, R cost, double score) {
        const int k = found_++;
        int* tags = labeling(k);
        double* sums = suffix_score_.data() + size_t(k) * longest_;
        if (i < s.length) sums[i] = score;
        while (--i >= 0) {
            const bool last = i + 1 == s.length;
            tags[i] = choose(k, i, cost, last ? this->at(i) : scores(s, i, tags[i + 1]));
            sums[i] = score = extended(s, tags, i, score);
        }
    }

    void reserve() {
        if (tags_of_.size() >= size_t(found_ + 1) * longest_) return;
        tags_of_.resize(size_t(found_ + 1) * longest_);
        suffix_score_.resize(tags_of_.size());
    }

  public:
    NBest(const Batch<R>& batch, int n, int longest)
        : Base(batch, longest), tags_(batch.tags), width_(padded<R>(batch.tags)), n_(n), longest_(longest),
          row_(width_) {
        for (int t = 0; t < width_; ++t) row_[t] = -infinity<R>;
    }

    // Find the n best labelings. Return their number, at most n.
    int run(const Sequence<R>& s) {
        found_ = 0;
        next_ = 0;
        queue_.clear();
        order_.clear();
        if (Rows<R>::any(this->fill(typename Base::Tile(s)))) return 0;
        reserve();
        complete(s, s.length, 0, 0);
        while (found_ < n_ && next_ < queue_.size()) {
            signals_.add(s.length * double(tags_));
            const Suffix suffix = queue_[next_++];
            reserve();
            const int* from = labeling(suffix.parent);
            std::copy(from + suffix.at + 1, from + s.length, labeling(found_) + suffix.at + 1);
            const int at = suffix.at, *tags = labeling(found_);
            labeling(found_)[at] = suffix.tag;
            const double after = at + 1 < s.length
                                     ? suffix_score_[size_t(suffix.parent) * longest_ + at + 1] : 0;
            complete(s, at, suffix.cost, extended(s, tags, at, after));
        }
        // The costs are rounded to R. The reported scores are sums in double, so they set the order.
        for (int k = 0; k < found_; ++k) order_.push_back(k);
        std::stable_sort(order_.begin(), order_.end(),
                         [&](int a, int b) { return total(a) > total(b); });
        return found_;
    }

    double score(int k) const { return total(order_[k]); }
    const int* tags(int k) { return labeling(order_[k]); }
};

// Write the labelings of each sequence to tags (n, N) and scores (size, n). Missing ones keep the initial score, -inf.
template <class R, class Make>
void write_labelings(const Batch<R>& batch, double work, int n, Make make, int* tags, R* scores) {
    const size_t tokens = batch.tokens();
    for_each_sequence(batch, work, make, [&](auto& search, const Sequence<R>& s) {
        const int found = std::min(search.run(s), n);
        for (int k = 0; k < found; ++k) {
            scores[size_t(s.index) * n + k] = R(search.score(k));
            std::copy(search.tags(k), search.tags(k) + s.length, tags + k * tokens + s.first);
        }
    });
}

template <class R> void nbest(const Batch<R>& batch, int n, int* tags, R* scores) {
    write_labelings(
        batch, 3 * pass(batch), n, [&] { return NBest<R>(batch, n, batch.longest()); }, tags, scores);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
