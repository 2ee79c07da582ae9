// Sequences in the lanes of vectors.
//
// With few tags, a row of tags fills a vector badly and each sum over tags is a horizontal reduction.
// Here a vector holds one number of as many sequences (or tokens) as it has lanes, and a row is
// (tags, lanes). All loops over tags are vertical, and no tag is padding.
#pragma once

#include "for_each_sequence.hh"
#include "products.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

template <class R>
using IntOf = typename std::conditional<sizeof(R) == 4, std::int32_t, std::int64_t>::type;

// One stage of a transposition: exchange blocks of H lanes between two rows. Within 128 bits, the
// rows interleave, which is one instruction on each platform, and the caller reorders the rows.
template <class R, int H, bool HIGH, int... J>
BCRF_INLINE Vec<R> exchange(Vec<R> a, Vec<R> b, std::integer_sequence<int, J...>) {
    constexpr int W = lanes<R>, Q = 16 / int(sizeof(R));
    if constexpr (H >= Q)
        return shuffle<R, (J & H ? W + J - (HIGH ? 0 : H) : J + (HIGH ? H : 0))...>(a, b);
    else if constexpr (H == 1)
        return shuffle<R, (J / Q * Q + J % Q / 2 + (HIGH ? Q / 2 : 0) + J % 2 * W)...>(a, b);
    else  // pairs of lanes
        return shuffle<R, (J / Q * Q + J % 2 + (HIGH ? 2 : 0) + J % Q / 2 * W)...>(a, b);
}

template <class R, int H> BCRF_INLINE void exchange_all(Vec<R>* rows) {
    using Lanes = std::make_integer_sequence<int, lanes<R>>;
    for (int i = 0; i < lanes<R>; ++i)
        if (!(i & H)) {
            const Vec<R> a = rows[i], b = rows[i + H];
            rows[i] = exchange<R, H, false>(a, b, Lanes());
            rows[i + H] = exchange<R, H, true>(a, b, Lanes());
        }
}

// Transpose a matrix of lanes<R> vectors.
template <class R> BCRF_INLINE void transpose_lanes(Vec<R>* rows) {
    constexpr int W = lanes<R>;
    if constexpr (sizeof(R) == 4) {
        // unpack(0, 1), unpack(2, 3), then pairs: the 4 x 4 transposition of each 128 bits.
        exchange_all<R, 1>(rows);
        exchange_all<R, 2>(rows);
        for (int i = 0; i < W; i += 4) std::swap(rows[i + 1], rows[i + 2]);
        if constexpr (W > 4) exchange_all<R, 4>(rows);
        if constexpr (W > 8) exchange_all<R, 8>(rows);
    } else {
        exchange_all<R, 1>(rows);
        if constexpr (W > 2) exchange_all<R, 2>(rows);
        if constexpr (W > 4) exchange_all<R, 4>(rows);
    }
}

// Set out[t, k] = rows[k][t] for `tags` numbers t; rows of `out` are `stride` apart. A row may load
// numbers after its end, up to a whole vector, if they are before `end`.
template <class R, class In>
void pack(R* out, size_t stride, const In* const* rows, const In* end, int tags) {
    constexpr int W = lanes<R>;
    int t = 0;
    for (; tags - t >= W || tags - t > W / 4; t += W) {
        const int n = tags - t < W ? tags - t : W;
        Vec<R> tile[W];
        BCRF_UNROLL for (int k = 0; k < W; ++k) tile[k] = load_first<R>(rows[k] + t, n, end);
        transpose_lanes<R>(tile);
        BCRF_UNROLL for (int k = 0; k < W; ++k)
            if (k < n) store(out + (t + k) * stride, tile[k]);
    }
    for (; t < tags; ++t)
        for (int k = 0; k < W; ++k) out[t * stride + k] = R(rows[k][t]);
}

// Set rows[k][t] = in[t, k] for each row that is not null.
template <class R, class In>
void unpack(In* const* rows, const R* in, size_t stride, int tags) {
    constexpr int W = lanes<R>;
    int t = 0;
    for (; tags - t >= W || tags - t > W / 4; t += W) {
        const int n = tags - t < W ? tags - t : W;
        Vec<R> tile[W];
        BCRF_UNROLL for (int k = 0; k < W; ++k)
            tile[k] = k < n ? load(in + (t + k) * stride) : Vec<R>{};
        transpose_lanes<R>(tile);
        BCRF_UNROLL for (int k = 0; k < W; ++k)
            if (rows[k]) store_first<R>(rows[k] + t, tile[k], n);
    }
    for (; t < tags; ++t)
        for (int k = 0; k < W; ++k)
            if (rows[k]) rows[k][t] = In(in[t * stride + k]);
}

// Vectors of a table from which a lane can pick a number without a load.
constexpr int MOST_PICKED = BCRF_VECTOR_BYTES > 16 ? 4 : 0;

// Return table[at[k]] in each lane k, for a table of 1 <= VECTORS <= MOST_PICKED vectors.
template <int VECTORS, class R> Vec<R> pick(const R* table, IntVec<R> at);

#if BCRF_VECTOR_BYTES > 16
template <int VECTORS, class R> BCRF_INLINE Vec<R> pick(const R* table, IntVec<R> at) {
    constexpr int W = lanes<R>;
    if constexpr (VECTORS == 1) {
        return __builtin_shuffle(load(table), at);
    } else if constexpr (VECTORS == 2) {
        return __builtin_shuffle(load(table), load(table + W), at);
    } else {
        const Vec<R> low = pick<2>(table, at), high = pick<VECTORS - 2>(table + 2 * W, at);
        return (at & IntOf<R>(2 * W)) != 0 ? high : low;
    }
}
#endif

// Set out[v] = x K[:, v] for COLUMNS numbers v, in each lane. K has rows of length `width`.
template <class Semiring, int COLUMNS, class R>
BCRF_INLINE void lane_product_block(R* out, size_t to, const R* x, size_t from, const R* k, int rows,
                                    int width) {
    Vec<R> total[COLUMNS];
    for (int v = 0; v < COLUMNS; ++v) total[v] = Semiring::template zero<R>();
    for (int u = 0; u < rows; ++u, x += from, k += width) {
        const Vec<R> xu = load(x);
        for (int v = 0; v < COLUMNS; ++v) total[v] = Semiring::template add<R>(total[v], k[v], xu);
    }
    for (int v = 0; v < COLUMNS; ++v) store(out + v * to, total[v]);
}

// Set out[v] = before K[:, v] + after L[:, v] for COLUMNS numbers v, in each lane.
template <int COLUMNS, class R>
BCRF_INLINE void lane_neighbours_block(R* out, const R* before, const R* after, size_t from, const R* k,
                                       const R* l, int tags, int width) {
    Vec<R> total[COLUMNS];
    for (int v = 0; v < COLUMNS; ++v) total[v] = Vec<R>{};
    for (int u = 0; u < tags; ++u, before += from, after += from, k += width, l += width) {
        const Vec<R> x = load(before), y = load(after);
        for (int v = 0; v < COLUMNS; ++v) total[v] += k[v] * x;
        for (int v = 0; v < COLUMNS; ++v) total[v] += l[v] * y;
    }
    for (int v = 0; v < COLUMNS; ++v) store(out + v * lanes<R>, total[v]);
}

// Call run(columns, v) for blocks of at most 12 tags v, v + 1, ..; `columns` is a std::integral_constant.
template <class Run> BCRF_INLINE void for_columns(int tags, Run run) {
    constexpr int MOST = 12;
    const int blocks = (tags + MOST - 1) / MOST;
    for (int b = 0, v = 0; b < blocks; ++b) {
        const int columns = (tags - v + blocks - b - 1) / (blocks - b);
        switch (columns) {
#define BCRF_COLUMNS(n) case n: run(std::integral_constant<int, n>(), v); break;
            BCRF_COLUMNS(1) BCRF_COLUMNS(2) BCRF_COLUMNS(3) BCRF_COLUMNS(4)
            BCRF_COLUMNS(5) BCRF_COLUMNS(6) BCRF_COLUMNS(7) BCRF_COLUMNS(8)
            BCRF_COLUMNS(9) BCRF_COLUMNS(10) BCRF_COLUMNS(11) BCRF_COLUMNS(12)
#undef BCRF_COLUMNS
        }
        v += columns;
    }
}

// Set out = x K in each lane, for the first columns of K. `to` and `from` are the strides of the rows of
// `out` and x.
template <class Semiring, class R>
void lane_product(R* out, size_t to, const R* x, size_t from, const R* k, int rows, int columns, int width) {
    for_columns(columns, [&](auto block, int v) BCRF_INLINE_LAMBDA {
        lane_product_block<Semiring, block.value, R>(out + v * to, to, x, from, k + v, rows, width);
    });
}

// Set out[to] = x[from] K in each lane, for the tags `from` and `to` of each block. Inlined, it would slow down
// products without blocks.
template <class Semiring, class R>
__attribute__((noinline)) void lane_block_products(R* out, size_t to, const R* x, size_t from,
                                                   const std::vector<TransitionBlock<R>>& blocks) {
    for (const TransitionBlock<R>& block : blocks)
        for_columns(block.columns(), [&](auto columns, int v) BCRF_INLINE_LAMBDA {
            constexpr int COLUMNS = columns.value;
            Vec<R> total[COLUMNS];
            for (int j = 0; j < COLUMNS; ++j) total[j] = Semiring::template zero<R>();
            const R* weights = block.weights.data() + v;
            for (int u : block.from) {
                const Vec<R> xu = load(x + u * from);
                for (int j = 0; j < COLUMNS; ++j) total[j] = Semiring::template add<R>(total[j], weights[j], xu);
                weights += block.width;
            }
            for (int j = 0; j < COLUMNS; ++j) store(out + block.to[v + j] * to, total[j]);
        });
}

// Set out (tags, W) = before K + after L, where `before` and `after` are the vectors one position before
// and after x.
template <class R>
void lane_neighbours(R* out, const R* x, size_t from, const R* k, const R* l, int tags, int width) {
    for_columns(tags, [&](auto columns, int v) BCRF_INLINE_LAMBDA {
        lane_neighbours_block<columns.value>(out + v * lanes<R>, x - 1, x + 1, from, k + v, l + v, tags, width);
    });
}

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

// Sums products of the numbers of two tokens over edges and lanes, like PairSums. Sums are in R over few
// edges a lane.
template <class R> class LanePairSums {
    static constexpr int W = lanes<R>, LIMIT = 256;
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

// The logarithms of products of many positive normal numbers, one in each lane. It multiplies
// mantissas and adds exponents.
template <class R> class LaneProducts {
    static constexpr int W = lanes<R>, MANTISSA = sizeof(R) == 4 ? 23 : 52, LIMIT = 64;
    Vec<R> product_;
    IntVec<R> exponent_;
    int pending_;
    double log_[W];

    void flush() {
        R product[W];
        IntOf<R> exponent[W];
        store(product, product_);
        std::memcpy(exponent, &exponent_, sizeof exponent);
        for (int k = 0; k < W; ++k)
            log_[k] += std::log(double(product[k])) + 0.69314718055994530942 * double(exponent[k]);
        product_ = broadcast<R>(1);
        exponent_ = IntVec<R>{};
        pending_ = 0;
    }

  public:
    // An implicit constructor would not have the instruction set.
    LaneProducts() : product_(broadcast<R>(1)), exponent_{}, pending_(0), log_{} {}

    BCRF_INLINE void multiply(Vec<R> x) {
        constexpr IntOf<R> ONE = (IntOf<R>(1) << (sizeof(R) * 8 - 2)) - (IntOf<R>(1) << MANTISSA);
        IntVec<R> bits;
        std::memcpy(&bits, &x, sizeof bits);
        exponent_ += (bits - ONE) >> MANTISSA;
        bits = (bits & ((IntOf<R>(1) << MANTISSA) - 1)) | ONE;
        std::memcpy(&x, &bits, sizeof bits);
        product_ *= x;
        if (++pending_ == LIMIT) flush();
    }

    const double* logs() {
        flush();
        return log_;
    }
};

// Sums of numbers in double, one in each lane.
template <class R> class LaneSums {
    static constexpr int W = lanes<R>, PARTS = int(sizeof(double) / sizeof(R));
    Vec<double> part_[PARTS];

  public:
    LaneSums() : part_{} {}
    BCRF_INLINE void add(Vec<R> x) {
        R copy[W];
        store(copy, x);
        for (int p = 0; p < PARTS; ++p) part_[p] += load_as<double>(copy + p * lanes<double>);
    }
    void read(double* sums) const {
        for (int p = 0; p < PARTS; ++p) store(sums + p * lanes<double>, part_[p]);
    }
};

// Up to lanes<R> sequences, one in each lane.
template <class R> struct Group {
    static constexpr int W = lanes<R>;
    int size = 0, longest = 0;
    size_t tokens = 0;
    int length[W] = {};
    Place place[W] = {};
    size_t first[W] = {};  // of the sequence's scores

    void add(Place p, int n, int tags) {
        place[size] = p;
        first[size] = p.first * tags;
        length[size++] = n;
        longest = n > longest ? n : longest;
        tokens += n;
    }

    Vec<R> lengths() const {
        R n[W];
        for (int k = 0; k < W; ++k) n[k] = R(length[k]);
        return load(n);
    }

    // Return 1 for lanes without a sequence.
    Vec<R> unused() const {
        R x[W];
        for (int k = 0; k < W; ++k) x[k] = R(k >= size);
        return load(x);
    }

    // Set rows[k] to row i of each sequence in an array (N, tags), or to `none` after its end.
    template <class X> BCRF_INLINE void rows(X** out, X* array, int tags, int i, X* none) const {
        const size_t step = size_t(i) * tags;
        for (int k = 0; k < W; ++k) out[k] = i < length[k] ? array + (first[k] + step) : none;
    }
};

// Move the sequences for which lanes are faster from `which` to groups of similar length. `share` is
// the least number of sequences in a group, of the length of the longest one, as a share of W.
template <class R, class In>
std::vector<Group<R>> group(const Batch<In>& batch, std::vector<Place>& which, double share) {
    constexpr int W = lanes<R>, LONGEST = 1 << 24;  // float32 counts no further
    std::vector<Group<R>> groups;
    if (which.size() < share * W) return groups;
    const auto is_longer = [&](Place a, Place b) { return batch.lengths[a.index] > batch.lengths[b.index]; };
    std::vector<Place> sorted;
    sorted.swap(which);
    if (!std::is_sorted(sorted.begin(), sorted.end(), is_longer))
        std::stable_sort(sorted.begin(), sorted.end(), is_longer);
    groups.reserve(sorted.size() / W + 1);
    for (size_t at = 0; at < sorted.size();) {
        Group<R> next;
        for (size_t i = at; i < sorted.size() && next.size < W; ++i)
            next.add(sorted[i], batch.lengths[sorted[i].index], batch.tags);
        if (next.longest <= LONGEST && double(next.tokens) >= share * W * next.longest) {
            groups.push_back(next);
            at += next.size;
        } else {
            which.push_back(sorted[at++]);
        }
    }
    std::sort(which.begin(), which.end(), [](Place a, Place b) { return a.index < b.index; });
    return groups;
}

#endif

// Return the share of lanes that a group must fill to be faster than rows, or more than 1 if none is.
// Rows are faster from `limit` tags on.
template <class R> double lane_share(int tags, int limit) {
    if (tags >= limit || lanes<R> < 4) return 2;
    const double share = BCRF_VECTOR_BYTES == 64 ? 0.3 + 0.0115 * tags : 0.35 + 0.0175 * tags;
    return share + (sizeof(R) == 8 ? 0.1 : 0);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
