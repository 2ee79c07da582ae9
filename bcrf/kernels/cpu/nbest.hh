// The n best labelings, by A* and by beam search.
#pragma once

#include "viterbi.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A* over the suffixes of labelings, from the last token to the first. The heuristic is Viterbi's
// table, which is exact. So the best labeling that ends in a dequeued suffix is found greedily, and
// only the other tags on its way enter the queue.
template <class R> class NBest : Viterbi<Rows<R>, R> {
    // The suffix that has `tag` at position `at`, followed by the tags of the labeling `parent`.
    // cost: the score of the best labeling minus the score of the best one with this suffix.
    struct Suffix {
        R cost;
        int parent, at, tag;
    };
    // The tags of a labeling, and the scores of its suffixes from where it leaves its parent back to the first token.
    struct Labeling {
        std::vector<int> tags;
        std::vector<double> scores;
    };

    const int tags_, width_;
    const size_t n_;
    std::vector<Suffix> queue_;  // by cost; the entries before next_ are done
    size_t next_ = 0;
    std::vector<Labeling> found_;
    Buffer<R> row_;
    SignalCheck signals_;

    bool full() const { return queue_.size() - next_ + found_.size() >= n_; }

    // Return the cost below which a suffix is among the n best.
    R limit() const {
        if (found_.size() == n_) return -infinity<R>;
        return full() ? queue_.back().cost : infinity<R>;
    }

    void push(const Suffix& suffix) {
        if (!(suffix.cost < limit())) return;
        if (full()) queue_.pop_back();
        auto after = [](R cost, const Suffix& other) { return cost < other.cost; };
        queue_.insert(std::upper_bound(queue_.begin() + next_, queue_.end(), suffix.cost, after), suffix);
    }

    // Return the best tag at position i before a suffix, given the scores of all tags (padded).
    // Queue the other tags that may be among the n best.
    int choose(int k, int i, R cost, const R* row) {
        Vec<R> tops = broadcast<R>(-infinity<R>), rivals{};
        for (int t = 0; t < width_; t += lanes<R>) tops = max<R>(tops, load(row + t));
        const R top = maximum<R>(tops), least = top - (limit() - cost);
        for (int t = 0; t < width_; t += lanes<R>) rivals += one_where<R>(load(row + t) > least);
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
        const R *best = this->at(i), *w = this->predecessors_.into(s.edge(i), to);
        for (int t = 0; t < width_; t += lanes<R>) store(row_ + t, load(best + t) + load(w + t));
        return row_;
    }

    // Add the best labeling with a suffix of these tags (length), which are set from position i on.
    void complete(const Sequence<R>& s, std::vector<int> tags, int i, R cost, double score) {
        const int k = int(found_.size());
        std::vector<double> sums(s.length);
        // The queue of rivals counts this labeling.
        found_.push_back({});
        const auto extend = [&] {
            score += s.unary[size_t(i) * tags_ + tags[i]];
            if (i + 1 < s.length) score += s.edge(i)[size_t(tags[i]) * tags_ + tags[i + 1]];
            sums[i] = score;
        };
        if (i < s.length) extend();
        while (--i >= 0) {
            tags[i] = choose(k, i, cost, i + 1 == s.length ? this->at(i) : scores(s, i, tags[i + 1]));
            extend();
        }
        found_[k] = {std::move(tags), std::move(sums)};
    }

  public:
    NBest(const Batch<R>& batch, const Shape& shape, int n, int longest)
        : Viterbi<Rows<R>, R>(batch, shape, longest), tags_(batch.tags), width_(padded<R>(batch.tags)), n_(n), row_(width_) {}

    // Find the n best labelings. Return their number, at most n.
    int run(const Sequence<R>& s) {
        found_.clear();
        next_ = 0;
        queue_.clear();
        if (Rows<R>::any(this->fill({&s, 1}))) return 0;
        complete(s, std::vector<int>(s.length), s.length, 0, 0);
        while (found_.size() < n_ && next_ < queue_.size()) {
            signals_.add(s.length * double(tags_));
            const Suffix suffix = queue_[next_++];
            const Labeling& parent = found_[suffix.parent];
            std::vector<int> tags = parent.tags;
            tags[suffix.at] = suffix.tag;
            complete(s, std::move(tags), suffix.at, suffix.cost,
                     suffix.at + 1 < s.length ? parent.scores[suffix.at + 1] : 0);
        }
        // The costs are rounded to R. The reported scores are sums in double, so they set the order.
        std::stable_sort(found_.begin(), found_.end(),
                         [](const Labeling& a, const Labeling& b) { return a.scores[0] > b.scores[0]; });
        return int(found_.size());
    }

    double score(int k) const { return found_[k].scores[0]; }
    const int* tags(int k) const { return found_[k].tags.data(); }
};

// Write the labelings of each sequence to tags (n, N) and scores (size, n). Missing ones keep the initial score, -inf.
template <class R, class Make>
void write_labelings(const Batch<R>& batch, double work, int n, Make make, int* tags, R* scores) {
    const size_t tokens = batch.tokens();
    for_each_sequence(batch, batch.sequences(), work, make, [&](auto& search, const Sequence<R>& s) {
        const int found = std::min(search.run(s), n);
        for (int k = 0; k < found; ++k) {
            scores[size_t(s.index) * n + k] = R(search.score(k));
            std::copy(search.tags(k), search.tags(k) + s.length, tags + k * tokens + s.first);
        }
    });
}

template <class R> void nbest(const Batch<R>& batch, int n, int* tags, R* scores) {
    const Shape shape = shape_of(batch, {Operation::MAX_PRODUCT}, 0);
    write_labelings(
        batch, 3 * pass(batch), n, [&] { return NBest<R>(batch, shape, n, batch.longest()); }, tags, scores);
}

// The beam of a token holds its `width` best prefixes. A prefix is its last tag and the position of
// the rest in the previous beam. The search skips tags that no allowed labeling continues, so a
// beam is empty only if there is no allowed labeling.
template <class R> class Beam {
    struct Prefix {
        double score;
        int parent, tag;
    };

    int width_, tags_;
    std::vector<std::vector<Prefix>> beams_;  // one for each token
    std::vector<Prefix> extended_;
    LiveTags live_tags_;
    std::vector<std::uint64_t> alive_;  // (longest, words)
    std::vector<int> labeling_;
    int last_ = 0;  // token

    // Ties go to the lower parent, then to the lower tag.
    static bool better(const Prefix& a, const Prefix& b) {
        if (a.score != b.score) return a.score > b.score;
        return a.parent != b.parent ? a.parent < b.parent : a.tag < b.tag;
    }

    void keep_best(std::vector<Prefix>& beam) {
        const size_t n = std::min(extended_.size(), size_t(width_));
        std::partial_sort(extended_.begin(), extended_.begin() + n, extended_.end(), better);
        extended_.resize(n);
        beam.swap(extended_);
    }

  public:
    Beam(const Batch<R>& batch, int width, int longest)
        : width_(width), tags_(batch.tags), beams_(longest),
          live_tags_(batch.tags, batch.shared), alive_(size_t(longest) * live_tags_.words), labeling_(longest) {}

    // Return the number of labelings found.
    int run(const Sequence<R>& s) {
        live_tags_.find(s, alive_.data());
        const Prefix empty{0, -1, -1};
        SignalCheck signals;
        for (int i = 0; i < s.length; ++i) {
            const Prefix* before = i ? beams_[i - 1].data() : &empty;
            const int size = i ? int(beams_[i - 1].size()) : 1;
            const std::uint64_t* alive = &alive_[size_t(i) * live_tags_.words];
            extended_.clear();
            for (int k = 0; k < size; ++k) {
                const R* w = i ? s.edge(i - 1) + size_t(before[k].tag) * tags_ : nullptr;
                for (int t = 0; t < tags_; ++t) {
                    if (!(alive[t / 64] >> t % 64 & 1) || (w && w[t] == -infinity<R>)) continue;
                    const double step = double(s.unary[size_t(i) * tags_ + t]) + (w ? w[t] : 0);
                    const double score = before[k].score + step;
                    // Neither NaN nor overflow: the order of prefixes must be total.
                    if (score > -infinity<double>) extended_.push_back({score, k, t});
                }
            }
            keep_best(beams_[i]);
            signals.add(50.0 * size * tags_);
        }
        last_ = s.length - 1;
        return int(beams_[last_].size());
    }

    double score(int k) const { return beams_[last_][k].score; }

    const int* tags(int k) {
        for (int i = last_; i >= 0; --i) {
            labeling_[i] = beams_[i][k].tag;
            k = beams_[i][k].parent;
        }
        return labeling_.data();
    }
};

template <class R> void beam_search(const Batch<R>& batch, int n, int width, int* tags, R* scores) {
    write_labelings(
        batch, width * pass(batch), n, [&] { return Beam<R>(batch, width, batch.longest()); }, tags, scores);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
