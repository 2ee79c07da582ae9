// Allowed transitions. With a scheme such as BILUO, the tags that end an entity are followed by those that start one,
// and the others by tags of the same label. Products over blocks leave out the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "paths.hh"
#include "simd.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Transitions from each tag of `from` to each of `to`.
template <class R> struct TransitionBlock {
    std::vector<int> from, to;
    size_t width = 0;            // of a row of weights
    const R* weights = nullptr;  // (from, width)
    std::vector<R> copy;         // of the weights, if there are several blocks

    bool is_all() const { return copy.empty(); }  // whether this is the only block
};

// Return the bits of up to 64 scores that are not -inf. NaN is not forbidden.
template <class In> std::uint64_t allowed_bits(const In* scores, size_t n) {
    int forbidden = 0;
#pragma omp simd reduction(+ : forbidden)
    for (size_t k = 0; k < n; ++k) forbidden += scores[k] == -infinity<In>;
    std::uint64_t bits = forbidden ? 0 : ~std::uint64_t(0) >> (64 - n);
    for (size_t k = 0; k < n && forbidden; ++k) bits |= std::uint64_t(scores[k] != -infinity<In>) << k;
    return bits;
}

// Group the tags that may follow the same tags, or precede them if `transposed`. Return the number of the group
// of each tag. Return nothing if transitions belong to edges, or if so many groups cost more than they save.
template <class In> std::vector<int> group_tags(const Batch<In>& batch, bool transposed) {
    if (!batch.shared) return {};
    const size_t tags = batch.tags, words = (tags + 63) / 64;
    std::vector<std::uint64_t> others(tags * words);  // the predecessors of each tag, or its followers
    for (size_t u = 0; u < tags; ++u)
        for (size_t v = 0; v < tags; v += 64) {
            std::uint64_t after = allowed_bits(batch.transitions + u * tags + v, std::min<size_t>(tags - v, 64));
            if (transposed) others[u * words + v / 64] = after;
            else
                for (; after; after &= after - 1)
                    others[(v + __builtin_ctzll(after)) * words + u / 64] |= std::uint64_t(1) << u % 64;
        }
    std::vector<int> groups(tags), first;  // first: a tag of each group
    for (size_t v = 0; v < tags; ++v) {
        const std::uint64_t* set = &others[v * words];
        size_t i = 0;
        while (i < first.size() && !std::equal(set, set + words, &others[first[i] * words])) ++i;
        if (i == first.size()) first.push_back(int(v));
        if (first.size() > most_groups(tags)) return {};
        groups[v] = int(i);
    }
    return groups;
}

// Split transitions with the weights (tags, width) into blocks of the groups of tags, or one of all if there is none.
template <class R>
std::vector<TransitionBlock<R>> transition_blocks(const Batch<R>& batch, bool transposed, const std::vector<int>& groups,
                                                  const R* weights) {
    const size_t tags = batch.tags, width = padded<R>(batch.tags);
    std::vector<TransitionBlock<R>> blocks(groups.empty());
    for (TransitionBlock<R>& all : blocks) {
        all.to.resize(tags);
        std::iota(all.to.begin(), all.to.end(), 0);
        all.from = all.to, all.width = width, all.weights = weights;
    }
    for (size_t v = 0; v < groups.size(); ++v) {
        if (size_t(groups[v]) == blocks.size()) {
            blocks.emplace_back();
            for (size_t u = 0; u < tags; ++u)
                if (batch.transitions[transposed ? v * tags + u : u * tags + v] != -infinity<R>)
                    blocks.back().from.push_back(int(u));
        }
        blocks[groups[v]].to.push_back(int(v));
    }
    for (TransitionBlock<R>& block : blocks) {
        if (block.weights) continue;
        block.width = padded<R>(int(block.to.size()));
        block.copy.resize(std::max<size_t>(block.from.size() * block.width, 1));
        R* row = block.copy.data();
        for (int u : block.from) {
            for (size_t j = 0; j < block.to.size(); ++j) row[j] = weights[u * width + block.to[j]];
            row += block.width;
        }
        block.weights = block.copy.data();
    }
    return blocks;
}

// The tags on allowed labelings, as bits: 64 tags a word.
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

    // Set the bits of the scores that are not -inf.
    template <class R> void read(const R* scores, Bits* bits) const {
        for (int t = 0; t < tags_; t += 64)
            bits[t / 64] = allowed_bits(scores + t, std::min(64, tags_ - t));
    }

    // Keep the bits of tags that follow one of `others`, or precede one if `backward`. again: the same as in the last call.
    void keep_reached(Bits* bits, const Bits* others, bool backward, bool again) {
        Bits* reached = reached_.data();
        const Bits* after = after_.data();
        if (!again) std::fill_n(reached, words, 0);
        for (int u = 0; u < tags_ && !again; ++u, after += words)
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
        for (int w = 0; w < words; ++w)
            for (Bits rest = ~bits[w]; rest && 64 * w + __builtin_ctzll(rest) < tags_; rest &= rest - 1)
                use(64 * w + __builtin_ctzll(rest));
    }

    // Find the tags of each token, (length, words). A sequence without an allowed labeling has none.
    template <class R> void find(const Sequence<R>& s, Bits* alive) {
        if (!shared_) loaded_ = nullptr;
        const auto keep = [&](int i, int neighbour) {
            // Most neighbours have equal tags.
            const int before = 2 * neighbour - i;
            const Bits* others = alive + size_t(neighbour) * words;
            const bool again = shared_ && before >= 0 && before < s.length &&
                               std::equal(others, others + words, alive + size_t(before) * words);
            if (const R* edge = s.edge(std::min(i, neighbour)); edge != loaded_) {
                loaded_ = edge;
                for (int u = 0; u < tags_; ++u) read(edge + size_t(u) * tags_, &after_[size_t(u) * words]);
            }
            keep_reached(alive + size_t(i) * words, others, neighbour > i, again);
        };
        for (int i = 0; i < s.length; ++i) {
            read(s.unary + size_t(i) * s.tags, alive + size_t(i) * words);
            if (i > 0) keep(i, i - 1);
        }
        for (int i = s.length - 1; i-- > 0;) keep(i, i + 1);
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
