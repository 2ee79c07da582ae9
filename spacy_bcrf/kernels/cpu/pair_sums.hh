// Sums of edge marginals a[i, u] K[u, v] b[i+1, v] over many edges i, from node factors a and b: K times a sum of outer
// products. The sum is in R over MOST_SUMMED edges, then in double.
#pragma once

#include "lanes.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Add sum_i a[i, u] b[i, columns] to total[u, columns] for ROWS numbers u and COLUMNS vectors of
// columns. The totals stay in registers.
template <int ROWS, int COLUMNS, class R>
BCRF_INLINE void outer_products_block(R* total, const R* a, const R* b, int rows, int width) {
    Vec<R> sums[ROWS][COLUMNS];
    for (int u = 0; u < ROWS; ++u)
        for (int c = 0; c < COLUMNS; ++c)
            sums[u][c] = load(total + size_t(u) * width + c * lanes<R>);
    for (int i = 0; i < rows; ++i, a += width, b += width)
        for (int c = 0; c < COLUMNS; ++c) {
            const Vec<R> row = load(b + c * lanes<R>);
            for (int u = 0; u < ROWS; ++u) sums[u][c] += a[u] * row;
        }
    for (int u = 0; u < ROWS; ++u)
        for (int c = 0; c < COLUMNS; ++c)
            store(total + size_t(u) * width + c * lanes<R>, sums[u][c]);
}

template <int COLUMNS, class R>
void outer_products(R* total, const R* a, const R* b, int rows, int tags, int width) {
    constexpr int ROWS = 4;
    int u = 0;
    for (; u + ROWS <= tags; u += ROWS)
        outer_products_block<ROWS, COLUMNS>(total + size_t(u) * width, a + u, b, rows, width);
    for (; u < tags; ++u)
        outer_products_block<1, COLUMNS>(total + size_t(u) * width, a + u, b, rows, width);
}

// Add sum_i a[i, u] b[i, v] to total[u, v], for `rows` numbers i.
template <class R>
void add_outer_products(R* total, const R* a, const R* b, int rows, int tags, int width) {
    constexpr int MOST = BCRF_VECTOR_BYTES == 64 ? 4 : 2;
    for (int left = width / lanes<R>; left > 0;) {
        const int step = left < MOST ? left : MOST;
        switch (step) {
            case 1: outer_products<1>(total, a, b, rows, tags, width); break;
            case 2: outer_products<2>(total, a, b, rows, tags, width); break;
            case 3: outer_products<3>(total, a, b, rows, tags, width); break;
            default: outer_products<MOST>(total, a, b, rows, tags, width);
        }
        total += step * lanes<R>;
        b += step * lanes<R>;
        left -= step;
    }
}

// Sums of rows of tags.
template <class R> class RowPairSums {
    static constexpr int BLOCK = Precision<R>::MOST_SUMMED;
    int tags_, width_, pending_ = 0;
    Buffer<R> products_;  // (tags, width)

  public:
    explicit RowPairSums(int tags)
        : tags_(tags), width_(padded<R>(tags)), products_(size_t(tags) * padded<R>(tags)) {}

    // k: factors of the sums (tags, width), or null.
    void add(const R* a, const R* b, int edges, const R* k, double* sum) {
        for (int i = 0; i < edges; i += BLOCK) {
            const int rows = edges - i < BLOCK ? edges - i : BLOCK;
            const size_t at = size_t(i) * width_;
            add_outer_products<R>(products_, a + at, b + at, rows, tags_, width_);
            pending_ += rows;
            if (pending_ >= BLOCK) flush(k, sum);
        }
    }

    void flush(const R* k, double* sum) {
        if (!pending_) return;
        R* products = products_;
        for (int u = 0; u < tags_; ++u, products += width_, sum += tags_)
            for (int v = 0; v < tags_; ++v) {
                sum[v] += double(products[v]) * (k ? k[size_t(u) * width_ + v] : R(1));
                products[v] = 0;
            }
        pending_ = 0;
    }
};

// Return the sum of each of lanes<R> rows, in the row's lane. It changes the rows.
template <class R> BCRF_INLINE Vec<R> row_sums(Vec<R>* rows) {
    using Lanes = std::make_integer_sequence<int, lanes<R>>;
    const auto fold = [&](auto step, int left) BCRF_INLINE_LAMBDA {
        constexpr int H = decltype(step)::value;
        for (int i = 0; i < left; ++i) {
            const Vec<R> a = rows[i], b = rows[i + left];
            rows[i] = exchange<R, H, false>(a, b, Lanes()) + exchange<R, H, true>(a, b, Lanes());
        }
    };
    int left = lanes<R>;
    if constexpr (lanes<R> * sizeof(R) > 32) fold(std::integral_constant<int, lanes<R> / 2>(), left /= 2);
    if constexpr (lanes<R> * sizeof(R) > 16)
        fold(std::integral_constant<int, 16 / sizeof(R)>(), left /= 2);
    // Within 128 bits, a fold interleaves the sums of two rows. The next fold puts the sums of four
    // rows in order.
    if constexpr (sizeof(R) == 4) fold(std::integral_constant<int, 1>(), left /= 2);
    fold(std::integral_constant<int, 1>(), left /= 2);
    return rows[0];
}

// Add sum_i a[i, u] b[i, v] to total[u, v], in each lane, for ROWS numbers u and COLUMNS numbers v. The
// numbers of a token are `stride` apart, and tokens are `step` apart.
template <int ROWS, int COLUMNS, class R>
BCRF_INLINE void lane_outer_block(R* total, int tags, const R* a, const R* b, size_t stride, int steps,
                                  size_t step) {
    constexpr int W = lanes<R>;
    Vec<R> sums[ROWS][COLUMNS];
    for (int u = 0; u < ROWS; ++u)
        for (int v = 0; v < COLUMNS; ++v) sums[u][v] = load(total + (size_t(u) * tags + v) * W);
    for (int i = 0; i < steps; ++i, a += step, b += step) {
        Vec<R> x[ROWS];
        for (int u = 0; u < ROWS; ++u) x[u] = load(a + u * stride);
        for (int v = 0; v < COLUMNS; ++v) {
            const Vec<R> y = load(b + v * stride);
            for (int u = 0; u < ROWS; ++u) sums[u][v] += x[u] * y;
        }
    }
    for (int u = 0; u < ROWS; ++u)
        for (int v = 0; v < COLUMNS; ++v) store(total + (size_t(u) * tags + v) * W, sums[u][v]);
}

template <int ROWS, class R>
void lane_outer_rows(R* total, int tags, const R* a, const R* b, size_t stride, int steps, size_t step) {
    constexpr int W = lanes<R>, COLUMNS = BCRF_VECTOR_BYTES == 64 ? 4 : 3;
    int v = 0;
    for (; v + COLUMNS <= tags; v += COLUMNS)
        lane_outer_block<ROWS, COLUMNS>(total + v * W, tags, a, b + v * stride, stride, steps, step);
    if (tags - v == 3) lane_outer_block<ROWS, 3>(total + v * W, tags, a, b + v * stride, stride, steps, step);
    if (tags - v == 2) lane_outer_block<ROWS, 2>(total + v * W, tags, a, b + v * stride, stride, steps, step);
    if (tags - v == 1) lane_outer_block<ROWS, 1>(total + v * W, tags, a, b + v * stride, stride, steps, step);
}

// Sums products of the numbers of two tokens over edges and lanes.
template <class R> class LanePairSums {
    static constexpr int W = lanes<R>, LIMIT = Precision<R>::MOST_SUMMED;
    int rows_, columns_, width_, pending_ = 0;
    Buffer<R> products_;  // (rows, columns, W), and a vector that row_sums may read

  public:
    // width: the length of the rows of the factors.
    LanePairSums(int rows, int columns, int width)
        : rows_(rows), columns_(columns), width_(width), products_((size_t(rows) * columns + W) * W) {}

    // Add the products of a[i] and b[i] for `edges` numbers i. See lane_outer_block for the strides.
    void add(const R* a, const R* b, size_t stride, int edges, size_t step, const R* k, double* sum) {
        constexpr int ROWS = BCRF_VECTOR_BYTES == 64 ? 5 : 3;
        // Few tags: more totals fit the first cache than rows.
        const int block = columns_ <= 24 ? 8 : 24;
        for (int i = 0; i < edges; i += block) {
            const int steps = edges - i < block ? edges - i : block;
            const R *from = a + i * step, *to = b + i * step;
            int u = 0;
            for (; u + ROWS <= rows_; u += ROWS)
                lane_outer_rows<ROWS, R>(at(u), columns_, from + u * stride, to, stride, steps, step);
            for (; u + 2 <= rows_; u += 2)
                lane_outer_rows<2, R>(at(u), columns_, from + u * stride, to, stride, steps, step);
            for (; u < rows_; ++u)
                lane_outer_rows<1, R>(at(u), columns_, from + u * stride, to, stride, steps, step);
            pending_ += steps;
            if (pending_ >= LIMIT) flush(k, sum);
        }
    }

    // k: factors of the sums, rows of length `width`, or null.
    void flush(const R* k, double* sum) {
        if (!pending_) return;
        R* products = products_;
        for (int u = 0; u < rows_; ++u, sum += columns_)
            for (int v = 0; v < columns_; v += W) {
                const R* factors = k ? k + size_t(u) * width_ + v : nullptr;
                const int n = columns_ - v < W ? columns_ - v : W;
                Vec<R> rows[W];
                for (int i = 0; i < W; ++i) rows[i] = load(products + size_t(i) * W);
                R sums[W];
                store(sums, row_sums<R>(rows));
                for (int i = 0; i < n; ++i) sum[v + i] += double(sums[i]) * (k ? factors[i] : R(1));
                std::memset(products, 0, n * sizeof(Vec<R>));
                products += n * W;
            }
        pending_ = 0;
    }

  private:
    R* at(int u) { return products_ + size_t(u) * columns_ * W; }
};

// Sums of edge marginals over blocks of transitions, like LanePairSums.
template <class R> class BlockPairSums {
    static constexpr int W = lanes<R>, STEPS = 8;
    struct Block {
        LanePairSums<R> pairs;
        std::vector<double> sums;  // (from, to)
    };
    const std::vector<TransitionBlock<R>>& blocks_;
    size_t tags_;
    std::vector<Block> sums_;
    Buffer<R> from_, to_;  // (STEPS, tags, W): the numbers of a block

  public:
    BlockPairSums(const std::vector<TransitionBlock<R>>& blocks, int tags)
        : blocks_(blocks), tags_(tags), from_(blocks.empty() ? 0 : STEPS * tags_ * W),
          to_(blocks.empty() ? 0 : STEPS * tags_ * W) {
        for (const auto& block : blocks)
            sums_.push_back({LanePairSums<R>(block.rows(), block.columns(), block.width),
                             std::vector<double>(block.from.size() * block.to.size())});
    }

    // Add the products of some edges. copy(block, i, from, to) copies the numbers of edge i.
    template <class Copy> BCRF_NOINLINE void add(int edges, Copy copy) {
        const size_t row = tags_ * W;
        for (int first = 0; first < edges; first += STEPS) {
            const int steps = std::min(STEPS, edges - first);
            for (size_t j = 0; j < blocks_.size(); ++j) {
                for (int i = 0; i < steps; ++i) copy(blocks_[j], first + i, from_ + i * row, to_ + i * row);
                sums_[j].pairs.add(from_, to_, W, steps, row, blocks_[j].weights.data(), sums_[j].sums.data());
            }
        }
    }

    void flush(double* sum) {
        for (size_t j = 0; j < blocks_.size(); ++j) {
            double* sums = sums_[j].sums.data();
            sums_[j].pairs.flush(blocks_[j].weights.data(), sums);
            for (int u : blocks_[j].from)
                for (int v : blocks_[j].to) {
                    sum[u * tags_ + v] += *sums;
                    *sums++ = 0;
                }
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
