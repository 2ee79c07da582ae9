// Tag scores of the tokens of sequences under fixed weights.
#pragma once

#include <mutex>
#include <stdexcept>
#include <vector>

#include "kernels.hh"

namespace bcrf {

// Weights (rows, stride), laid out as in Model, of a chain with so many tags.
struct Weights {
    const float* table;
    size_t rows, stride;
    int tags;

    const float* row(size_t i) const { return table + i * stride; }
    const float* feature(size_t i) const { return row(i + tags + 3); }
    size_t features() const { return rows - tags - 3; }
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
        add(weights.row(weights.tags));
        if (is_first) add(weights.row(weights.tags + 1));
        if (is_last) add(weights.row(weights.tags + 2));
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

// Unary scores of tokens. Most templates read one attribute of one word, so a word type always adds
// the same scores to its own token, to the next one and so on. The class keeps these sums for each
// type and offset. A token then adds a few arrays in place of dozens of rows, and needs no keys of
// these features.
//
// Threads share an object: one at a time computes scores.
class WordScores {
    // Templates with one part at this offset. `at_word` has them at offset 0, to read a word alone.
    struct Group {
        int offset;
        Extractor at_word;
        std::vector<Extractor> outside;  // by distance from the sequence, 1, 2, ..
        std::vector<float> outside_sums;
    };
    static constexpr int REACH = 8;  // largest offset of a group
    static constexpr size_t BLOCK = 1024;  // tokens whose parts are collected at a time

    const size_t bytes_;  // for the sums of all types
    std::vector<Group> groups_;
    Extractor others_;
    std::vector<float> sums_;  // (types, groups, stride)
    DistinctRows types_{1};    // (types, columns): hash of the word, and its values
    size_t columns_ = 1, stride_ = 0;  // of the types and of their sums
    bool has_outside_sums_ = false;
    std::mutex mutex_;

    // Find rows of weights of keys. Raise std::out_of_range for a row without weights.
    static void look_up(Dictionary& dictionary, const Weights& weights,
                        const std::vector<std::uint64_t>& keys, std::vector<std::int32_t>& rows) {
        rows.resize(keys.size());
        dictionary.find(keys.data(), keys.size(), false, rows.data());
        for (std::int32_t row : rows)
            if (row >= 0 && size_t(row) >= weights.features())
                throw std::out_of_range("the dictionary has features without weights");
    }

    // Compute (n, stride), the sum of the features of n sequences of one token.
    static void sum_features(const Extractor& extractor, const TokenValues& tokens, int n,
                             Dictionary& dictionary, const Weights& weights, float* sums) {
        const std::vector<std::int32_t> lengths(n, 1);
        std::vector<std::uint64_t> keys;
        std::vector<std::int64_t> starts = {0};
        extractor.extract(tokens, lengths.data(), n, keys, starts, nullptr);
        std::vector<std::int32_t> rows;
        look_up(dictionary, weights, keys, rows);
        ScoreParts parts;
        for (int i = 0; i < n; ++i) {
            for (std::int64_t j = starts[i]; j < starts[i + 1]; ++j)
                if (rows[j] >= 0) parts.add(weights.feature(rows[j]));
            parts.end_token();
        }
        parts.sum(weights.stride, weights.stride, sums);
    }

    // Return the values of some tokens in place of all. The vectors keep them.
    static TokenValues take(const TokenValues& tokens, const std::vector<size_t>& chosen,
                            std::vector<std::uint64_t>& values, std::vector<std::int32_t>& words) {
        for (size_t i : chosen) {
            const std::uint64_t* row = tokens.values + i * tokens.singles;
            values.insert(values.end(), row, row + tokens.singles);
            words.push_back(tokens.words[i]);
        }
        TokenValues taken = tokens;
        taken.values = values.data();
        taken.words = words.data();
        return taken;
    }

    void start(Dictionary& dictionary, const Weights& weights) {
        TokenValues nothing = {};
        for (Group& group : groups_) {
            const size_t n = group.outside.size();
            group.outside_sums.resize(n * weights.stride);
            for (size_t k = 0; k < n; ++k)
                sum_features(group.outside[k], nothing, 1, dictionary, weights,
                             &group.outside_sums[k * weights.stride]);
        }
        has_outside_sums_ = true;
    }

    // Set `found` to the types of tokens [first, last). Compute the sums of new types.
    void find_types(const TokenValues& tokens, const std::uint64_t* words, size_t first,
                    size_t last, Dictionary& dictionary, const Weights& weights,
                    std::vector<std::int32_t>& found) {
        const size_t n_before = types_.size();
        std::vector<std::uint64_t> row(columns_);
        std::vector<size_t> added;
        found.clear();
        for (size_t i = first; i < last; ++i) {
            row[0] = words[i];
            std::copy_n(tokens.values + i * tokens.singles, tokens.singles, row.begin() + 1);
            found.push_back(types_.find(row.data(), true));
            if (size_t(found.back()) == n_before + added.size()) added.push_back(i);
        }
        if (added.empty()) return;
        std::vector<std::uint64_t> values;
        std::vector<std::int32_t> cells;
        const TokenValues taken = take(tokens, added, values, cells);
        const size_t stride = weights.stride, n_groups = groups_.size();
        std::vector<float> sums(added.size() * stride);
        sums_.resize(types_.size() * n_groups * stride);
        for (size_t g = 0; g < n_groups; ++g) {
            sum_features(groups_[g].at_word, taken, int(added.size()), dictionary, weights,
                         sums.data());
            for (size_t k = 0; k < added.size(); ++k)
                std::copy_n(&sums[k * stride], stride,
                            &sums_[((n_before + k) * n_groups + g) * stride]);
        }
    }

    // Return the sums that the words at the offset of a group add to a token.
    const float* part(const Group& group, size_t g, std::int64_t token, std::int64_t first,
                      std::int64_t last, const std::int32_t* type, size_t stride) const {
        const std::int64_t at = token + group.offset;
        if (at < first) return &group.outside_sums[(first - at - 1) * stride];
        if (at >= last) return &group.outside_sums[(at - last) * stride];
        return &sums_[(type[group.offset] * groups_.size() + g) * stride];
    }

  public:
    explicit WordScores(size_t bytes) : bytes_(bytes) {}

    // Add a template. of_type: whether equal words with equal values in the columns of single values
    // have the same values of its parts.
    void add(std::uint64_t seed, const std::vector<Part>& parts, bool of_type) {
        if (!of_type || parts.size() != 1 || parts[0].offset > REACH || parts[0].offset < -REACH) {
            others_.add(seed, parts);
            return;
        }
        const int column = parts[0].column, offset = parts[0].offset;
        const int distance = offset < 0 ? -offset : offset;
        size_t g = 0;
        while (g < groups_.size() && groups_[g].offset != offset) ++g;
        if (g == groups_.size()) {
            groups_.emplace_back();
            groups_[g].offset = offset;
            groups_[g].outside.resize(distance);
        }
        groups_[g].at_word.add(seed, {Part{column, 0}});
        for (int d = 1; d <= distance; ++d)
            groups_[g].outside[d - 1].add(seed, {Part{column, offset < 0 ? -d : d}});
    }

    // Compute unary (N, tags) of a batch. All calls must have the same weights and features in the
    // dictionary, which must not change meanwhile. Raise std::out_of_range if the dictionary has
    // features without weights.
    void score(const TokenValues& tokens, const std::uint64_t* words, const int* lengths, int batch,
               Dictionary& dictionary, const Weights& weights, float* unary) {
        const std::lock_guard<std::mutex> lock(mutex_);
        try {
            score_all(tokens, words, lengths, batch, dictionary, weights, unary);
        } catch (...) {
            forget();  // types without sums
            throw;
        }
    }

  private:
    void forget() {
        types_.assign(columns_, nullptr, 0);
        sums_.clear();
        has_outside_sums_ = false;
    }

    void score_all(const TokenValues& tokens, const std::uint64_t* words, const int* lengths,
                   int batch, Dictionary& dictionary, const Weights& weights, float* unary) {
        std::vector<std::uint64_t> keys;
        std::vector<std::int64_t> starts = {0};
        std::vector<std::int32_t> rows, types;
        others_.extract(tokens, lengths, batch, keys, starts, nullptr);
        look_up(dictionary, weights, keys, rows);
        const size_t columns = 1 + tokens.singles;
        if (columns != columns_ || weights.stride != stride_) {
            columns_ = columns;
            stride_ = weights.stride;
            forget();
        }
        const size_t of_type = sizeof(float) * stride_ * groups_.size() + sizeof(*words) * columns;
        const size_t most = bytes_ / (of_type + DistinctRows::BYTES_OF_SLOTS);
        ScoreParts parts;
        std::int64_t first = 0;
        for (int b = 0; b < batch; ++b) {
            const std::int64_t last = first + lengths[b];
            for (std::int64_t begin = first; begin < last; begin += BLOCK) {
                const std::int64_t end = std::min(last, begin + std::int64_t(BLOCK));
                const std::int64_t from = std::max(first, begin - REACH);
                const std::int64_t to = std::min(last, end + REACH);
                if (types_.size() + (to - from) > most) forget();
                if (!has_outside_sums_) start(dictionary, weights);
                find_types(tokens, words, from, to, dictionary, weights, types);
                parts.clear();
                for (std::int64_t i = begin; i < end; ++i) {
                    parts.add_position(weights, i == first, i == last - 1);
                    for (size_t g = 0; g < groups_.size(); ++g)
                        parts.add(part(groups_[g], g, i, first, last, &types[i - from],
                                       weights.stride));
                    for (std::int64_t j = starts[i]; j < starts[i + 1]; ++j)
                        if (rows[j] >= 0) parts.add(weights.feature(rows[j]));
                    parts.end_token();
                }
                parts.sum(weights.stride, weights.tags, unary + begin * weights.tags);
            }
            first = last;
        }
    }
};

}  // namespace bcrf
