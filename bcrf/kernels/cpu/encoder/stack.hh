// Stacks of Maxout layers with layer normalization, as Thinc stores them.
#pragma once

#include "../batch.hh"

namespace bcrf {

// The parameters of one layer: Thinc's Maxout (W, b) and LayerNorm (G, b). Gradients have this form
// too.
template <class R> struct MaxoutParams {
    R* weights;  // (outputs, pieces, inputs)
    R* bias;     // (outputs, pieces)
    R* gain;     // (outputs)
    R* shift;    // (outputs)
};

// The shape of a stack. A layer reads the rows of `window` tokens on either side of a token and of
// the token itself. It adds its input to its output if `residual`.
struct StackShape {
    int depth, width_in, width, pieces, window;
    bool residual;

    int positions() const { return 2 * window + 1; }
    // Return the width of the input rows of layer l, counted from 0.
    int in(int l) const { return l == 0 ? width_in : width; }
    // Return the number of rows outside a document, on either side, that the output of layer l - 1
    // must have. Layer 0 is the first, so margin(0) is for the input of the stack.
    int margin(int l) const { return (depth - l) * window; }
};

// The parameters of a layer in the order in which the kernels read them. Rows are padded by zeros
// to whole vectors.
struct PackedLayer {
    int inputs;             // numbers of a window
    Buffer<float> weights;  // (groups, inputs of all sums, pieces, lanes), see maxout.hh
    Buffer<float> rows;     // (outputs, pieces, inputs), for the gradient of the input
    Buffer<float> bias;     // (groups, pieces, lanes)
    Buffer<float> gain, shift, valid;  // (padded width); valid is 1 for outputs, 0 for padding
    Buffer<float> outside;  // the output far outside a document, which depends on no token
};

// A stack, packed for the instruction set in use.
struct Stack {
    StackShape shape;
    std::vector<PackedLayer> layers;
};

// What the backward pass needs of a training batch. A document has `margin(0)` rows more on either
// side than tokens.
struct Trace {
    struct Layer {
        Buffer<float> input;          // (rows, padded width of the input)
        Buffer<float> normalized;     // (rows, padded width): before gain and shift
        Buffer<float> scale;          // (rows): inverse standard deviation
        Buffer<unsigned char> piece;  // (rows, padded width): the piece that has the maximum
        std::uint32_t seed;
        float dropout;
    };
    std::vector<int> lengths;
    size_t rows = 0;
    std::vector<Layer> layers;
};

}  // namespace bcrf
