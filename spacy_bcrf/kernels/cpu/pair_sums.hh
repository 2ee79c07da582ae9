// Sums of edge marginals a[i, u] K[u, v] b[i+1, v] over many edges i, from node factors a and b: K times a sum of outer
// products. The sum is in R over MOST_SUMMED edges, then in double.
#pragma once

#include "lanes.hh"
#include "products.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Sums (tags, width) of some edges in R, before they go on in double.
template <class R> class PendingSums {
    const int tags_, width_;
    int pending_ = 0;
    Buffer<R> sums_;  // made when needed

  public:
    explicit PendingSums(int tags) : tags_(tags), width_(padded<R>(tags)) {}
    R* get() {
        if (!sums_.data()) sums_ = Buffer<R>(size_t(tags_) * width_);
        return sums_;
    }
    // Count edges whose numbers are in the sums. k: factors of the sums (tags, width), or null.
    void count(int edges, const R* k, double* sum) {
        pending_ += edges;
        if (pending_ >= Precision<R>::MOST_SUMMED) flush(k, sum);
    }
    void flush(const R* k, double* sum) {
        if (!pending_) return;
        pending_ = 0;
        R* sums = sums_;
        for (int u = 0; u < tags_; ++u, sums += width_, sum += tags_)
            for (int v = 0; v < tags_; ++v) {
                sum[v] += double(sums[v]) * (k ? k[size_t(u) * width_ + v] : R(1));
                sums[v] = 0;
            }
    }
};

// Sums of rows of tags.
template <class R> class RowPairSums : PendingSums<R> {
    const int tags_, width_;

    // Add the products of the numbers of tags u, u + 1, .. of a with the rows of b.
    template <int N> void add_tags(int u, const R* a, const R* b, int rows, R* sums) {
        const R* x[N];
        for (int r = 0; r < N; ++r) x[r] = a + u + r;
        R* to = sums + size_t(u) * width_;
        row_products<Plain<R>, N>(x, width_, b, rows, width_, [&](int r, int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
            R* at = to + r * width_ + v * lanes<R>;
            store(at, load(at) + sum);
        });
    }

  public:
    using PendingSums<R>::flush;
    explicit RowPairSums(int tags) : PendingSums<R>(tags), tags_(tags), width_(padded<R>(tags)) {}

    // k: factors of the sums (tags, width), or null.
    void add(const R* a, const R* b, int edges, const R* k, double* sum) {
        for (int rows; edges > 0; edges -= rows, a += rows * width_, b += rows * width_) {
            rows = std::min(edges, Precision<R>::MOST_SUMMED);
            for_blocks<4>(tags_, [&](auto n, int u) { add_tags<n.value>(u, a, b, rows, this->get()); });
            this->count(rows, k, sum);
        }
    }
};

// Return the sum of each of lanes<R> rows, in the row's lane. It changes the rows.
template <class R> BCRF_INLINE Vec<R> row_sums(Vec<R>* rows) {
    transpose_lanes<R>(rows);
    for (int left = lanes<R> / 2; left > 0; left /= 2)
        for (int i = 0; i < left; ++i) rows[i] += rows[i + left];
    return rows[0];
}

// Sums over edges and lanes of the products of numbers of the tags of a block: `from` of a token, and `to` of the next.
template <class R> class LanePairSums {
    static constexpr int W = lanes<R>;
    const TransitionBlock<R>& block_;
    const size_t tags_;
    const bool weighted_;
    int pending_ = 0;
    Buffer<R> products_;  // (from, to, W), and a vector that row_sums may read; made by `add`

    R* at(int u, int v) { return products_ + (u * block_.to.size() + v) * W; }

    // Add sum_i a[i, u] b[i, v] in each lane, for ROWS numbers u and COLUMNS numbers v. See `add`.
    template <int ROWS, int COLUMNS>
    BCRF_INLINE void add_some(int u, int v, const R* a, const R* b, size_t stride, int steps, size_t step) {
        Vec<R> sums[ROWS][COLUMNS];
        const R *x[ROWS], *y[COLUMNS];
        for (int r = 0; r < ROWS; ++r) x[r] = a + block_.from[u + r] * stride;
        for (int c = 0; c < COLUMNS; ++c) y[c] = b + block_.to[v + c] * stride;
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < COLUMNS; ++c) sums[r][c] = load(at(u + r, v + c));
        for (size_t i = 0; steps > 0; --steps, i += step) {
            Vec<R> of_row[ROWS];
            for (int r = 0; r < ROWS; ++r) of_row[r] = load(x[r] + i);
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<R> of_column = load(y[c] + i);
                for (int r = 0; r < ROWS; ++r) sums[r][c] += of_row[r] * of_column;
            }
        }
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < COLUMNS; ++c) store(at(u + r, v + c), sums[r][c]);
    }

    template <int ROWS> void add_rows(int u, const R* a, const R* b, size_t stride, int steps, size_t step) {
        constexpr int COLUMNS = BCRF_VECTOR_BYTES == 64 ? 4 : 3;
        const int columns = int(block_.to.size());
        int v = 0;
        for (; v + COLUMNS <= columns; v += COLUMNS) add_some<ROWS, COLUMNS>(u, v, a, b, stride, steps, step);
        if (v == columns) return;
        with_constant<COLUMNS - 1>(columns - v, [&](auto n) {
            add_some<ROWS, n.value>(u, v, a, b, stride, steps, step);
        });
    }

  public:
    // weighted: multiply the sums by the weights of the block, which must outlive them.
    LanePairSums(const TransitionBlock<R>& block, int tags, bool weighted)
        : block_(block), tags_(tags), weighted_(weighted) {}

    // Add the products of a[i] and b[i] for `edges` numbers i. The numbers of a token are `stride` apart, and tokens are
    // `step` apart.
    void add(const R* a, const R* b, size_t stride, int edges, size_t step, double* sum) {
        constexpr int ROWS = BCRF_VECTOR_BYTES == 64 ? 5 : 3;
        if (!products_.data()) products_ = Buffer<R>((block_.from.size() * block_.to.size() + W) * W);
        // Few tags: more totals fit the first cache than rows.
        const int most = block_.to.size() <= 24 ? 8 : 24, rows = int(block_.from.size());
        for (int i = 0; i < edges; i += most) {
            const int steps = std::min(most, edges - i);
            const R *x = a + i * step, *y = b + i * step;
            int u = 0;
            for (; u + ROWS <= rows; u += ROWS) add_rows<ROWS>(u, x, y, stride, steps, step);
            for (; u + 2 <= rows; u += 2) add_rows<2>(u, x, y, stride, steps, step);
            for (; u < rows; ++u) add_rows<1>(u, x, y, stride, steps, step);
            pending_ += steps;
            if (pending_ >= Precision<R>::MOST_SUMMED) flush(sum);
        }
    }

    void flush(double* sum) {
        if (!pending_) return;
        R* products = products_;
        const R* weights = block_.weights;
        for (int u : block_.from) {
            for (size_t v = 0; v < block_.to.size(); v += W) {
                const int n = std::min(W, int(block_.to.size() - v));
                Vec<R> rows[W];
                for (int i = 0; i < W; ++i) rows[i] = load(products + size_t(i) * W);
                const Vec<R> sums = row_sums<R>(rows);
                for (int i = 0; i < n; ++i)
                    sum[u * tags_ + block_.to[v + i]] += double(sums[i]) * (weighted_ ? weights[v + i] : R(1));
                std::memset(products, 0, n * sizeof(Vec<R>));
                products += n * W;
            }
            weights += block_.width;
        }
        pending_ = 0;
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
