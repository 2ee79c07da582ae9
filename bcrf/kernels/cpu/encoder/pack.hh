// Packing of a stack's parameters, and the fingerprint that tells whether they have changed.
#pragma once

#include "layer_norm.hh"
#include "maxout.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Mix numbers into a fingerprint. Each step is a bijection of a lane, so a single number that changes
// always changes it. The shift lets high bits, such as signs, reach all others.
inline std::uint64_t fingerprint(const float* x, size_t n, std::uint64_t before) {
    constexpr int V = lanes<float>, several = 4;
    Bits<float> mixed[several]{};
    size_t i = 0;
    for (; i + several * V <= n; i += several * V)
        for (int j = 0; j < several; ++j) {
            Bits<float> word;
            std::memcpy(&word, x + i + j * V, sizeof word);
            const Bits<float> product = (mixed[j] ^ word) * 0x9E3779B1u + 0x7F4A7C15u;
            mixed[j] = product ^ product >> 15;
        }
    std::uint64_t all = before ^ n;
    auto mix = [&](std::uint32_t word) {
        all = (all ^ word) * 0x9E3779B97F4A7C15ull;
        all ^= all >> 32;
    };
    std::uint32_t words[several * V];
    std::memcpy(words, mixed, sizeof words);
    for (std::uint32_t word : words) mix(word);
    for (; i < n; ++i) {
        std::uint32_t word;
        std::memcpy(&word, x + i, sizeof word);
        mix(word);
    }
    return all;
}

// Pack the parameters of a layer.
inline PackedLayer pack_layer(const StackShape& shape, int l, const MaxoutParams<const float>& p) {
    constexpr int V = lanes<float>;
    const int in = shape.in(l), stride = padded<float>(in), inputs = shape.positions() * stride;
    const int pieces = shape.pieces, width = padded<float>(shape.width);
    PackedLayer layer;
    layer.inputs = inputs;
    const PairedShape paired(shape.window, stride);
    layer.weights = Buffer<float>(size_t(width) * pieces * paired.inputs());
    layer.rows = Buffer<float>(size_t(shape.width) * pieces * inputs);
    layer.bias = Buffer<float>(size_t(width) * pieces);
    layer.gain = Buffer<float>(width);
    layer.shift = Buffer<float>(width);
    layer.valid = Buffer<float>(width);
    for (int o = 0; o < shape.width; ++o) {
        layer.gain[o] = p.gain[o];
        layer.shift[o] = p.shift[o];
        layer.valid[o] = 1;
        for (int piece = 0; piece < pieces; ++piece) {
            const size_t row = size_t(o) * pieces + piece;
            layer.bias[(size_t(o / V) * pieces + piece) * V + o % V] = p.bias[row];
            const float* weights = p.weights + row * shape.positions() * in;
            float* to = layer.weights + (size_t(o / V) * paired.inputs() * pieces + piece) * V + o % V;
            pair_weights(to, weights, paired, shape.window, in, stride, size_t(pieces) * V);
            for (int q = 0; q < shape.positions(); ++q)
                std::memcpy(layer.rows + row * inputs + q * stride, weights + q * in, sizeof(float) * in);
        }
    }
    return layer;
}

// Pack the parameters of all layers.
inline void pack(Stack& stack, const std::vector<MaxoutParams<const float>>& params) {
    const StackShape& shape = stack.shape;
    const int width = padded<float>(shape.width);
    stack.layers.clear();
    for (int l = 0; l < shape.depth; ++l) {
        PackedLayer layer = pack_layer(shape, l, params[l]);
        if (shape.window) {
            // Far outside a document, all rows of the window are equal: zero, at first.
            const int positions = 2 * shape.window + 2;
            Buffer<float> window(size_t(positions) * padded<float>(shape.in(l)));
            layer.outside = Buffer<float>(width);
            if (l)
                for (int q = 0; q < positions; ++q)
                    std::memcpy(window + size_t(q) * width, stack.layers[l - 1].outside,
                                sizeof(float) * width);
            Maxout(layer, shape, l).run<false>({{window, layer.outside, nullptr, false}}, [](size_t, size_t) {});
            complete(layer.outside, shape.residual ? window.data() : nullptr, layer, shape.width);
        }
        stack.layers.push_back(std::move(layer));
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
