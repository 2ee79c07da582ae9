// Tag scores of the tokens of sequences under fixed weights.
#pragma once

#include <limits>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "kernels.hh"

namespace bcrf {

// Weights (rows, stride), laid out as in Model. tags: of all chains together. general: the number of rows
// before the features.
struct Weights {
    const float* table;
    size_t rows, stride;
    int tags, general;

    const float* row(size_t i) const { return table + i * stride; }
    const float* feature(size_t i) const { return row(i + general); }
    size_t features() const { return rows - general; }
};

// Arrays to add up: for each of a number of tokens, those whose sum is its tag scores.
class ScoreParts {
    std::vector<const float*> parts_;
    std::vector<std::int64_t> starts_ = {0};

  public:
    void clear() {
        parts_.clear();
        starts_.assign(1, 0);
    }

    void add(const float* part) { parts_.push_back(part); }

    // Add the scores of every token, of first and of last tokens.
    void add_position(const Weights& weights, bool is_first, bool is_last) {
        add(weights.row(weights.general - 3));
        if (is_first) add(weights.row(weights.general - 2));
        if (is_last) add(weights.row(weights.general - 1));
    }

    void end_token() { starts_.push_back(std::int64_t(parts_.size())); }

    void sum(size_t stride, size_t width, float* out) const {
        SparseKernels::get().sum_parts(parts_.data(), starts_.data(), starts_.size() - 1, stride,
                                       width, out);
    }
};

// Compute unary (N, tags) of a batch. Skip features of row -1, which are unknown.
inline void score(const Weights& weights, const Sequences& data, const int* lengths, int batch,
                  float* unary) {
    ScoreParts parts;
    size_t i = 0;
    for (int b = 0; b < batch; ++b) {
        parts.clear();
        for (int k = 0; k < lengths[b]; ++k, ++i) {
            parts.add_position(weights, k == 0, k == lengths[b] - 1);
            for (std::int64_t j = data.starts[i]; j < data.starts[i + 1]; ++j)
                if (data.rows[j] >= 0) parts.add(weights.feature(data.rows[j]));
            parts.end_token();
        }
        parts.sum(weights.stride, weights.tags, unary);
        unary += size_t(lengths[b]) * weights.tags;
    }
}

// Compute unary (N, tags) of one chain in float64. Feature j counts values[j] times, once if `values` is
// null.
template <class In>
inline void score_values(const In* weights, size_t stride, int tags, const Sequences& data,
                         const double* values, const int* lengths, int batch, double* unary) {
    const auto add = [&](size_t row, double value) {
        const In* from = weights + row * stride;
        double* to = unary;
        for (int t = 0; t < tags; ++t) to[t] += value * from[t];
    };
    size_t i = 0;
    for (int b = 0; b < batch; ++b)
        for (int k = 0; k < lengths[b]; ++k, ++i, unary += tags) {
            std::fill(unary, unary + tags, 0.0);
            add(tags, 1);
            if (k == 0) add(tags + 1, 1);
            if (k == lengths[b] - 1) add(tags + 2, 1);
            for (std::int64_t j = data.starts[i]; j < data.starts[i + 1]; ++j)
                add(tags + 3 + data.rows[j], values ? values[j] : 1);
        }
}

// The words of `size` sequences, by their hashes, and the attribute values of their tokens. Scores are of the tokens
// [from, to) of each sequence.
struct WordBatch {
    TokenValues tokens;
    const std::uint64_t* words;
    const int* lengths;
    int size;
    int from = 0, to = std::numeric_limits<int>::max();
};

// Unary scores of tokens. The same words, and the same pairs and triples of words in a row, come
// again and again. They always add the same scores to the tokens at and around them, so the class
// keeps these sums. A token then adds a few arrays in place of dozens of rows, and needs no keys. The
// sums of a gram include those of its first words, as in Vaporetto (arXiv 2406.17185, section 3.2).
//
// Threads share an object: one at a time computes scores.
class WordScores {
    // Templates whose first word is at this offset from the token. In `at_gram` it is at offset 0.
    struct Group {
        int offset;
        Extractor at_gram;
        int shorter;      // the group of this offset among the grams of one word less, or -1
        bool is_covered;  // whether the sums of longer grams include these
    };

    // The distinct runs of so many words. A word is known by its hash and values. A longer gram is
    // known by the number of the gram without its last word, and by the number of this word.
    struct Grams {
        std::vector<Group> groups;
        DistinctRows distinct{1};
        std::vector<float> sums;            // (grams, groups, stride)
        std::vector<std::int32_t> numbers;  // of the grams in a block, by first position

        const float* sum(size_t k, size_t group, size_t stride) const {
            return &sums[(numbers[k] * groups.size() + group) * stride];
        }
    };
    static constexpr int WIDEST = 3;       // words of a gram
    static constexpr int REACH = 8;        // largest distance of its words from the token
    static constexpr size_t BLOCK = 1024;  // tokens whose parts are collected at a time

    const size_t bytes_;  // for all sums
    Grams grams_[WIDEST];
    Extractor others_;
    int before_ = 0, after_ = 0;       // words that a token needs on either side
    size_t columns_ = 1, stride_ = 0;  // of the words and of the sums
    std::mutex mutex_;

    // A sequence of a batch, and its block of tokens [begin, end).
    struct Block {
        const TokenValues& tokens;
        const std::uint64_t* words;
        std::int64_t first;
        int length, begin, end;
    };

    // Find rows of weights of keys. Raise std::out_of_range for a row without weights.
    static void look_up(Dictionary& dictionary, const Weights& weights,
                        const std::vector<std::uint64_t>& keys, std::vector<std::int32_t>& rows) {
        rows.resize(keys.size());
        dictionary.find(keys.data(), keys.size(), false, rows.data());
        for (std::int32_t row : rows)
            if (row >= 0 && size_t(row) >= weights.features())
                throw std::out_of_range("the dictionary has features without weights");
    }

    // Append the sums of new grams, whose places in `numbers` are `added`.
    void add_sums(int width, const Block& block, const std::vector<int>& added,
                  Dictionary& dictionary, const Weights& weights) {
        Grams& grams = grams_[width - 1];
        Extractor::Scratch scratch;
        std::vector<std::uint64_t> keys;
        std::vector<std::int64_t> ends;
        for (int k : added)
            for (const Group& group : grams.groups) {
                group.at_gram.extract_at(block.tokens, block.first, block.length,
                                         block.begin - before_ + k, scratch, keys);
                ends.push_back(std::int64_t(keys.size()));
            }
        std::vector<std::int32_t> rows;
        look_up(dictionary, weights, keys, rows);
        ScoreParts parts;
        std::int64_t j = 0;
        size_t sum = 0;
        for (int k : added)
            for (const Group& group : grams.groups) {
                if (group.shorter >= 0) parts.add(grams_[width - 2].sum(k, group.shorter, stride_));
                for (const std::int64_t end = ends[sum++]; j < end; ++j)
                    if (rows[j] >= 0) parts.add(weights.feature(rows[j]));
                parts.end_token();
            }
        const size_t n = grams.sums.size();
        grams.sums.resize(n + ends.size() * weights.stride);
        parts.sum(weights.stride, weights.stride, grams.sums.data() + n);
    }

    // Number the grams at the positions [begin - before, end + after) of a block, and compute the
    // sums of new ones.
    void number(const Block& block, Dictionary& dictionary, const Weights& weights) {
        const int from = block.begin - before_;
        std::vector<std::uint64_t> row(columns_);
        std::vector<int> added;
        for (int width = 1; width <= widest(); ++width) {
            Grams& grams = grams_[width - 1];
            const int n = block.end + after_ - from - (width - 1);
            grams.numbers.resize(n);
            added.clear();
            for (int k = 0; k < n; ++k) {
                if (width == 1) {
                    read_word(block, from + k, row.data());
                } else {
                    row[0] = std::uint64_t(grams_[width - 2].numbers[k]) << 32 |
                             std::uint32_t(grams_[0].numbers[k + width - 1]);
                }
                const size_t known = grams.distinct.size();
                grams.numbers[k] = grams.distinct.find(row.data(), true);
                if (size_t(grams.numbers[k]) == known) added.push_back(k);
            }
            if (!added.empty() && !grams.groups.empty())
                add_sums(width, block, added, dictionary, weights);
        }
    }

    // Read the hash and values of the word at position i. Beyond the sequence, it has a hash alone.
    void read_word(const Block& block, int i, std::uint64_t* row) const {
        const bool is_beyond = i < 0 || i >= block.length;
        const size_t at = block.first + i, n = columns_ - 1;
        row[0] = is_beyond ? beyond(i, block.length) : block.words[at];
        for (size_t c = 0; c < n; ++c) row[1 + c] = is_beyond ? 0 : block.tokens.values[at * n + c];
    }

    int widest() const {
        int width = WIDEST;
        while (width > 1 && grams_[width - 1].groups.empty()) --width;
        return width;
    }

    // Whether the memory holds the grams of so many tokens more.
    bool has_room(size_t tokens) const {
        size_t bytes = 0;
        for (const Grams& grams : grams_) {
            const size_t columns = &grams == grams_ ? columns_ : 1;
            bytes += (grams.distinct.size() + tokens) *
                     (sizeof(float) * stride_ * grams.groups.size() +
                      sizeof(std::uint64_t) * columns + DistinctRows::BYTES_OF_SLOTS);
        }
        return bytes <= bytes_;
    }

  public:
    explicit WordScores(size_t bytes) : bytes_(bytes) {}

    // Add a template. of_type: whether equal words with equal values in the columns of single values
    // have the same values of its parts.
    void add(std::uint64_t seed, const std::vector<Part>& parts, bool of_type) {
        int first = REACH + 1, last = -REACH - 1;
        for (Part part : parts) {
            first = std::min(first, part.offset);
            last = std::max(last, part.offset);
        }
        if (!of_type || last - first >= WIDEST || first < -REACH || last > REACH) {
            others_.add(seed, parts);
            return;
        }
        std::vector<Group>& groups = grams_[last - first].groups;
        const int g = find_group(last - first, first);
        std::vector<Part> moved = parts;
        for (Part& part : moved) part.offset -= first;
        groups[g].at_gram.add(seed, moved);
        before_ = std::max(before_, -first);
        after_ = std::max(after_, last);
    }

    // Compute unary (N, tags) of a batch. All calls must have the same weights and features in the
    // dictionary, which must not change meanwhile. Raise std::out_of_range if the dictionary has
    // features without weights.
    void score(const WordBatch& batch, Dictionary& dictionary, const Weights& weights, float* unary) {
        const std::lock_guard<std::mutex> lock(mutex_);
        try {
            score_all(batch, dictionary, weights, unary);
        } catch (...) {
            forget();  // grams without sums
            throw;
        }
    }

  private:
    // Return the group of an offset, which is added if it is new.
    int find_group(int order, int offset) {
        std::vector<Group>& groups = grams_[order].groups;
        for (size_t g = 0; g < groups.size(); ++g)
            if (groups[g].offset == offset) return int(g);
        groups.push_back(Group{offset, {}, -1, false});
        return int(groups.size()) - 1;
    }

    // Let the sums of longer grams include those of shorter ones at the same offset.
    void cover() {
        for (int width = 2; width <= WIDEST; ++width)
            for (Group& group : grams_[width - 1].groups) {
                std::vector<Group>& shorter = grams_[width - 2].groups;
                for (size_t g = 0; g < shorter.size(); ++g)
                    if (shorter[g].offset == group.offset) {
                        group.shorter = int(g);
                        shorter[g].is_covered = true;
                    }
            }
    }

    void forget() {
        for (Grams& grams : grams_) {
            grams.distinct.assign(&grams == grams_ ? columns_ : 1, nullptr, 0);
            grams.sums.clear();
        }
    }

    void score_all(const WordBatch& batch, Dictionary& dictionary, const Weights& weights, float* unary) {
        std::vector<std::uint64_t> keys;
        std::vector<std::int64_t> starts = {0};
        std::vector<std::int32_t> rows;
        others_.extract(batch.tokens, batch.lengths, batch.size, keys, starts);
        look_up(dictionary, weights, keys, rows);
        const size_t columns = 1 + batch.tokens.singles;
        if (columns != columns_ || weights.stride != stride_) {
            cover();
            columns_ = columns;
            stride_ = weights.stride;
            forget();
        }
        ScoreParts parts;
        std::int64_t first = 0;
        for (int b = 0; b < batch.size; first += batch.lengths[b++]) {
            const int length = batch.lengths[b], stop = std::min(batch.to, length);
            for (int begin = batch.from; begin < stop; begin += BLOCK) {
                const int end = std::min(stop, begin + int(BLOCK));
                if (!has_room(end - begin + before_ + after_)) forget();
                number({batch.tokens, batch.words, first, length, begin, end}, dictionary, weights);
                parts.clear();
                for (int i = begin; i < end; ++i) {
                    parts.add_position(weights, i == 0, i == length - 1);
                    for (const Grams& grams : grams_)
                        for (size_t g = 0; g < grams.groups.size(); ++g) {
                            const Group& group = grams.groups[g];
                            if (!group.is_covered)
                                parts.add(grams.sum(i - begin + before_ + group.offset, g, stride_));
                        }
                    for (std::int64_t j = starts[first + i]; j < starts[first + i + 1]; ++j)
                        if (rows[j] >= 0) parts.add(weights.feature(rows[j]));
                    parts.end_token();
                }
                parts.sum(stride_, weights.tags, unary + (first + begin) * weights.tags);
            }
        }
    }
};

}  // namespace bcrf
