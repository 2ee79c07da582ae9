// Beam search for the n best labelings.
#pragma once

#include "nbest.hh"

namespace bcrf {
namespace BCRF_TARGET {

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
    std::vector<unsigned char> alive_;  // (longest, tags)
    std::vector<int> labeling_;

    // Find the tags from which an allowed labeling reaches the end.
    void find_alive(const Sequence<R>& s) {
        for (int i = s.length - 1; i >= 0; --i) {
            if (i % 256 == 0) check_signals();
            const R* unary = s.unary + size_t(i) * tags_;
            unsigned char *here = &alive_[size_t(i) * tags_], *next = here + tags_;
            for (int u = 0; u < tags_; ++u) {
                unsigned char open = i + 1 == s.length;
                if (!open) {
                    const R* w = s.edge(i) + size_t(u) * tags_;
                    for (int v = 0; v < tags_; ++v) open |= next[v] & (w[v] > -infinity<R>);
                }
                here[u] = open & (unary[u] > -infinity<R>);
            }
        }
    }

    // Ties go to the lower parent, then to the lower tag.
    static bool better(const Prefix& a, const Prefix& b) {
        if (a.score != b.score) return a.score > b.score;
        return a.parent != b.parent ? a.parent < b.parent : a.tag < b.tag;
    }

    void keep_best(std::vector<Prefix>& beam) {
        if (extended_.size() > size_t(width_)) {
            std::nth_element(extended_.begin(), extended_.begin() + width_, extended_.end(), better);
            extended_.resize(width_);
        }
        std::sort(extended_.begin(), extended_.end(), better);
        beam.swap(extended_);
    }

  public:
    Beam(const Batch<R>& batch, int width, int longest)
        : width_(width), tags_(batch.tags), beams_(longest),
          alive_(size_t(longest + 1) * batch.tags), labeling_(longest) {}

    // Return the number of labelings found.
    int run(const Sequence<R>& s) {
        find_alive(s);
        const Prefix empty{0, -1, -1};
        SignalCheck signals;
        for (int i = 0; i < s.length; ++i) {
            const Prefix* before = i ? beams_[i - 1].data() : &empty;
            const int size = i ? int(beams_[i - 1].size()) : 1;
            const unsigned char* alive = &alive_[size_t(i) * tags_];
            extended_.clear();
            for (int k = 0; k < size; ++k) {
                const R* w = i ? s.edge(i - 1) + size_t(before[k].tag) * tags_ : nullptr;
                for (int t = 0; t < tags_; ++t) {
                    if (!alive[t] || (w && w[t] == -infinity<R>)) continue;
                    const double step = double(s.unary[size_t(i) * tags_ + t]) + (w ? w[t] : 0);
                    const double score = before[k].score + step;
                    // Neither NaN nor overflow: the order of prefixes must be total.
                    if (score > -infinity<double>) extended_.push_back({score, k, t});
                }
            }
            keep_best(beams_[i]);
            signals.add(50.0 * size * tags_);
        }
        const size_t found = beams_[s.length - 1].size();
        last_ = s.length - 1;
        return int(found);
    }

    double score(int k) const { return beams_[last_][k].score; }

    const int* tags(int k) {
        for (int i = last_; i >= 0; --i) {
            labeling_[i] = beams_[i][k].tag;
            k = beams_[i][k].parent;
        }
        return labeling_.data();
    }

  private:
    int last_ = 0;
};

template <class R>
void beam_search(const Batch<R>& batch, int n, int width, int* tags, R* scores) {
    write_labelings(
        batch, width * pass(batch), n, [&] { return Beam<R>(batch, width, batch.longest()); }, tags,
        scores);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
