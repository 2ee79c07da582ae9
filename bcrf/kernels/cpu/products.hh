// Products of rows with a T x T matrix K: a number N, see numbers.hh, says what a sum and a product is. Each product
// hands the finished sums to a visitor while they are in registers.
//
// Sums of edge marginals a[i, u] K[u, v] b[i+1, v] over many edges i, from node factors a and b: K times a sum of outer
// products. The sum is in R over MOST_SUMMED edges, then in double.
#pragma once

#include "lanes.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Call visit(r, v, sum) with vector v of x[r] K, for ROWS rows and COLUMNS vectors from `first` on. Each vector of K is
// loaded once for all rows, and the totals stay in registers. step: between the numbers of x.
template <class N, int ROWS, int COLUMNS, class R, class Visit>
BCRF_INLINE void product_block(const R* const* x, size_t step, const R* k, int tags, size_t width, int first,
                               Visit visit) {
    // Fewer than 8 totals do not hide the latency of the sums, so they are split in two.
    constexpr int WAYS = ROWS * COLUMNS < 8 ? 2 : 1;
    Vec<R> total[WAYS][ROWS][COLUMNS];
    for (int w = 0; w < WAYS; ++w)
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < COLUMNS; ++c) total[w][r][c] = N::zero();
    const R* from[ROWS];
    for (int r = 0; r < ROWS; ++r) from[r] = x[r];
    const auto add_rows = [&](int ways) BCRF_INLINE_LAMBDA {
        for (int w = 0; w < ways; ++w, k += width)
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<R> row = load(k + c * lanes<R>);
                for (int r = 0; r < ROWS; ++r) total[w][r][c] = N::add_product(total[w][r][c], from[r][w * step], row);
            }
        for (int r = 0; r < ROWS; ++r) from[r] += ways * step;
    };
    int left = tags;
    for (; left >= WAYS; left -= WAYS) add_rows(WAYS);
    if (WAYS == 2 && left) add_rows(1);
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < COLUMNS; ++c)
            visit(r, first + c, WAYS == 2 ? N::join(total[0][r][c], total[WAYS - 1][r][c]) : total[0][r][c]);
}

// Call visit(r, v, sum) with each vector of x[r] K, for ROWS rows x. K is (tags, width), where width is a whole number
// of vectors.
template <class N, int ROWS, class R, class Visit>
BCRF_INLINE void row_products(const R* const* x, size_t step, const R* k, int tags, int width, Visit visit) {
    // The totals must fit the registers: 32 with AVX-512, 16 without.
    constexpr int MOST = ROWS == 1 || BCRF_VECTOR_BYTES == 64 ? 4 : 3;
    for_blocks<MOST>(width / lanes<R>, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
        product_block<N, ROWS, columns.value>(x, step, k + v * lanes<R>, tags, width, v, visit);
    });
}

// Call visit(v, sum) with x K[:, v] in each lane, for the tags v of a block. step: between the numbers of x. ALL: the
// block has all tags, so the loop needs no list of them.
template <class N, bool ALL, class R, class Visit>
BCRF_INLINE void lane_product(const R* x, size_t step, const TransitionBlock<R>& block, Visit visit) {
    for_blocks<12>(int(block.to.size()), [&](auto columns, int v) BCRF_INLINE_LAMBDA {
        constexpr int COLUMNS = columns.value;
        Vec<R> total[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) total[c] = N::zero();
        const R* k = block.weights + v;
        const size_t width = block.width;
        const R* next = x;
        for (const int *u = block.from.data(), *end = u + block.from.size(); u < end; ++u, k += width, next += step) {
            const Vec<R> y = load(ALL ? next : x + *u * step);
            for (int c = 0; c < COLUMNS; ++c) total[c] = N::add_product(total[c], k[c], y);
        }
        for (int c = 0; c < COLUMNS; ++c) visit(ALL ? v + c : block.to[v + c], total[c]);
    });
}

// Sums (tags, width) of some edges in R, before they go on in double.
template <class R> class PendingSums {
    int pending_ = 0;
    Buffer<R> sums_;  // made when needed

  protected:
    const int tags_, width_;

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
            BCRF_VECTORIZE for (int v = 0; v < tags_; ++v) {
                sum[v] += double(sums[v]) * (k ? k[size_t(u) * width_ + v] : R(1));
                sums[v] = 0;
            }
    }
};

// Sums of rows of tags.
template <class R> class RowPairSums : PendingSums<R> {
    using PendingSums<R>::tags_, PendingSums<R>::width_;

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
    using PendingSums<R>::PendingSums, PendingSums<R>::flush;

    // k: factors of the sums (tags, width), or null.
    void add(const R* a, const R* b, int edges, const R* k, double* sum) {
        for (int rows; edges > 0; edges -= rows, a += rows * width_, b += rows * width_) {
            rows = std::min(edges, Precision<R>::MOST_SUMMED);
            for_blocks<4>(tags_, [&](auto n, int u) { add_tags<n.value>(u, a, b, rows, this->get()); });
            this->count(rows, k, sum);
        }
    }
};

// Sums over edges and lanes of the products of numbers of the tags of a block: `from` of a token, and `to` of the next.
template <class R> class LanePairSums {
    static constexpr int W = lanes<R>;
    const TransitionBlock<R>& block_;
    const size_t tags_;
    const bool weighted_;
    int pending_ = 0;
    Buffer<R> products_;  // (from, to, W); made by `add`

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

  public:
    // weighted: multiply the sums by the weights of the block, which must outlive them.
    LanePairSums(const TransitionBlock<R>& block, int tags, bool weighted)
        : block_(block), tags_(tags), weighted_(weighted) {}

    // Add the products of a[i] and b[i] for `edges` numbers i. The numbers of a token are `stride` apart, and tokens are
    // `step` apart.
    void add(const R* a, const R* b, size_t stride, int edges, size_t step, double* sum) {
        constexpr int ROWS = BCRF_VECTOR_BYTES == 64 ? 5 : 3, COLUMNS = BCRF_VECTOR_BYTES == 64 ? 4 : 3;
        if (!products_.data()) products_ = Buffer<R>(block_.from.size() * block_.to.size() * W);
        const int rows = int(block_.from.size()), columns = int(block_.to.size());
        // Few tags: more totals fit the first cache than rows.
        const int most = columns <= 24 ? 8 : 24;
        for (int i = 0; i < edges; i += most) {
            const int steps = std::min(most, edges - i);
            const R *x = a + i * step, *y = b + i * step;
            for_blocks<ROWS>(rows, [&](auto r, int u) {
                for_blocks<COLUMNS>(columns, [&](auto c, int v) {
                    add_some<r.value, c.value>(u, v, x, y, stride, steps, step);
                });
            });
            pending_ += steps;
            if (pending_ >= Precision<R>::MOST_SUMMED) flush(sum);
        }
    }

    void flush(double* sum) {
        if (!pending_) return;
        R* products = products_;
        const R* weights = block_.weights;
        for (int u : block_.from) {
            for (size_t v = 0; v < block_.to.size(); ++v, products += W) {
                const double of_lanes = lane_sums<R>(load(products))[0];
                sum[u * tags_ + block_.to[v]] += of_lanes * (weighted_ ? weights[v] : R(1));
                store(products, Vec<R>{});
            }
            weights += block_.width;
        }
        pending_ = 0;
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
