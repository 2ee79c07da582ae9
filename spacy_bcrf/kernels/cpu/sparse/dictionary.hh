// The map from 64-bit feature keys to rows of the weight table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "../prefetch.hh"
#include "templates.hh"

namespace bcrf {

// Return a random number that is the same for the whole process. With it, nobody can choose keys
// that collide.
inline std::uint64_t hash_seed() {
    static const std::uint64_t seed = [] {
        std::random_device random;
        return std::uint64_t(random()) << 32 | random();
    }();
    return seed;
}

// A hash table with linear probing. It distinguishes all keys. Two of n features have the same key
// with a probability of about n^2 / 2^65.
class Dictionary {
    struct Slot {
        std::uint64_t key = 0;
        std::int32_t entry = -1;  // -1 if the slot is free
    };
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    std::vector<std::uint64_t> keys_;    // by entry
    std::vector<std::int64_t> counts_;   // by entry; empty after `assign`

    // The rows of the keys do not depend on the seed.
    const std::uint64_t seed_ = hash_seed();

    size_t home(std::uint64_t key) const { return mix(seed_, key) & (slots_.size() - 1); }

    size_t probe(std::uint64_t key) const {
        size_t at = home(key);
        while (slots_[at].entry >= 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    void rehash(size_t size) {
        slots_.assign(size, Slot{});
        for (size_t i = 0; i < keys_.size(); ++i)
            slots_[probe(keys_[i])] = Slot{keys_[i], std::int32_t(i)};
    }

    std::int32_t insert(size_t at, std::uint64_t key) {
        const auto entry = std::int32_t(keys_.size());
        slots_[at] = Slot{key, entry};
        keys_.push_back(key);
        if (2 * keys_.size() > slots_.size()) rehash(2 * slots_.size());
        return entry;
    }

    static constexpr size_t AHEAD = 16;

    void prefetch_home(const std::uint64_t* keys, size_t i, size_t n) const {
        if (i + AHEAD < n) prefetch(&slots_[home(keys[i + AHEAD])]);
    }

  public:
    size_t size() const { return keys_.size(); }
    const std::uint64_t* keys() const { return keys_.data(); }

    // Replace all keys. The i-th key gets row i.
    void assign(const std::uint64_t* keys, size_t n) {
        keys_.assign(keys, keys + n);
        counts_.clear();
        size_t size = 64;
        while (size < 2 * n + 2) size *= 2;
        rehash(size);
    }

    // Increment the counts of the keys, and add keys that are new.
    void count(const std::uint64_t* keys, size_t n) {
        counts_.resize(keys_.size());
        for (size_t i = 0; i < n; ++i) {
            prefetch_home(keys, i, n);
            const size_t at = probe(keys[i]);
            if (slots_[at].entry < 0) {
                insert(at, keys[i]);
                counts_.push_back(1);
            } else {
                ++counts_[slots_[at].entry];
            }
        }
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
        for (std::int32_t i : order) kept.push_back(keys_[i]);
        assign(kept.data(), kept.size());
    }

    // Set rows[i] to the row of keys[i]. An unknown key gets a new row if `add`, else -1.
    void find(const std::uint64_t* keys, size_t n, bool add, std::int32_t* rows) {
        for (size_t i = 0; i < n; ++i) {
            prefetch_home(keys, i, n);
            const size_t at = probe(keys[i]);
            rows[i] = slots_[at].entry < 0 && add ? insert(at, keys[i]) : slots_[at].entry;
        }
    }
};

}  // namespace bcrf
