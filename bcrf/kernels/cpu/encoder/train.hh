// The forward and backward pass of a stack in training.
#pragma once

#include "predict.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Rows that one task computes, and whose gradients share a panel.
constexpr int PANEL = 64;
// Outputs whose weights stay in the first level cache, and outputs whose gradients stay in the
// second.
constexpr int SOME_OUTPUTS = 8, MANY_OUTPUTS = 24;

// The factors of dropout for the outputs of a row: 0, or 1 / (1 - rate). They depend on the seed,
// the row and the output only, so both passes compute them.
class Dropout {
    float rate_, keep_;
    std::uint32_t seed_, least_;

  public:
    Dropout(float rate, std::uint32_t seed)
        : rate_(rate), keep_(rate < 1 ? 1 / (1 - rate) : 0), seed_(seed),
          least_(std::uint32_t(std::min(double(rate) * 4294967296.0, 4294967295.0))) {}

    Vec<float> factors(size_t row, int output) const {
        if (rate_ <= 0) return broadcast<float>(1);
        if (rate_ >= 1) return Vec<float>{};
        std::uint32_t positions[lanes<float>];
        for (int i = 0; i < lanes<float>; ++i) positions[i] = std::uint32_t(i);
        Bits<float> x;
        std::memcpy(&x, positions, sizeof x);
        // The finalizer of a hash of 32 bits (Wellons 2018).
        x = (x + std::uint32_t(output) + std::uint32_t(row) * 0x9E3779B9u) ^ seed_;
        x = (x ^ x >> 16) * 0x7FEB352Du;
        x = (x ^ x >> 15) * 0x846CA68Bu;
        x ^= x >> 16;
        return x >= least_ ? broadcast<float>(keep_) : Vec<float>{};
    }
};

// Return the rows of a trace that layer l computes: the rows of the documents, and the rows of their
// margins that later layers read. Panels of PANEL rows are parts of this list.
inline std::vector<size_t> rows_of(const Trace& trace, const StackShape& shape, int l) {
    const int margin = shape.margin(0), needed = shape.margin(l + 1);
    std::vector<size_t> rows;
    rows.reserve(trace.rows);
    size_t begin = margin;
    for (const int length : trace.lengths) {
        for (int i = -needed; i < length + needed; ++i) rows.push_back(begin + i);
        begin += length + 2 * margin;
    }
    return rows;
}

// Copy the rows of documents (N, width) to padded rows, with `margin` rows more on either side of each.
inline void add_margins(float* to, const float* from, int width, const std::vector<int>& lengths, int margin) {
    const size_t stride = padded<float>(width);
    for (const int length : lengths) {
        to += margin * stride;
        for (int i = 0; i < length; ++i, to += stride, from += width)
            std::memcpy(to, from, sizeof(float) * width);
        to += margin * stride;
    }
}

// The inverse of `add_margins`.
inline void drop_margins(float* to, const float* from, int width, const std::vector<int>& lengths, int margin) {
    const size_t stride = padded<float>(width);
    for (const int length : lengths) {
        from += margin * stride;
        for (int i = 0; i < length; ++i, from += stride, to += width)
            std::memcpy(to, from, sizeof(float) * width);
        from += margin * stride;
    }
}

// Compute out (N, width), and fill `trace`, whose lengths, seeds and dropout rates are set.
inline void train(const Stack& stack, const float* x, float* out, Trace& trace, int threads) {
    const StackShape& shape = stack.shape;
    const int margin = shape.margin(0), width = shape.width;
    const size_t stride = padded<float>(width), stride_in = padded<float>(shape.width_in);
    trace.rows = 0;
    for (const int length : trace.lengths) trace.rows += length + 2 * margin;
    // A pair of one row reads one row more.
    Buffer<float> input((trace.rows + 1) * stride_in);
    add_margins(input, x, shape.width_in, trace.lengths, margin);
    for (int l = 0; l < shape.depth; ++l) {
        const PackedLayer& packed = stack.layers[l];
        Trace::Layer& layer = trace.layers[l];
        layer.input = std::move(input);
        layer.normalized = Buffer<float>(trace.rows * stride);
        layer.scale = Buffer<float>(trace.rows);
        layer.piece = Buffer<unsigned char>(trace.rows * stride);
        input = Buffer<float>((trace.rows + 1) * stride);
        const Dropout dropout(layer.dropout, layer.seed);
        const std::vector<size_t> rows = rows_of(trace, shape, l);
        const size_t in = padded<float>(shape.in(l));
        auto complete = [&](size_t row) {
            float* normalized = layer.normalized + row * stride;
            const float scale = layer.scale[row] = center(normalized, packed.valid.data(), width);
            for (size_t k = 0; k < stride; k += lanes<float>) {
                const Vec<float> x = load(normalized + k) * scale;
                store(normalized + k, x);
                Vec<float> y = x * load(packed.gain.data() + k) + load(packed.shift.data() + k);
                y *= dropout.factors(row, int(k));
                if (shape.residual) y += load(layer.input + row * in + k);
                store(input + row * stride + k, y);
            }
        };
        for_each_task((rows.size() + BLOCK - 1) / BLOCK, threads, [&](size_t task) {
            const size_t first = task * BLOCK, last = std::min(rows.size(), first + BLOCK);
            std::vector<RowPair> pairs;
            for (size_t i = first; i < last; ++i) {
                const size_t row = rows[i];
                const bool both = shape.window && i + 1 < last && rows[i + 1] == row + 1;
                pairs.push_back({layer.input + (row - shape.window) * in, layer.normalized + row * stride,
                                 layer.piece + row * stride, both});
                i += both;
            }
            Maxout(packed, shape, l).run<true>(pairs, [](size_t, size_t) {});
            for (size_t i = first; i < last; ++i) complete(rows[i]);
        });
    }
    drop_margins(out, input, width, trace.lengths, margin);
}

// Let the compiler forget how a pointer was computed. Otherwise it keeps the sums of each offset and
// a common index in registers, and runs out of them.
BCRF_INLINE void hide(const float*& pointer) {
    asm("" : "+r"(pointer));
}

// Set y += sum_i factor_i x_i for n vectors x_i of `size` numbers, a whole number of vectors.
template <int several, class Each>
inline int add_some(float* y, int k, int size, int n, const Each& each) {
    constexpr int V = lanes<float>;
    for (; k + several * V <= size; k += several * V) {
        Vec<float> sums[several];
        BCRF_UNROLL for (int j = 0; j < several; ++j) sums[j] = load(y + k + j * V);
        for (int i = 0; i < n; ++i) {
            const float* x;
            const Vec<float> factor = broadcast<float>(each(i, x));
            x += k;
            hide(x);
            BCRF_UNROLL for (int j = 0; j < several; ++j) sums[j] += factor * load(x + j * V);
        }
        BCRF_UNROLL for (int j = 0; j < several; ++j) store(y + k + j * V, sums[j]);
    }
    return k;
}

template <class Each> inline void add_all(float* y, int size, int n, const Each& each) {
    // AVX-512 has 32 registers, which hold the 18 vectors of a window of width 96.
    int k = BCRF_VECTOR_BYTES == 64 ? add_some<18>(y, 0, size, n, each) : 0;
    k = add_some<12>(y, k, size, n, each);
    k = add_some<6>(y, k, size, n, each);
    k = add_some<3>(y, k, size, n, each);
    add_some<1>(y, k, size, n, each);
}

// The backward pass of one layer. A Maxout passes the gradient of an output to one of its pieces, so
// both products add multiples of rows: a third of the work of dense products, for three pieces.
class LayerGradient {
    const StackShape& shape_;
    const PackedLayer& packed_;
    const Trace::Layer& trace_;
    const int l_, threads_;
    const size_t stride_, stride_in_;
    const std::vector<size_t> rows_;
    const size_t panels_;
    // For each panel, (outputs, PANEL): the gradient before normalization, and its piece.
    Buffer<float> gradients_;
    Buffer<unsigned char> pieces_;

  public:
    LayerGradient(const Stack& stack, const Trace& trace, int l, int threads)
        : shape_(stack.shape), packed_(stack.layers[l]), trace_(trace.layers[l]), l_(l),
          threads_(threads), stride_(padded<float>(shape_.width)),
          stride_in_(padded<float>(shape_.in(l))), rows_(rows_of(trace, shape_, l)),
          panels_((rows_.size() + PANEL - 1) / PANEL),
          gradients_(panels_ * shape_.width * PANEL), pieces_(panels_ * shape_.width * PANEL) {}

    // Compute the gradients before normalization. Add the gradients of gain and shift.
    void normalization(const float* dy, const MaxoutParams<float>& d) {
        const int width = shape_.width;
        Buffer<float> sums(panels_ * 2 * stride_);
        const Dropout dropout(trace_.dropout, trace_.seed);
        for_each_task(panels_, threads_, [&](size_t panel) {
            Buffer<float> row(stride_);
            float* gain = sums + panel * 2 * stride_;
            float* shift = gain + stride_;
            for (size_t i = panel * PANEL; i < end(panel); ++i) {
                const float* normalized = trace_.normalized.data() + rows_[i] * stride_;
                const unsigned char* piece = trace_.piece.data() + rows_[i] * stride_;
                Vec<float> total{}, along{};
                for (size_t k = 0; k < stride_; k += lanes<float>) {
                    const Vec<float> x = load(normalized + k);
                    const Vec<float> g =
                        load(dy + rows_[i] * stride_ + k) * dropout.factors(rows_[i], int(k));
                    store(gain + k, load(gain + k) + g * x);
                    store(shift + k, load(shift + k) + g);
                    const Vec<float> scaled = g * load(packed_.gain.data() + k);
                    store(row + k, scaled);
                    total += scaled;
                    along += scaled * x;
                }
                const float mean = sum<float>(total) / float(width);
                const float slope = sum<float>(along) / float(width);
                const float scale = trace_.scale.data()[rows_[i]];
                float* gradients = gradients_ + panel * width * PANEL + i % PANEL;
                unsigned char* pieces = pieces_ + panel * width * PANEL + i % PANEL;
                for (int o = 0; o < width; ++o) {
                    gradients[o * PANEL] = (row[o] - mean - normalized[o] * slope) * scale;
                    pieces[o * PANEL] = piece[o];
                }
            }
        });
        for (size_t panel = 0; panel < panels_; ++panel)
            for (int o = 0; o < width; ++o) {
                d.gain[o] += sums[panel * 2 * stride_ + o];
                d.shift[o] += sums[(panel * 2 + 1) * stride_ + o];
            }
    }

    // Add the gradients of weights and bias. A task has some of the outputs and all rows.
    void weights(const MaxoutParams<float>& d) {
        const int pieces = shape_.pieces, in = shape_.in(l_);
        const size_t tasks = (shape_.width + MANY_OUTPUTS - 1) / MANY_OUTPUTS;
        for_each_task(tasks, threads_, [&](size_t task) {
            const int first = int(task) * MANY_OUTPUTS;
            const int last = std::min(shape_.width, first + MANY_OUTPUTS);
            Buffer<float> sums(size_t(last - first) * pieces * packed_.inputs);
            float factors[3][PANEL];
            const float* windows[3][PANEL];
            for (size_t panel = 0; panel < panels_; ++panel) {
                for (int o = first; o < last; ++o) {
                    int n[3] = {0, 0, 0};
                    for (size_t i = panel * PANEL; i < end(panel); ++i) {
                        const int p = pieces_[position(o, i)];
                        factors[p][n[p]] = gradients_[position(o, i)];
                        windows[p][n[p]++] =
                            trace_.input.data() + (rows_[i] - shape_.window) * stride_in_;
                    }
                    for (int p = 0; p < pieces; ++p) {
                        add_all(sums + (size_t(o - first) * pieces + p) * packed_.inputs,
                                packed_.inputs, n[p], [&](int i, const float*& x) {
                                    x = windows[p][i];
                                    return factors[p][i];
                                });
                        for (int i = 0; i < n[p]; ++i) d.bias[o * pieces + p] += factors[p][i];
                    }
                }
            }
            for (int o = first; o < last; ++o)
                for (int p = 0; p < pieces; ++p)
                    for (int q = 0; q < shape_.positions(); ++q) {
                        const float* from = sums + (size_t(o - first) * pieces + p) * packed_.inputs +
                                            q * stride_in_;
                        float* to = d.weights +
                                    ((size_t(o) * pieces + p) * shape_.positions() + q) * in;
                        for (int k = 0; k < in; ++k) to[k] += from[k];
                    }
        });
    }

    // Add the gradient of the input to dx (rows, padded width of the input). A task has the rows of
    // some documents, or of one panel where windows do not overlap.
    void input(const Trace& trace, float* dx) {
        std::vector<size_t> starts{0};
        if (shape_.window) {
            size_t row = 0;
            for (const int length : trace.lengths) {
                row += length + 2 * shape_.margin(l_ + 1);
                if (row - starts.back() >= PANEL) starts.push_back(row);
            }
        } else {
            for (size_t row = PANEL; row < rows_.size(); row += PANEL) starts.push_back(row);
        }
        if (starts.back() < rows_.size()) starts.push_back(rows_.size());
        for_each_task(starts.size() - 1, threads_, [&](size_t task) {
            for (size_t first = starts[task]; first < starts[task + 1]; first += 4 * PANEL) {
                check_signals();
                some_input(first, std::min(starts[task + 1], first + 4 * PANEL), dx);
            }
        });
    }

  private:
    size_t end(size_t panel) const { return std::min(rows_.size(), (panel + 1) * PANEL); }

    size_t position(int output, size_t i) const {
        return (i / PANEL * shape_.width + output) * PANEL + i % PANEL;
    }

    void some_input(size_t first, size_t last, float* dx) {
        const int pieces = shape_.pieces;
        for (int o = 0; o < shape_.width; o += SOME_OUTPUTS) {
            const int n = std::min(SOME_OUTPUTS, shape_.width - o);
            for (size_t i = first; i < last; ++i) {
                float factors[SOME_OUTPUTS];
                const float* weights[SOME_OUTPUTS];
                for (int j = 0; j < n; ++j) {
                    const size_t at = position(o + j, i);
                    factors[j] = gradients_[at];
                    weights[j] = packed_.rows.data() +
                                 (size_t(o + j) * pieces + pieces_[at]) * packed_.inputs;
                }
                // The rows of a window are adjacent, so its gradient is one vector.
                add_all(dx + (rows_[i] - shape_.window) * stride_in_, packed_.inputs, n,
                        [&](int j, const float*& x) {
                            x = weights[j];
                            return factors[j];
                        });
            }
        }
    }
};

// Add the gradients of all parameters to `d`, given dy (N, width). Compute dx (N, width_in).
inline void backward(const Stack& stack, const Trace& trace, const float* dy,
                     const std::vector<MaxoutParams<float>>& d, float* dx, int threads) {
    const StackShape& shape = stack.shape;
    const int margin = shape.margin(0), width = shape.width;
    Buffer<float> gradient(trace.rows * padded<float>(width));
    add_margins(gradient, dy, width, trace.lengths, margin);
    for (int l = shape.depth - 1; l >= 0; --l) {
        LayerGradient layer(stack, trace, l, threads);
        layer.normalization(gradient, d[l]);
        layer.weights(d[l]);
        // The residual connection passes the gradient on, so the layer adds its own to it.
        if (!shape.residual) gradient = Buffer<float>(trace.rows * padded<float>(shape.in(l)));
        layer.input(trace, gradient);
    }
    drop_margins(dx, gradient, shape.width_in, trace.lengths, margin);
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
