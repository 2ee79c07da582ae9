// The tags on allowed labelings, as bits: 64 tags a word.
#pragma once

#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

class LiveTags {
  public:
    const int words;

  private:
    using Bits = std::uint64_t;
    const int tags_;
    const bool shared_;
    std::vector<Bits> after_;       // (tags, words), of `loaded_`: the tags that may follow each tag
    const void* loaded_ = nullptr;  // transitions of an edge
    std::vector<Bits> reached_;     // (words)

    template <class R> void load_edge(const R* transitions) {
        if (loaded_ == transitions) return;
        loaded_ = transitions;
        for (int u = 0; u < tags_; ++u) read(transitions + size_t(u) * tags_, &after_[size_t(u) * words]);
    }

    // Return the bits of tag t and those that follow in its word.
    Bits every(int t) const { return ~Bits(0) >> (64 - std::min(64, tags_ - t)); }

    // Set the bits of the scores that are not -inf.
    template <class R> void read(const R* scores, Bits* bits) const {
        for (int t = 0; t < tags_; t += 64)
            bits[t / 64] = allowed_bits(scores + t, std::min(64, tags_ - t));
    }

    // Keep the bits of tags that follow one of `others`, or precede one if `backward`.
    void keep_reached(Bits* bits, const Bits* others, bool backward) {
        Bits* reached = reached_.data();
        std::fill_n(reached, words, 0);
        const Bits* after = after_.data();
        for (int u = 0; u < tags_; ++u, after += words)
            for (int w = 0; w < words; ++w) {
                if (!backward) reached[w] |= (0 - (others[u / 64] >> u % 64 & 1)) & after[w];
                else reached[u / 64] |= Bits((after[w] & others[w]) != 0) << u % 64;
            }
        for (int w = 0; w < words; ++w) bits[w] &= reached[w];
    }

  public:
    LiveTags(int tags, bool shared)
        : words((tags + 63) / 64), tags_(tags), shared_(shared), after_(size_t(tags) * words),
          reached_(words) {}

    // Call use(tag) for the tags that a set does not have.
    template <class Use> void for_others(const Bits* bits, Use use) const {
        for (int t = 0; t < tags_; t += 64)
            for (Bits left = ~bits[t / 64] & every(t); left; left &= left - 1) use(t + __builtin_ctzll(left));
    }

    // Find the tags of each token, (length, words). A sequence without an allowed labeling has none.
    template <class R> void find(const Sequence<R>& s, Bits* alive) {
        if (!shared_) loaded_ = nullptr;
        for (int i = 0; i < s.length; ++i) {
            Bits* here = alive + size_t(i) * words;
            read(s.unary + size_t(i) * s.tags, here);
            if (i > 0) load_edge(s.edge(i - 1)), keep_reached(here, here - words, false);
        }
        for (int i = s.length - 1; i-- > 0;) {
            Bits* here = alive + size_t(i) * words;
            load_edge(s.edge(i)), keep_reached(here, here + words, true);
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
