// Transitions in probability space.
#pragma once

#include "simd.hh"

namespace bcrf {
namespace BCRF_TARGET {

// exp(transitions - shift) and its transpose, with padded rows: one matrix if transitions are
// shared, else one for each edge of a sequence.
template <class R, class In> class Matrices {
    int tags_, width_;
    bool shared_;
    size_t stride_;
    Buffer<R> rows_, columns_;
    Buffer<double> shift_;
    bool zeros_ = false;
    double range_ = 0, scale_;

    void set(int i, const In* w) {
        size_t n = size_t(tags_) * tags_;
        double top = largest(w, n);
        if (top == -infinity<double>) top = 0;
        shift_[i] = top * scale_;
        double low = smallest_finite(w, n);
        const double range = (top - low) * scale_;
        range_ = range > range_ ? range : range_;
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        for (int u = 0; u < tags_; ++u) {
            R* row = rows + size_t(u) * width_;
            load_row(row, w + size_t(u) * tags_, top, tags_);
            scale_row(row, R(scale_), tags_);
            exponentiate(row, width_);
            zeros_ = zeros_ || smallest(row, tags_) == 0;
        }
        transpose(columns, (const R*)rows, tags_, width_);
    }

  public:
    Matrices(const Batch<In>& batch, int longest, double scale = 1)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared),
          stride_(batch.shared ? 0 : size_t(batch.tags) * padded<R>(batch.tags)),
          rows_((batch.shared ? 1 : size_t(longest)) * batch.tags * width_),
          columns_((batch.shared ? 1 : size_t(longest)) * batch.tags * width_),
          shift_(batch.shared ? 1 : size_t(longest)), scale_(scale) {
        if (shared_) set(0, batch.transitions);
    }

    void load(const Sequence<In>& s) {
        if (shared_) return;
        zeros_ = false;
        range_ = 0;
        for (int i = 0; i + 1 < s.length; ++i) set(i, s.edge(i));
    }

    int tags() const { return tags_; }
    int width() const { return width_; }
    const R* rows(int i) { return rows_ + i * stride_; }
    const R* columns(int i) { return columns_ + i * stride_; }
    double shift(int i) { return shift_[shared_ ? 0 : i]; }

    // Return the sum of the shifts of the first edges.
    double shifts(int edges) {
        if (shared_) return edges * shift_[0];
        double total = 0;
        for (int i = 0; i < edges; ++i) total += shift_[i];
        return total;
    }

    bool zeros() const { return zeros_; }    // whether an entry is 0
    double range() const { return range_; }  // largest minus smallest finite score
};

// Transition scores and their transpose, with padded rows. Forbidden transitions are 0.
template <class R> class Scores {
    int tags_, width_;
    bool shared_;
    size_t stride_;
    Buffer<R> rows_, columns_;

    void set(int i, const R* w) {
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v) {
                const R x = w[size_t(u) * tags_ + v];
                rows[size_t(u) * width_ + v] = columns[size_t(v) * width_ + u] =
                    x > -infinity<R> ? x : R(0);
            }
    }

  public:
    Scores(const Batch<R>& batch, int longest)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared),
          stride_(batch.shared ? 0 : size_t(tags_) * width_),
          rows_((shared_ ? 1 : size_t(longest)) * tags_ * width_),
          columns_((shared_ ? 1 : size_t(longest)) * tags_ * width_) {
        if (shared_) set(0, batch.transitions);
    }

    void load(const Sequence<R>& s) {
        for (int i = 0; !shared_ && i + 1 < s.length; ++i) set(i, s.edge(i));
    }

    const R* rows(int i) { return rows_ + i * stride_; }
    const R* columns(int i) { return columns_ + i * stride_; }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
