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

  public:
    const int tags, width;
    const size_t part;  // of a matrix (tags, width), and its N::PARTS parts:

  private:
    const size_t stride_;
    const bool shared_;
    const double scale_;
    Buffer<R> rows_, columns_;
    Buffer<R> none_;  // (PARTS, width): zeros, the padding of columns
    Buffer<double> shift_;
    bool zeros_ = false;
    double range_ = 0;

  public:
    // edges: the room for matrices that are not shared.
    Weights(const Batch<R>& batch, int edges, double scale = 1)
        : tags(batch.tags), width(padded<R>(tags)), part(size_t(tags) * width), stride_(N::PARTS * part),
          shared_(batch.shared), scale_(scale), rows_((shared_ ? 1 : edges) * stride_, Fill::NONE),
          columns_((shared_ ? 1 : edges) * stride_, Fill::NONE), none_(N::PARTS * width), shift_(shared_ ? 1 : edges) {
        for (int v = 0; v < width; v += W) N::store(none_ + v, width, N::zero());
        if (shared_) set(0, batch.transitions);
    }

    // Set matrix i from scores.
    BCRF_NOINLINE void set(int i, const R* w) {
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        R top = 0;
        if constexpr (N::IS_EXPONENTIAL) {
            const Extent<R> found = extent(w, size_t(tags) * tags);
            top = found.top > -infinity<R> ? found.top : R(0);
            shift_[i] = top * scale_;
            range_ = std::max(range_, found.finite ? (double(top) - found.least) * scale_ : infinity<double>);
            zeros_ |= !(N::mantissa(N::exponential(broadcast(found.low), broadcast(top), scale_))[0] > 0);
        }
        for (int u = 0; u < tags; ++u, w += tags) {
            R* row = rows + size_t(u) * width;
            for (int v = 0; v < width; v += W) {
                R few[W];
                for (int k = 0; k < W && v + W > tags; ++k) few[k] = v + k < tags ? w[v + k] : -infinity<R>;
                const Vec<R> x = load(v + W > tags ? few : w + v);
                N::store(row + v, part, N::exponential(x, broadcast(top), scale_));
            }
        }
        for (int p = 0; p < N::PARTS; ++p)
            for (int u = 0; u < width; u += W) {
                const R* from[W];
                for (int k = 0; k < W; ++k)
                    from[k] = u + k < tags ? rows + p * part + size_t(u + k) * width : none_ + p * width;
                pack(columns + p * part + u, width, from, rows + stride_, tags);
            }
    }

    // Prepare for the edges of a sequence.
    void prepare(const Sequence<R>& s) {
        if (shared_) return;
        zeros_ = false;
        range_ = 0;
        for (int i = 0; i + 1 < s.length; ++i) set(i, s.edge(i));
    }

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
