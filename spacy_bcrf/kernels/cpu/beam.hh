// Beam search for the n best labelings.
#pragma once

#include "live_tags.hh"
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

template <class R>
void beam_search(const Batch<R>& batch, int n, int width, int* tags, R* scores) {
    write_labelings(
        batch, width * pass(batch), n, [&] { return Beam<R>(batch, width, batch.longest()); }, tags,
        scores);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
