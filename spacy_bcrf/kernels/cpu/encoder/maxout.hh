// Products with packed weights, their maximum over the pieces, and layer normalization.
#pragma once

#include "../simd.hh"
#include "stack.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Rows of a tile: as many as leave the accumulators of all pieces in registers.
template <int pieces> constexpr int tile_rows = (BCRF_VECTOR_BYTES == 64 ? 24 : 12) / pieces;

typedef std::int32_t PieceVec __attribute__((vector_size(BCRF_VECTOR_BYTES)));
typedef std::uint32_t WordVec __attribute__((vector_size(BCRF_VECTOR_BYTES)));
typedef unsigned char ByteVec __attribute__((vector_size(BCRF_VECTOR_BYTES / 4)));

BCRF_INLINE ByteVec narrow(PieceVec x) { return __builtin_convertvector(x, ByteVec); }

// Compute one group of outputs for a tile of rows: out[t] = max_p bias_p + <weights_p, x[t]>. If
// `piece` is not null, also store which piece has the maximum, the first one among equals.
template <int pieces, bool training>
inline void maxout_tile(const float* const* x, float* const* out, unsigned char* const* piece,
                        size_t column, const float* weights, const float* bias, int inputs) {
    constexpr int rows = tile_rows<pieces>;
    constexpr int V = lanes<float>;
    Vec<float> sums[rows][pieces];
    const float* at[rows];
    BCRF_UNROLL for (int t = 0; t < rows; ++t) {
        at[t] = x[t];
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) sums[t][p] = load(bias + p * V);
    }
    for (int k = 0; k < inputs; ++k, weights += pieces * V) {
        Vec<float> w[pieces];
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) w[p] = load(weights + p * V);
        BCRF_UNROLL for (int t = 0; t < rows; ++t) {
            const Vec<float> v = broadcast<float>(at[t][k]);
            BCRF_UNROLL for (int p = 0; p < pieces; ++p) sums[t][p] += v * w[p];
        }
    }
    BCRF_UNROLL for (int t = 0; t < rows; ++t) {
        Vec<float> top = sums[t][0];
        PieceVec best{};
        BCRF_UNROLL for (int p = 1; p < pieces; ++p) {
            if (training) best = sums[t][p] > top ? PieceVec{} + p : best;
            top = sums[t][p] > top ? sums[t][p] : top;
        }
        store(out[t] + column, top);
        if (training) {
            const ByteVec bytes = narrow(best);
            std::memcpy(piece[t] + column, &bytes, sizeof bytes);
        }
    }
}

// Where a layer reads and writes its rows. `piece` is empty in prediction.
struct Rows {
    std::vector<const float*> in;  // the windows
    std::vector<float*> out;
    std::vector<unsigned char*> piece;

    void clear() {
        in.clear();
        out.clear();
        piece.clear();
    }
    void add(const float* from, float* to, unsigned char* best = nullptr) {
        in.push_back(from);
        out.push_back(to);
        piece.push_back(best);
    }
};

template <int pieces, bool training>
void maxout_rows(const PackedLayer& layer, int outputs, Rows& rows) {
    constexpr int tile = tile_rows<pieces>, V = lanes<float>;
    // The last tile computes its last row several times.
    while (rows.in.size() % tile) rows.add(rows.in.back(), rows.out.back(), rows.piece.back());
    for (int g = 0; g * V < outputs; ++g)
        for (size_t i = 0; i < rows.in.size(); i += tile)
            maxout_tile<pieces, training>(
                &rows.in[i], &rows.out[i], &rows.piece[i], size_t(g) * V,
                layer.forward.data() + size_t(g) * layer.inputs * pieces * V,
                layer.bias.data() + size_t(g) * pieces * V, layer.inputs);
}

template <bool training> void maxout(const PackedLayer& layer, const StackShape& shape, Rows& rows) {
    if (rows.in.empty()) return;
    if (shape.pieces == 2)
        maxout_rows<2, training>(layer, shape.width, rows);
    else
        maxout_rows<3, training>(layer, shape.width, rows);
}

// Subtract the mean of a row from it. Return the inverse of its standard deviation.
inline float center(float* row, const float* valid, int width) {
    constexpr int V = lanes<float>;
    const int n = padded<float>(width);
    Vec<float> sums{}, squares{};
    for (int i = 0; i < n; i += V) sums += load(row + i);
    const Vec<float> mean = broadcast<float>(sum<float>(sums) / float(width));
    for (int i = 0; i < n; i += V) {
        const Vec<float> x = (load(row + i) - mean) * load(valid + i);
        squares += x * x;
        store(row + i, x);
    }
    return 1 / std::sqrt(sum<float>(squares) / float(width) + 1e-8f);
}

// Normalize a row to mean 0 and variance 1, multiply it by the gain, and add the shift, and `in` if
// it is not null. In place.
inline void complete(float* row, const float* in, const PackedLayer& layer, int width) {
    const float scale = center(row, layer.valid.data(), width);
    for (int i = 0; i < padded<float>(width); i += lanes<float>) {
        Vec<float> y = load(row + i) * scale * load(layer.gain.data() + i) + load(layer.shift.data() + i);
        if (in) y += load(in + i);
        store(row + i, y);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
