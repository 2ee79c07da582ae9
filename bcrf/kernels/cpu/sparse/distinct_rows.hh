// The hash table of features, of word types and of rows of attributes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "../batch.hh"

namespace bcrf {

using std::size_t;

// Hash a value into a key, by Sebastiano Vigna's splitmix64 finalizer, after D. Stafford's Mix13. It
// is a bijection of either.
inline std::uint64_t mix(std::uint64_t key, std::uint64_t value) {
    key = (key ^ value) + 0x9E3779B97F4A7C15ull;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ull;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBull;
    return key ^ (key >> 31);
}

// Return a random number that is the same for the whole process. With it, nobody can choose rows
// that collide.
inline std::uint64_t hash_seed() {
    static const std::uint64_t seed = [] {
        std::random_device random;
        return std::uint64_t(random()) << 32 | random();
    }();
    return seed;
}

// Distinct rows of `width` values, numbered from 0 in the order in which they come, by a hash table
// with linear probing. Numbers do not depend on the seed.
class DistinctRows {
    struct Slot {
        std::uint64_t hash;
        std::int32_t number;  // -1 if the slot is free
    };
    size_t width_;
    std::vector<std::uint64_t> rows_;
    std::vector<Slot> slots_;
    const std::uint64_t seed_ = hash_seed();

    std::uint64_t hash(const std::uint64_t* row) const {
        std::uint64_t hash = seed_;
        for (size_t i = 0; i < width_; ++i) hash = mix(hash, row[i]);
        return hash;
    }

    // Return the slot of a row, or the free slot where it belongs.
    size_t probe(std::uint64_t hash, const std::uint64_t* row) const {
        size_t at = hash & (slots_.size() - 1);
        for (; slots_[at].number >= 0; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].hash != hash) continue;
            // A hash of one value is a bijection.
            if (width_ == 1 || std::equal(row, row + width_, &rows_[slots_[at].number * width_])) break;
        }
        return at;
    }

    // At most half of the slots are in use.
    void rehash() {
        size_t n = 64;
        while (n < 2 * size() + 2) n *= 2;
        slots_.assign(n, Slot{0, -1});
        for (size_t i = 0; i < size(); ++i) {
            const std::uint64_t* row = &rows_[i * width_];
            const std::uint64_t hashed = hash(row);
            slots_[probe(hashed, row)] = Slot{hashed, std::int32_t(i)};
        }
    }

  public:
    static constexpr size_t BYTES_OF_SLOTS = 2 * sizeof(Slot);  // of a row, at least

    explicit DistinctRows(size_t width) { assign(width, nullptr, 0); }

    size_t size() const { return rows_.size() / width_; }
    const std::uint64_t* rows() const { return rows_.data(); }

    // Replace all rows by n others.
    void assign(size_t width, const std::uint64_t* rows, size_t n) {
        width_ = width;
        rows_.assign(rows, rows + n * width);
        rehash();
    }

    // Return the number of a row. An unknown row gets a new number if `add`, else -1.
    std::int32_t find(const std::uint64_t* row, bool add) {
        const std::uint64_t hashed = hash(row);
        const size_t at = probe(hashed, row);
        if (slots_[at].number >= 0 || !add) return slots_[at].number;
        const auto number = std::int32_t(size());
        rows_.insert(rows_.end(), row, row + width_);
        slots_[at] = Slot{hashed, number};
        if (2 * size() > slots_.size()) rehash();
        return number;
    }

    // Call found(i, number) for each of n rows.
    template <class Found> void find_all(const std::uint64_t* rows, size_t n, bool add, Found found) {
        constexpr size_t AHEAD = 16;
        for (size_t i = 0; i < n; ++i) {
            // Only tables of features are larger than the caches.
            if (width_ == 1 && i + AHEAD < n) prefetch(&slots_[hash(rows + i + AHEAD) & (slots_.size() - 1)]);
            found(i, find(rows + i * width_, add));
        }
    }

    // Write the numbers of n rows.
    void number(const std::uint64_t* rows, size_t n, bool add, std::int32_t* numbers) {
        find_all(rows, n, add, [=](size_t i, std::int32_t number) { numbers[i] = number; });
    }
};

}  // namespace bcrf
