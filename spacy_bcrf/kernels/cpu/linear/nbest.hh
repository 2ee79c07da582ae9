// The n best labelings of one sequence, for short lists.
namespace bcrf {
namespace BCRF_TARGET {

struct BestList {
    int found = 0;
    std::vector<int> tags;       // (n, length)
    std::vector<double> scores;  // (n), falling
};

inline double score_labeling(const Sequence<float>& s, const int* tags) {
    double score = 0;
    for (int i = 0; i < s.length; ++i) {
        score += s.unary[size_t(i) * s.tags + tags[i]];
        if (i) score += s.transitions[size_t(tags[i - 1]) * s.tags + tags[i]];
    }
    return score;
}

// A* with the backward Viterbi score as heuristic. It is exact, so the score of the best completion
// of every deviation from a labeling is known when that is found, and no queue of unfinished ones
// is needed: a labeling that leaves its parent at token d is followed by those that leave it after
// d (Lawler 1972). O(L T^2) once, then O(L T) a labeling.
class AStar {
    struct Deviation {
        double score;
        int parent, token, tag;
    };
    std::vector<float> rest_, columns_, row_;
    std::vector<double> prefix_;  // (n, length): score of the first i + 1 tokens
    std::vector<Deviation> open_;  // the best, at most as many as are still wanted, rising

    void offer(const Deviation& d, size_t wanted) {
        auto at = open_.end();
        if (open_.size() == wanted) {
            if (!(d.score > open_.front().score)) return;
            open_.erase(open_.begin());
        }
        at = open_.begin();
        while (at != open_.end() && at->score < d.score) ++at;
        open_.insert(at, d);
    }

    // Completes labeling k, of which tokens before `from` are set, and offers what leaves it there
    // or later.
    void complete(const Sequence<float>& s, BestList& out, int k, int from, int width,
                  size_t wanted) {
        int* tags = out.tags.data() + size_t(k) * s.length;
        double* prefix = prefix_.data() + size_t(k) * s.length;
        for (int i = from; i < s.length; ++i) {
            const float* rest = rest_.data() + size_t(i) * width;
            const float* edge = i ? s.transitions + size_t(tags[i - 1]) * s.tags : nullptr;
            const float* unary = s.unary + size_t(i) * s.tags;
            const double before = i ? prefix[i - 1] : 0.0;
            for (int t = 0; t < s.tags; ++t) row_[t] = edge ? edge[t] + rest[t] : rest[t];
            float top = row_[0], second = -infinity<float>;
            for (int t = 1; t < s.tags; ++t) top = row_[t] > top ? row_[t] : top;
            int best = 0;
            while (row_[best] != top) ++best;
            tags[i] = best;
            prefix[i] = before + unary[best] + (edge ? edge[best] : 0.0f);
            if (!wanted) continue;
            row_[best] = -infinity<float>;
            for (int t = 0; t < s.tags; ++t) second = row_[t] > second ? row_[t] : second;
            if (second == -infinity<float>) continue;
            if (open_.size() == wanted && !(before + second > open_.front().score)) continue;
            for (int t = 0; t < s.tags; ++t)
                if (row_[t] > -infinity<float>) offer({before + row_[t], k, i, t}, wanted);
        }
        out.scores[k] = prefix[s.length - 1];
    }

  public:
    void run(const Sequence<float>& s, int n, BestList& out) {
        const int width = padded<float>(s.tags);
        const size_t length = s.length;
        rest_.assign(length * width, -infinity<float>);
        columns_.assign(size_t(s.tags) * width, -infinity<float>);
        row_.resize(s.tags);
        prefix_.resize(n * length);
        open_.clear();
        out.tags.resize(n * length);
        out.scores.resize(n);
        out.found = 0;
        for (int u = 0; u < s.tags; ++u)
            for (int v = 0; v < s.tags; ++v)
                columns_[size_t(v) * width + u] = s.transitions[size_t(u) * s.tags + v];
        for (int i = s.length - 1; i >= 0; --i) {
            float* rest = rest_.data() + size_t(i) * width;
            const float* unary = s.unary + size_t(i) * s.tags;
            if (i + 1 == s.length) {
                for (int t = 0; t < s.tags; ++t) rest[t] = unary[t];
                continue;
            }
            product<MaxPlus>(rest, (const float*)rest + width, (const float*)columns_.data(),
                             s.tags, width);
            for (int t = 0; t < s.tags; ++t) rest[t] += unary[t];
        }
        if (!(largest(rest_.data(), s.tags) > -infinity<float>)) return;
        complete(s, out, 0, 0, width, n - 1);
        for (out.found = 1; out.found < n && !open_.empty(); ++out.found) {
            const Deviation d = open_.back();
            open_.pop_back();
            const int k = out.found;
            int* tags = out.tags.data() + k * length;
            double* prefix = prefix_.data() + k * length;
            const int* parent = out.tags.data() + d.parent * length;
            const double* before = prefix_.data() + d.parent * length;
            std::copy(parent, parent + d.token, tags);
            std::copy(before, before + d.token, prefix);
            tags[d.token] = d.tag;
            prefix[d.token] = (d.token ? prefix[d.token - 1] : 0.0) +
                              s.unary[size_t(d.token) * s.tags + d.tag] +
                              (d.token ? s.transitions[size_t(tags[d.token - 1]) * s.tags + d.tag]
                                       : 0.0f);
            out.scores[k] = prefix[d.token];
            complete(s, out, k, d.token + 1, width, n - 1 - k);
        }
    }
};

// Beam search, which is not exact.
inline void search_beam(const Batch<float>& one, const Sequence<float>& s, int n, int width,
                        BestList& out) {
    Beam<float> beam(one, width, s.length);
    out.found = std::min(n, beam.run(s));
    out.tags.resize(size_t(n) * s.length);
    out.scores.resize(n);
    for (int k = 0; k < out.found; ++k) {
        out.scores[k] = beam.score(k);
        std::copy_n(beam.tags(k), s.length, out.tags.data() + size_t(k) * s.length);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
