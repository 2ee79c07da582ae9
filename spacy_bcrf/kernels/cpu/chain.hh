// A ragged batch as the kernels see it: pointers and sizes.
#pragma once

#include "simd.hh"

namespace bcrf {

enum Edges { EDGES_NONE, EDGES_SUM, EDGES_EACH };

template <class In> struct Batch {
    const In* unary;        // (N, tags)
    const In* transitions;  // (tags, tags), or (N, tags, tags)
    const int* lengths;     // (size)
    int size, tags;
    bool shared;  // one matrix of transitions for all edges

    int longest() const {
        int top = 0;
        for (int b = 0; b < size; ++b) top = lengths[b] > top ? lengths[b] : top;
        return top;
    }
};

template <class In> struct Sequence {
    const In* unary;        // (length, tags)
    const In* transitions;  // shared, or that of the first edge
    int length, tags;
    bool shared;

    const In* edge(int i) const {
        return shared ? transitions : transitions + size_t(i) * tags * tags;
    }
};

// What is written of one sequence; any pointer may be null.
template <class In> struct Output {
    double value;
    In* node;      // (length, tags)
    double* sum;   // (tags, tags), added to
    In* each;      // (length - 1, tags, tags)
};

// exp(transitions - shift), as rows of a padded matrix and transposed. One for all edges of a
// batch, or one for each edge of the longest sequence.
template <class R, class In> class Matrices {
    int tags_, width_;
    bool shared_;
    size_t stride_;
    Buffer<R> rows_, columns_;
    Buffer<double> shift_;
    bool zeros_ = false;
    double range_ = 0;

    void set(int i, const In* w) {
        size_t n = size_t(tags_) * tags_;
        double top = largest(w, n);
        if (top == -infinity<double>) top = 0;
        shift_[i] = top;
        double low = smallest_finite(w, n);
        range_ = top - low > range_ ? top - low : range_;
        R *rows = rows_ + i * stride_, *columns = columns_ + i * stride_;
        for (int u = 0; u < tags_; ++u) {
            R* row = rows + size_t(u) * width_;
            load_row(row, w + size_t(u) * tags_, top, tags_);
            exponentiate(row, width_);
            for (int v = 0; v < tags_; ++v) {
                columns[size_t(v) * width_ + u] = row[v];
                zeros_ = zeros_ || row[v] == 0;
            }
        }
    }

  public:
    Matrices(const Batch<In>& batch, int longest)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), shared_(batch.shared),
          stride_(batch.shared ? 0 : size_t(batch.tags) * padded<R>(batch.tags)),
          rows_((batch.shared ? 1 : size_t(longest)) * batch.tags * width_),
          columns_((batch.shared ? 1 : size_t(longest)) * batch.tags * width_),
          shift_(batch.shared ? 1 : size_t(longest)) {
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
    bool zeros() const { return zeros_; }
    double range() const { return range_; }  // of the finite scores
};

// Runs `fast` on each sequence, and `careful` on those it hands back.
template <class In, class Fast, class Careful>
BCRF_INLINE void for_each_sequence(const Batch<In>& batch, In* value, In* node, double* sum,
                                   In* each, Fast fast, Careful careful) {
    size_t token = 0, tags = batch.tags;
    for (int b = 0; b < batch.size; ++b) {
        int length = batch.lengths[b];
        if (length == 0) {
            value[b] = 0;
            continue;
        }
        Sequence<In> s{batch.unary + token * tags,
                       batch.shared ? batch.transitions : batch.transitions + token * tags * tags,
                       length, batch.tags, batch.shared};
        Output<In> out{0, node ? node + token * tags : nullptr, sum,
                       each ? each + token * tags * tags : nullptr};
        if (!fast(s, out)) careful(s, out);
        value[b] = In(out.value);
        token += length;
    }
}

// A product of many factors, kept as a logarithm that is taken only when the product gets extreme.
class LogProduct {
    double product_ = 1, log_ = 0;

  public:
    BCRF_INLINE void multiply(double x) {
        product_ *= x;
        if (product_ < 1e-200 || product_ > 1e200) flush();
    }
    void flush() {
        log_ += std::log(product_);
        product_ = 1;
    }
    void add(double x) { log_ += x; }
    double log() {
        flush();
        return log_;
    }
};

}  // namespace bcrf
