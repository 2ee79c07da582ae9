// Sums and updates of rows of the weight table.
#pragma once

#include "../simd.hh"
#include "model.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A row has a whole number of these for every instruction set, because models move between
// machines.
typedef float Lane __attribute__((vector_size(32)));

BCRF_INLINE Lane load_lane(const float* p) {
    Lane v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// Set out (stride) to the sum of n rows. row(k): the k-th.
template <class Row> BCRF_INLINE void sum_rows(float* out, size_t stride, std::int64_t n, Row row) {
    for_blocks<6>(int(stride / 8), [&](auto count, int first) BCRF_INLINE_LAMBDA {
        Lane total[count.value] = {};
        for (std::int64_t r = 0; r < n; ++r) {
            const float* from = row(r) + 8 * first;
            for (int k = 0; k < count.value; ++k) total[k] += load_lane(from + 8 * k);
        }
        std::memcpy(out + 8 * first, total, sizeof total);
    });
}

// Add change (stride) to each of n rows.
inline void add_to_rows(float* table, size_t stride, const int* rows, int n, const float* change) {
    for_blocks<4>(int(stride / 8), [&](auto count, int first) BCRF_INLINE_LAMBDA {
        Lane by[count.value];
        for (int k = 0; k < count.value; ++k) by[k] = load_lane(change + 8 * (first + k));
        for (int r = 0; r < n; ++r) {
            float* row = table + rows[r] * stride + 8 * first;
            for (int k = 0; k < count.value; ++k) {
                const Lane sum = load_lane(row + 8 * k) + by[k];
                std::memcpy(row + 8 * k, &sum, sizeof sum);
            }
        }
    });
}

// The rows of weights of a sequence.
class FeatureRows {
    const Model& m_;
    const Sequences* data_ = nullptr;
    size_t first_ = 0;  // its first token

  public:
    int length = 0;
    std::vector<int> of_token;  // see `find`

    explicit FeatureRows(const Model& model) : m_(model) {}

    void set(const Sequences& data, size_t first, int n) { data_ = &data, first_ = first, length = n; }

    // Return the features of token i.
    std::int64_t count(int i) const { return data_->starts[first_ + i + 1] - data_->starts[first_ + i]; }
    const int* features(int i) const { return data_->rows + data_->starts[first_ + i]; }

    // Set of_token to the rows of token i: bias, start, end, then features. Return their number.
    int find(int i) {
        of_token.clear();
        of_token.push_back(m_.bias());
        if (i == 0) of_token.push_back(m_.bias() + 1);
        if (i == length - 1) of_token.push_back(m_.bias() + 2);
        const int shift = int(m_.first_feature());
        for (std::int64_t k = 0; k < count(i); ++k) of_token.push_back(features(i)[k] + shift);
        return int(of_token.size());
    }

    void prefetch_rows(const Table& table, int i) const {
        for (std::int64_t k = 0; k < count(i); ++k)
            prefetch(table.row(features(i)[k] + m_.first_feature()), m_.stride);
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
