// An index of distinct rows of attribute values.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace bcrf {

// Number distinct rows of `width` values from 0, in the order in which they come.
class DistinctRows {
    size_t width_;
    std::vector<std::uint64_t> rows_;
    std::vector<std::int32_t> slots_;  // open addressing; -1 is free

    size_t slot(const std::uint64_t* row) const {
        std::uint64_t hash = 0;
        for (size_t i = 0; i < width_; ++i) {
            hash = (hash ^ row[i]) * 0x9E3779B97F4A7C15ull;
            hash ^= hash >> 32;
        }
        size_t at = hash & (slots_.size() - 1);
        while (slots_[at] >= 0 &&
               std::memcmp(&rows_[slots_[at] * width_], row, width_ * sizeof *row) != 0)
            at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    void grow() {
        slots_.assign(slots_.size() * 2, -1);
        for (size_t i = 0; i < size(); ++i) slots_[slot(&rows_[i * width_])] = std::int32_t(i);
    }

  public:
    explicit DistinctRows(size_t width) : width_(width), slots_(1024, -1) {}

    size_t size() const { return rows_.size() / width_; }

    // Write the numbers of n rows. Add rows that are new.
    void number(const std::uint64_t* rows, size_t n, std::int32_t* numbers) {
        for (size_t i = 0; i < n; ++i, rows += width_) {
            size_t at = slot(rows);
            if (slots_[at] < 0) {
                slots_[at] = std::int32_t(size());
                rows_.insert(rows_.end(), rows, rows + width_);
                if (size() * 2 > slots_.size()) {
                    grow();
                    at = slot(rows);
                }
            }
            numbers[i] = slots_[at];
        }
    }

    const std::uint64_t* rows() const { return rows_.data(); }
};

}  // namespace bcrf
