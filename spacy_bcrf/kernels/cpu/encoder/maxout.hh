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

// Return the bits of the nearest bfloat16 numbers, in the low halves. NaN stays NaN.
BCRF_INLINE WordVec to_bfloat16(Vec<float> x) {
    WordVec bits;
    std::memcpy(&bits, &x, sizeof bits);
    const WordVec nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    return x == x ? nearest : WordVec{} + 0x7FC0u;
}

// Store a row of `width` numbers, a whole number of vectors, in bfloat16.
inline void store_pairs(Pair* to, const float* from, int width) {
    for (int i = 0; i < width; i += lanes<float>) {
        const WordVec bits = to_bfloat16(load(from + i));
        std::uint32_t each[lanes<float>];
        std::memcpy(each, &bits, sizeof each);
        for (int k = 0; k < lanes<float>; k += 2) *to++ = each[k] | each[k + 1] << 16;
    }
}

// Products of numbers, in float.
struct Floats {
    typedef float Input;
    typedef Vec<float> Weights;
    static constexpr int per_input = 1;

    static const float* weights(const PackedLayer& layer) { return layer.forward.data(); }
    static BCRF_INLINE Vec<float> spread(float x) { return broadcast<float>(x); }
    static BCRF_INLINE Vec<float> add_product(Vec<float> sum, Vec<float> x, Vec<float> w) {
        return sum + x * w;
    }
};

// Products of pairs of numbers in bfloat16, with sums in float.
struct Pairs {
    typedef Pair Input;
    typedef WordVec Weights;
    static constexpr int per_input = 2;

    static const Pair* weights(const PackedLayer& layer) { return layer.pairs.data(); }
    static BCRF_INLINE WordVec spread(Pair x) { return WordVec{} + x; }
    static BCRF_INLINE Vec<float> add_product(Vec<float> sum, WordVec x, WordVec w) {
        return sum + first(x) * first(w) + second(x) * second(w);
    }

  private:
    static BCRF_INLINE Vec<float> floats(WordVec bits) {
        Vec<float> x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    }
    static BCRF_INLINE Vec<float> first(WordVec x) { return floats(x << 16); }
    static BCRF_INLINE Vec<float> second(WordVec x) { return floats(x & 0xFFFF0000u); }
};

#if defined(BCRF_DISPATCH) && BCRF_VECTOR_BYTES == 64
// Products of pairs by an instruction that some processors with AVX-512 have. As assembly, it needs
// no compilation for these processors alone.
struct NativePairs : Pairs {
    static BCRF_INLINE Vec<float> add_product(Vec<float> sum, WordVec x, WordVec w) {
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
        return sum;
    }
};
#endif

// Compute one group of outputs for a tile of rows: out[t] = max_p bias_p + <weights_p, x[t]>. If
// `piece` is not null, also store which piece has the maximum, the first one among equals.
template <class Product, int pieces, bool training>
inline void maxout_tile(const typename Product::Input* const* x, float* const* out,
                        unsigned char* const* piece, size_t column,
                        const typename Product::Input* weights, const float* bias, int inputs) {
    constexpr int rows = tile_rows<pieces>;
    constexpr int V = lanes<float>;
    Vec<float> sums[rows][pieces];
    const typename Product::Input* at[rows];
    BCRF_UNROLL for (int t = 0; t < rows; ++t) {
        at[t] = x[t];
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) sums[t][p] = load(bias + p * V);
    }
    for (int k = 0; k < inputs; ++k, weights += pieces * V) {
        typename Product::Weights w[pieces];
        BCRF_UNROLL for (int p = 0; p < pieces; ++p) std::memcpy(&w[p], weights + p * V, sizeof w[p]);
        BCRF_UNROLL for (int t = 0; t < rows; ++t) {
            const typename Product::Weights v = Product::spread(at[t][k]);
            BCRF_UNROLL for (int p = 0; p < pieces; ++p) sums[t][p] = Product::add_product(sums[t][p], v, w[p]);
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
template <class Input> struct Rows {
    std::vector<const Input*> in;  // the windows
    std::vector<float*> out;
    std::vector<unsigned char*> piece;

    void clear() {
        in.clear();
        out.clear();
        piece.clear();
    }
    void add(const Input* from, float* to, unsigned char* best = nullptr) {
        in.push_back(from);
        out.push_back(to);
        piece.push_back(best);
    }
};

template <class Product, int pieces, bool training>
void maxout_rows(const PackedLayer& layer, int outputs, Rows<typename Product::Input>& rows) {
    constexpr int tile = tile_rows<pieces>, V = lanes<float>;
    const int inputs = layer.inputs / Product::per_input;
    // The last tile computes its last row several times.
    while (rows.in.size() % tile) rows.add(rows.in.back(), rows.out.back(), rows.piece.back());
    for (int g = 0; g * V < outputs; ++g)
        for (size_t i = 0; i < rows.in.size(); i += tile)
            maxout_tile<Product, pieces, training>(
                &rows.in[i], &rows.out[i], &rows.piece[i], size_t(g) * V,
                Product::weights(layer) + size_t(g) * inputs * pieces * V,
                layer.bias.data() + size_t(g) * pieces * V, inputs);
}

template <class Product, bool training>
void maxout(const PackedLayer& layer, const StackShape& shape, Rows<typename Product::Input>& rows) {
    if (rows.in.empty()) return;
    if (shape.pieces == 2)
        maxout_rows<Product, 2, training>(layer, shape.width, rows);
    else
        maxout_rows<Product, 3, training>(layer, shape.width, rows);
}

inline void maxout_pairs(const PackedLayer& layer, const StackShape& shape, Rows<Pair>& rows) {
#if defined(BCRF_DISPATCH) && BCRF_VECTOR_BYTES == 64
    if (has_bfloat16()) return maxout<NativePairs, false>(layer, shape, rows);
#endif
    maxout<Pairs, false>(layer, shape, rows);
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
