// Products of weights with the windows of two adjacent tokens at once, and their maximum over the pieces.
#pragma once

#include "../simd.hh"
#include "stack.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Windows of adjacent tokens overlap. For rows d0 to d3 and the weights g0 to g2 of a window of three
// rows, Winograd's minimal filtering F(2, 3) (Lavin and Gray 2016, section 4.1) has four products
// in place of six:
//     FIRST = (d0 - d2) g0            y0 = FIRST + BOTH + CHANGE
//     BOTH = (d1 + d2) (g0 + g1 + g2) / 2
//     CHANGE = (d2 - d1) (g0 - g1 + g2) / 2
//     SECOND = (d3 - d1) g2           y1 = BOTH - CHANGE + SECOND
// A larger window adds F(2, 2) for every two further weights: three products in place of four. With
// rows d3 to d5 and weights g3, g4, it adds (d3 - d4) g3 to FIRST, d4 (g3 + g4) to BOTH, and
// (d5 - d4) g4 to SECOND. Without a window, FIRST, BOTH and CHANGE have a third of the inputs each: the
// first level cache holds their weights.
enum { FIRST, BOTH, CHANGE, SECOND };

// Where the inputs of each sum begin, in inputs of a row, and their end.
struct PairedShape {
    int begin[5];

    PairedShape(int window, int stride)
        : begin{0, window * stride, 2 * window * stride, (2 * window + 1) * stride,
                (3 * window + 1) * stride} {
        if (window) return;
        begin[BOTH] = std::min(stride, padded<float>(stride / 3));
        begin[CHANGE] = std::min(stride, 2 * begin[BOTH]);
    }
    int inputs() const { return begin[4]; }
    int inputs(int sum) const { return begin[sum + 1] - begin[sum]; }
};

// Write the inputs of the four sums, given the 2 window + 2 rows of the windows of a pair.
inline void pair_inputs(float* const* to, const float* x, int window, int stride) {
    for (int k = 0; k < stride; k += lanes<float>) {
        const float* d = x + k;
        float* first = to[FIRST] + k;
        float* both = to[BOTH] + k;
        float* second = to[SECOND] + k;
        const Vec<float> d1 = load(d + stride), d2 = load(d + 2 * stride);
        store(first, load(d) - d2);
        store(both, d1 + d2);
        store(to[CHANGE] + k, d2 - d1);
        store(second, load(d + 3 * stride) - d1);
        for (int q = 1; q < window; ++q) {
            d += 2 * stride;
            const Vec<float> middle = load(d + 2 * stride);
            store(first + q * stride, load(d + stride) - middle);
            store(both + q * stride, middle);
            store(second + q * stride, load(d + 3 * stride) - middle);
        }
    }
}

// Write the weights of the four sums for one output, given its weights (positions, in). `step` is
// the distance of inputs in `to`.
inline void pair_weights(float* to, const float* weights, const PairedShape& shape, int window, int in,
                         int stride, size_t step) {
    for (int k = 0; k < in; ++k) {
        const float* g = weights + k;
        auto set = [&](int sum, int q, float x) {
            to[(size_t(shape.begin[sum]) + size_t(q) * stride + k) * step] = x;
        };
        if (!window) {
            to[k * step] = g[0];
            continue;
        }
        const float ends = (g[0] + g[2 * in]) / 2, middle = g[in] / 2;
        set(FIRST, 0, g[0]);
        set(BOTH, 0, ends + middle);
        set(CHANGE, 0, ends - middle);
        set(SECOND, 0, g[2 * in]);
        for (int q = 1; q < window; ++q) {
            g += 2 * in;
            set(FIRST, q, g[in]);
            set(BOTH, q, g[in] + g[2 * in]);
            set(SECOND, q, g[2 * in]);
        }
    }
}

// Two adjacent rows that a layer computes, or one row. Without a window, each row is alone.
struct RowPair {
    const float* in;       // the first row of the window
    float* out;            // the first row; the second follows
    unsigned char* piece;  // which piece has the maximum, null in prediction
    bool both;
};

// Rows of a tile: as many as leave the accumulators of all pieces in registers.
template <int pieces> constexpr int tile_rows = (BCRF_VECTOR_BYTES == 64 ? 24 : 12) / pieces;

// Compute the sums (rows, pieces, lanes) of one group of outputs for a tile of pairs. Meanwhile the
// second level cache gets `inputs` times `ahead_step` numbers from `ahead` on.
template <int pieces>
inline void sum_tile(const float* x, const float* weights, int inputs, float* sums,
                     const float* ahead, size_t ahead_step) {
    constexpr int rows = tile_rows<pieces>;
    constexpr int V = lanes<float>;
    Vec<float> all[rows][pieces];
    BCRF_UNROLL for (int t = 0; t < rows; ++t)
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) all[t][p] = Vec<float>{};
    for (int k = 0; k < inputs; ++k, weights += pieces * V, ahead += ahead_step) {
        Vec<float> w[pieces];
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) w[p] = load(weights + p * V);
        __builtin_prefetch(ahead, 0, 2);
        BCRF_UNROLL for (int t = 0; t < rows; ++t) {
            const Vec<float> v = broadcast<float>(x[t * inputs + k]);
            BCRF_UNROLL for (int p = 0; p < pieces; ++p) all[t][p] += v * w[p];
        }
    }
    BCRF_UNROLL for (int t = 0; t < rows; ++t)
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) store(sums + (t * pieces + p) * V, all[t][p]);
}

// Store the maximum over the pieces, and in training the piece that has it, the first among equals.
template <int pieces, bool training>
BCRF_INLINE void store_maximum(const Vec<float>* sums, const RowPair& row, size_t at) {
    Vec<float> top = sums[0];
    IntVec<float> best{};
    BCRF_UNROLL for (int p = 1; p < pieces; ++p) {
        if (training) best = sums[p] > top ? IntVec<float>{} + p : best;
        top = sums[p] > top ? sums[p] : top;
    }
    store(row.out + at, top);
    if (training) {
        typedef unsigned char Bytes __attribute__((vector_size(BCRF_VECTOR_BYTES / 4)));
        const Bytes bytes = __builtin_convertvector(best, Bytes);
        std::memcpy(row.piece + at, &bytes, sizeof bytes);
    }
}

// Maxouts of pairs of rows, with scratch memory.
class Maxout {
    // Pairs whose inputs and sums stay in the second level cache, beside the weights of a layer.
    static constexpr int PAIRS = 48;

    const PackedLayer& layer_;
    const StackShape& shape_;
    const int stride_;
    const PairedShape paired_;
    Buffer<float> x_, sums_;

  public:
    Maxout(const PackedLayer& layer, const StackShape& shape, int l)
        : layer_(layer), shape_(shape), stride_(padded<float>(shape.in(l))),
          paired_(shape.window, stride_), x_(size_t(PAIRS) * paired_.inputs()),
          sums_(size_t(4) * PAIRS * shape.pieces * lanes<float>) {}

    // Compute the outputs of all pairs. Call finish(first, last) for the pairs of each part.
    template <bool training, class Finish> void run(const std::vector<RowPair>& rows, const Finish& finish) {
        const size_t n = rows.size();
        for (size_t first = 0; first < n; first += PAIRS) {
            const size_t last = std::min(n, first + PAIRS);
            if (shape_.pieces == 2)
                part<2, training>(rows, first, last);
            else
                part<3, training>(rows, first, last);
            finish(first, last);
        }
    }

  private:
    template <int pieces, bool training>
    void part(const std::vector<RowPair>& rows, size_t first, size_t last) {
        constexpr int tile = tile_rows<pieces>, V = lanes<float>;
        static_assert(PAIRS % tile == 0, "a part has whole tiles");
        const int inputs = paired_.inputs(), stride = padded<float>(shape_.width);
        for (size_t i = first; i < last; ++i) {
            float* to[4];
            for (int s = FIRST; s <= SECOND; ++s) {
                to[s] = x_ + paired_.begin[s] * size_t(PAIRS) + (i - first) * paired_.inputs(s);
                if (!shape_.window) std::copy_n(rows[i].in + paired_.begin[s], paired_.inputs(s), to[s]);
            }
            if (shape_.window) pair_inputs(to, rows[i].in, shape_.window, stride_);
        }
        const size_t size = size_t(PAIRS) * pieces * V;
        for (int g = 0; g * V < shape_.width; ++g) {
            const float* weights = layer_.weights.data() + size_t(g) * inputs * pieces * V;
            for (int s = FIRST; s <= SECOND; ++s)
                for (size_t i = 0; i < last - first; i += tile) {
                    // The tiles of a sum prefetch the weights of the next one.
                    const float* from = weights + size_t(paired_.begin[s]) * pieces * V;
                    const size_t ahead_step = size_t(pieces) * V * tile / PAIRS;
                    const float* ahead = weights + size_t(paired_.begin[s + 1]) * pieces * V +
                                         i / tile * ahead_step * paired_.inputs(s);
                    sum_tile<pieces>(x_ + paired_.begin[s] * size_t(PAIRS) + i * paired_.inputs(s),
                                     from, paired_.inputs(s), sums_ + s * size + i * pieces * V,
                                     ahead, ahead_step);
                }
            Vec<float> bias[pieces], y0[pieces], y1[pieces];
            for (int p = 0; p < pieces; ++p) bias[p] = load(layer_.bias.data() + (g * pieces + p) * V);
            for (size_t i = first; i < last; ++i) {
                const float* from = sums_ + (i - first) * pieces * V;
                for (int p = 0; p < pieces; ++p, from += V) {
                    const Vec<float> both = load(from + BOTH * size) + bias[p];
                    const Vec<float> change = load(from + CHANGE * size);
                    y0[p] = both + change + load(from + FIRST * size);
                    y1[p] = both - change + load(from + SECOND * size);
                }
                store_maximum<pieces, training>(y0, rows[i], size_t(g) * V);
                if (rows[i].both) store_maximum<pieces, training>(y1, rows[i], size_t(g) * V + stride);
            }
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
