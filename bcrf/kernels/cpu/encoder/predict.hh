// The forward pass of a stack in prediction.
#pragma once

#include "../threads.hh"
#include "layer_norm.hh"
#include "maxout.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Consecutive tokens [first, last) of a document of `length` tokens, which begins at a flat index.
struct Segment {
    size_t document;
    int first, last, length;
};

// Tokens of a block. The second level cache holds their rows and the weights of a layer.
constexpr int BLOCK = 384;

// Split a batch into blocks of segments. A long document takes several blocks.
inline std::vector<std::vector<Segment>> blocks(const int* lengths, int size) {
    std::vector<std::vector<Segment>> blocks(1);
    int used = 0;
    size_t document = 0;
    for (int b = 0; b < size; ++b) {
        for (int first = 0; first < lengths[b];) {
            if (used >= BLOCK || (used && used + lengths[b] > BLOCK + BLOCK / 4)) {
                blocks.emplace_back();
                used = 0;
            }
            const int last = std::min(lengths[b], first + BLOCK);
            blocks.back().push_back({document, first, last, lengths[b]});
            used += last - first;
            first = last;
        }
        document += lengths[b];
    }
    return blocks;
}

// The rows of a block, for one layer after the other. Each row depends on its window alone, and its
// sums have one order, so results depend on neither the blocks nor the threads.
class BlockOfRows {
    const Stack& stack_;
    Buffer<float> now_, next_;
    std::vector<RowPair> pairs_;

  public:
    explicit BlockOfRows(const Stack& stack) : stack_(stack) {}

    void predict(const std::vector<Segment>& segments, const float* x, float* out) {
        const StackShape& shape = stack_.shape;
        const int margin = shape.margin(0), width = shape.width, in = shape.width_in;
        const int stride_in = padded<float>(in), stride = padded<float>(width);
        size_t n = 0;
        for (const Segment& s : segments) n += s.last - s.first + 2 * margin;
        // A pair of one row reads one row more.
        now_ = Buffer<float>((n + 1) * std::max(stride_in, stride));
        next_ = Buffer<float>((n + 1) * std::max(stride_in, stride));
        float* to = now_;
        for (const Segment& s : segments)
            for (int i = s.first - margin; i < s.last + margin; ++i, to += stride_in) {
                const bool inside = i >= 0 && i < s.length;
                const int copied = inside ? in : 0;
                if (inside) std::memcpy(to, x + (s.document + i) * in, sizeof(float) * in);
                std::memset(to + copied, 0, sizeof(float) * (stride_in - copied));
            }
        for (int l = 0; l < shape.depth; ++l) {
            run(segments, l);
            std::swap(now_, next_);
        }
        const float* from = now_;
        for (const Segment& s : segments) {
            from += size_t(margin) * stride;
            for (int i = s.first; i < s.last; ++i, from += stride)
                std::memcpy(out + (s.document + i) * width, from, sizeof(float) * width);
            from += size_t(margin) * stride;
        }
    }

  private:
    // Compute layer l for the rows that the layers above it need.
    void run(const std::vector<Segment>& segments, int l) {
        const StackShape& shape = stack_.shape;
        const PackedLayer& layer = stack_.layers[l];
        const int needed = shape.margin(l + 1), reached = (l + 1) * shape.window;
        const size_t stride_in = padded<float>(shape.in(l)), stride = padded<float>(shape.width);
        pairs_.clear();
        size_t begin = shape.margin(0);  // the row of the segment's first token
        for (const Segment& s : segments) {
            const int n = s.last - s.first;
            // Rows further outside of the document depend on no token.
            const int first = std::max(-needed, -s.first - reached);
            const int last = n + std::min(needed, s.length - s.last + reached);
            for (int i = -needed; i < n + needed; ++i)
                if (i < first || i >= last)
                    std::memcpy(next_ + (begin + i) * stride, layer.outside.data(),
                                sizeof(float) * stride);
            for (int i = first; i < last; ++i) {
                const size_t row = begin + i;
                const bool both = shape.window && i + 1 < last;
                pairs_.push_back({now_ + (row - shape.window) * stride_in, next_ + row * stride, nullptr, both});
                i += both;
            }
            begin += n + 2 * shape.margin(0);
        }
        auto finish = [&](float* out, const float* in) {
            complete(out, shape.residual ? in : nullptr, layer, shape.width);
        };
        Maxout(layer, shape, l).run<false>(pairs_, [&](size_t first, size_t last) {
            for (size_t i = first; i < last; ++i) {
                const float* in = pairs_[i].in + shape.window * stride_in;
                finish(pairs_[i].out, in);
                if (pairs_[i].both) finish(pairs_[i].out + stride, in + stride_in);
            }
        });
    }
};

// Call task(i) for 0 <= i < n, in several threads.
template <class Task> void for_each_task(size_t n, int threads, const Task& task) {
    std::atomic<size_t> next{0};
    in_threads(int(std::min(size_t(threads), n)), [&] {
        FlushDenormals denormals;
        for (size_t i = next++; i < n; i = next++) {
            check_signals();
            task(i);
        }
    });
}

// Compute out (N, width) of documents that have rows x (N, width_in).
inline void predict(const Stack& stack, const float* x, const int* lengths, int size, float* out,
                    int threads) {
    const auto all = blocks(lengths, size);
    for_each_task(all.size(), threads, [&](size_t i) { BlockOfRows(stack).predict(all[i], x, out); });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
