// Transition matrices of plain and of wide numbers, with their transposes.
#pragma once

#include "numbers.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

enum class Weights {
    EXPONENTIALS,  // exp(scale (score - shift)); the shift is the largest score
    SCORES         // the scores; that of a forbidden transition is 0
};

// Rows of plain numbers, padded with zeros: one matrix if transitions are shared, else one for each edge of a sequence.
template <class R> class DenseWeights {
    int tags_, width_;
    bool shared_, scores_;
    size_t stride_;
    Buffer<R> rows_, columns_;
    Buffer<double> shift_;
    bool zeros_ = false;
    double range_ = 0, scale_;

    void set(int i, const R* w) {
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        if (scores_) {
            for (int u = 0; u < tags_; ++u, w += tags_)
                for (int v = 0; v < tags_; ++v) rows[size_t(u) * width_ + v] = w[v] > -infinity<R> ? w[v] : R(0);
            return transpose(columns, (const R*)rows, tags_, width_);
        }
        const size_t n = size_t(tags_) * tags_;
        double top = largest(w, n);
        if (top == -infinity<double>) top = 0;
        shift_[i] = top * scale_;
        range_ = std::max(range_, (top - double(smallest_finite(w, n))) * scale_);
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
    // longest: the most tokens of a sequence.
    DenseWeights(const Batch<R>& batch, int longest, double scale, Weights kind)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared), scores_(kind == Weights::SCORES),
          stride_(batch.shared ? 0 : size_t(batch.tags) * padded<R>(batch.tags)),
          rows_((batch.shared ? 1 : size_t(longest)) * batch.tags * width_),
          columns_((batch.shared ? 1 : size_t(longest)) * batch.tags * width_),
          shift_(batch.shared ? 1 : size_t(longest)), scale_(scale) {
        if (shared_) set(0, batch.transitions);
    }

    void load_edges(const Sequence<R>& s) {
        if (shared_) return;
        zeros_ = false;
        range_ = 0;
        for (int i = 0; i + 1 < s.length; ++i) set(i, s.edge(i));
    }

    int tags() const { return tags_; }
    int width() const { return width_; }
    // The weights of an edge, (tags, width), or their transpose. A second part is `part()` numbers after the first.
    const R* matrix(int edge, bool transposed) { return (transposed ? columns_ : rows_) + edge * stride_; }
    size_t part() const { return 0; }
    double shift(int edge) { return shift_[shared_ ? 0 : edge]; }

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

// exp(scale (scores - shift)) in wide numbers: one matrix, of shared transitions or of an edge.
template <class R> class WideWeights {
    using N = Wide<R>;
    static constexpr int W = lanes<R>;
    int tags_, width_;
    size_t part_;
    double scale_, shift_ = 0, range_ = 0;
    const bool plain_;
    bool zeros_ = false;
    Buffer<R> rows_, columns_;  // (2, tags, width): mantissas and exponents

  public:
    // plain: the weights are numbers of R, and the exponents of the positive ones 0.
    WideWeights(int tags, double scale, bool plain)
        : tags_(tags), width_(padded<R>(tags)), part_(size_t(tags) * width_), scale_(scale), plain_(plain),
          rows_(2 * part_), columns_(2 * part_) {}

    // Set the weights of a matrix of scores.
    void set(const R* w) {
        const size_t n = size_t(tags_) * tags_;
        double top = largest(w, n);
        if (top == -infinity<double>) top = 0;
        shift_ = top * scale_;
        range_ = (top - double(smallest_finite(w, n))) * scale_;
        zeros_ = false;
        bool finite = true;
        for (size_t i = 0; i < n; ++i) {
            zeros_ |= w[i] == -infinity<R>;
            // NaN is not a forbidden transition.
            finite &= w[i] < infinity<R>;
        }
        if (!finite) range_ = infinity<double>;
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < width_; v += W) {
                R scores[W];
                store(scores, broadcast<R>(-infinity<R>));
                for (int k = 0; k < std::min(W, tags_ - v); ++k) scores[k] = w[size_t(u) * tags_ + v + k];
                const Vec<R> x = load(scores);
                R* at = rows_ + size_t(u) * width_ + v;
                if (plain_) {
                    const Vec<R> m = exponential((x - R(top)) * R(scale_));
                    N::store(at, part_, {m, m > Vec<R>{} ? Vec<R>{} : broadcast<R>(N::E::ZERO)});
                } else {
                    N::store(at, part_, N::exponential(x, broadcast<R>(R(top)), scale_));
                }
            }
        std::fill_n(columns_ + part_, part_, N::E::ZERO);
        for (size_t part : {size_t(0), part_}) transpose<R>(columns_ + part, rows_ + part, tags_, width_);
    }

    int tags() const { return tags_; }
    int width() const { return width_; }
    size_t part() const { return part_; }
    const R* matrix(int, bool transposed) const { return transposed ? columns_.data() : rows_.data(); }
    double shift(int) const { return shift_; }
    double shifts(int edges) const { return edges * shift_; }
    double range() const { return range_; }  // infinity if a score is NaN or infinity
    bool zeros() const { return zeros_; }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
