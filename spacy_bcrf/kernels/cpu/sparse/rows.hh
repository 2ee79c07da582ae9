// Sums and updates of rows of the weight table.
#pragma once

#include "../batch.hh"
#include "../target.hh"

namespace bcrf {
namespace BCRF_TARGET {

// A row has a whole number of these for every instruction set, because models move between
// machines.
#if defined(__GNUC__)
typedef float Lane __attribute__((vector_size(32)));
#else
struct Lane {
    float x[8];
    Lane operator+(const Lane& o) const {
        Lane sum;
        for (int i = 0; i < 8; ++i) sum.x[i] = x[i] + o.x[i];
        return sum;
    }
};
#endif

BCRF_INLINE Lane load_lane(const float* p) {
    Lane v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// Set out[0 : 8 * N] to the sum of n rows.
template <int N>
BCRF_INLINE void sum_block(float* out, const float* table, size_t stride, const int* rows, int n) {
    Lane total[N];
    for (int k = 0; k < N; ++k) total[k] = Lane{};
    for (int r = 0; r < n; ++r) {
        const float* row = table + rows[r] * stride;
        for (int k = 0; k < N; ++k) total[k] = total[k] + load_lane(row + 8 * k);
    }
    std::memcpy(out, total, sizeof total);
}

// Set out (stride) to the sum of n rows.
inline void sum_rows(float* out, const float* table, size_t stride, const int* rows, int n) {
    size_t left = stride / 8;
    while (left) {
        const size_t step = left < 6 ? left : 6;
        switch (step) {
            case 1: sum_block<1>(out, table, stride, rows, n); break;
            case 2: sum_block<2>(out, table, stride, rows, n); break;
            case 3: sum_block<3>(out, table, stride, rows, n); break;
            case 4: sum_block<4>(out, table, stride, rows, n); break;
            case 5: sum_block<5>(out, table, stride, rows, n); break;
            default: sum_block<6>(out, table, stride, rows, n);
        }
        out += 8 * step;
        table += 8 * step;
        left -= step;
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

}  // namespace BCRF_TARGET
}  // namespace bcrf
