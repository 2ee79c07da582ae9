// Sums and updates of rows of the weight table.
#pragma once

#include "../batch.hh"
#include "../target.hh"
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

// Set out[0 : 8 * N] to the sum of n rows. row(k): the k-th, from its first column of these on.
template <int N, class Row> BCRF_INLINE void sum_block(float* out, std::int64_t n, Row row) {
    Lane total[N];
    for (int k = 0; k < N; ++k) total[k] = Lane{};
    for (std::int64_t r = 0; r < n; ++r) {
        const float* at = row(r);
        for (int k = 0; k < N; ++k) total[k] = total[k] + load_lane(at + 8 * k);
    }
    std::memcpy(out, total, sizeof total);
}

// Set out (stride) to the sum of n rows. row(k): the k-th.
template <class Row> BCRF_INLINE void sum_rows(float* out, size_t stride, std::int64_t n, Row row) {
    for (size_t at = 0; at < stride;) {
        const size_t left = (stride - at) / 8, step = left < 6 ? left : 6;
        const auto from = [&](std::int64_t r) { return row(r) + at; };
        switch (step) {
            case 1: sum_block<1>(out + at, n, from); break;
            case 2: sum_block<2>(out + at, n, from); break;
            case 3: sum_block<3>(out + at, n, from); break;
            case 4: sum_block<4>(out + at, n, from); break;
            case 5: sum_block<5>(out + at, n, from); break;
            default: sum_block<6>(out + at, n, from);
        }
        at += 8 * step;
    }
}

// Add change[0 : 8 * N] to each of n rows.
template <int N>
BCRF_INLINE void add_block(float* table, size_t stride, const int* rows, int n, const float* change) {
    Lane by[N];
    for (int k = 0; k < N; ++k) by[k] = load_lane(change + 8 * k);
    for (int r = 0; r < n; ++r) {
        float* row = table + rows[r] * stride;
        for (int k = 0; k < N; ++k) {
            const Lane sum = load_lane(row + 8 * k) + by[k];
            std::memcpy(row + 8 * k, &sum, sizeof sum);
        }
    }
}

// Add change (stride) to each of n rows.
inline void add_to_rows(float* table, size_t stride, const int* rows, int n, const float* change) {
    size_t left = stride / 8;
    while (left) {
        const size_t step = left < 4 ? left : 4;
        switch (step) {
            case 1: add_block<1>(table, stride, rows, n, change); break;
            case 2: add_block<2>(table, stride, rows, n, change); break;
            case 3: add_block<3>(table, stride, rows, n, change); break;
            default: add_block<4>(table, stride, rows, n, change);
        }
        change += 8 * step;
        table += 8 * step;
        left -= step;
    }
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
