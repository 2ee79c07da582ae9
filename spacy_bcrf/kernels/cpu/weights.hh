// Transition matrices of a number, with their transposes.
#pragma once

#include "lanes.hh"

namespace bcrf {
namespace BCRF_TARGET {

// N::exponential of scores, padded with zeros: one matrix if transitions are shared, else one for each edge of a
// sequence. Exponentials are of the scores minus the largest one of the matrix.
template <class N> class Weights {
    using R = typename N::R;
    static constexpr int W = lanes<R>;
    const int tags_, width_;
    const bool shared_;
    const double scale_;
    const size_t part_, stride_;  // of a matrix: N::PARTS parts
    Buffer<R> rows_, columns_;
    Buffer<R> none_;  // (PARTS, width): zeros, the padding of columns
    Buffer<double> shift_;
    bool zeros_ = false;
    double range_ = 0;

  public:
    // edges: the room for matrices that are not shared.
    Weights(const Batch<R>& batch, int edges, double scale = 1)
        : tags_(batch.tags), width_(padded<R>(tags_)), shared_(batch.shared), scale_(scale),
          part_(size_t(tags_) * width_), stride_(N::PARTS * part_), rows_((shared_ ? 1 : edges) * stride_, Fill::NONE),
          columns_((shared_ ? 1 : edges) * stride_, Fill::NONE), none_(N::PARTS * width_), shift_(shared_ ? 1 : edges) {
        for (int v = 0; v < width_; v += W) N::store(none_ + v, width_, N::zero());
        if (shared_) set(0, batch.transitions);
    }

    // Set matrix i from scores.
    BCRF_NOINLINE void set(int i, const R* w) {
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        R top = 0;
        if constexpr (N::IS_EXPONENTIAL) {
            const Extent<R> found = extent(w, size_t(tags_) * tags_);
            top = found.top > -infinity<R> ? found.top : R(0);
            shift_[i] = top * scale_;
            range_ = std::max(range_, found.finite ? (double(top) - found.least) * scale_ : infinity<double>);
            zeros_ |= !(N::mantissa(N::exponential(broadcast(found.low), broadcast(top), scale_))[0] > 0);
        }
        for (int u = 0; u < tags_; ++u, w += tags_) {
            R* row = rows + size_t(u) * width_;
            for (int v = 0; v < width_; v += W) {
                R few[W];
                for (int k = 0; k < W && v + W > tags_; ++k) few[k] = v + k < tags_ ? w[v + k] : -infinity<R>;
                const Vec<R> x = load(v + W > tags_ ? few : w + v);
                N::store(row + v, part_, N::exponential(x, broadcast(top), scale_));
            }
        }
        for (int part = 0; part < N::PARTS; ++part)
            for (int u = 0; u < width_; u += W) {
                const R* from[W];
                for (int k = 0; k < W; ++k)
                    from[k] = u + k < tags_ ? rows + part * part_ + size_t(u + k) * width_ : none_ + part * width_;
                pack(columns + part * part_ + u, width_, from, rows + stride_, tags_);
            }
    }

    // Prepare for the edges of a sequence.
    void prepare(const Sequence<R>& s) {
        if (shared_) return;
        zeros_ = false;
        range_ = 0;
        for (int i = 0; i + 1 < s.length; ++i) set(i, s.edge(i));
    }

    int tags() const { return tags_; }
    int width() const { return width_; }
    size_t part() const { return part_; }
    // The weights of an edge, (PARTS, tags, width), or their transposes.
    const R* matrix(int edge, bool transposed) {
        return (transposed ? columns_ : rows_) + (shared_ ? 0 : edge * stride_);
    }
    double shift(int edge) { return shift_[shared_ ? 0 : edge]; }

    // Return the sum of the shifts of the first edges.
    double shifts(int edges) {
        if (shared_) return edges * shift_[0];
        double total = 0;
        for (int i = 0; i < edges; ++i) total += shift_[i];
        return total;
    }

    bool zeros() const { return zeros_; }    // whether an entry is 0
    double range() const { return range_; }  // largest minus smallest finite score; infinity for NaN and infinity
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
