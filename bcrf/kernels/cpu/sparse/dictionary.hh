// The map from 64-bit feature keys to rows of the weight table.
#pragma once

#include "distinct_rows.hh"

namespace bcrf {

// It distinguishes all keys. Two of n features have the same key with a probability of about
// n^2 / 2^65.
class Dictionary {
    DistinctRows keys_{1};
    std::vector<std::int64_t> counts_;  // by row; empty after `assign`

  public:
    size_t size() const { return keys_.size(); }
    const std::uint64_t* keys() const { return keys_.rows(); }

    // Replace all keys. The i-th key gets row i.
    void assign(const std::uint64_t* keys, size_t n) {
        keys_.assign(1, keys, n);
        counts_.clear();
    }

    // Increment the counts of the keys, and add keys that are new.
    void count(const std::uint64_t* keys, size_t n) {
        counts_.resize(size());
        keys_.find_all(keys, n, true, [&](size_t, std::int32_t row) {
            if (size_t(row) == counts_.size()) counts_.push_back(0);
            ++counts_[row];
        });
    }

    // Drop keys with a lower count, and number the others by falling count. So the rows that most
    // sequences need are adjacent and stay in the cache.
    void keep(std::int64_t min_freq) {
        std::vector<std::int32_t> order;
        for (size_t i = 0; i < counts_.size(); ++i)
            if (counts_[i] >= min_freq) order.push_back(std::int32_t(i));
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
            return counts_[a] > counts_[b];
        });
        std::vector<std::uint64_t> kept;
        for (std::int32_t i : order) kept.push_back(keys()[i]);
        assign(kept.data(), kept.size());
    }

    // Set rows[i] to the row of keys[i]. An unknown key gets a new row if `add`, else -1.
    void find(const std::uint64_t* keys, size_t n, bool add, std::int32_t* rows) {
        keys_.number(keys, n, add, rows);
    }
};

}  // namespace bcrf
