// Ragged batches, and helpers that do not depend on the instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace bcrf {

using std::size_t;

template <class R> constexpr R infinity = std::numeric_limits<R>::infinity();

template <class In> struct Sequence {
    const In* unary;        // (length, tags)
    const In* transitions;  // (tags, tags), or (length - 1, tags, tags) if not shared
    int length, tags;
    bool shared;
    int index = 0;     // position in the batch
    size_t first = 0;  // flat index of the first token

    const In* edge(int i) const {
        return shared ? transitions : transitions + size_t(i) * tags * tags;
    }
};

template <class In> struct Batch {
    const In* unary;        // (N, tags)
    const In* transitions;  // (tags, tags), or (N, tags, tags)
    const int* lengths;     // (size)
    int size, tags;
    bool shared;      // one transition matrix for all edges
    int threads = 1;  // maximum number of threads

    size_t tokens() const {
        size_t total = 0;
        for (int b = 0; b < size; ++b) total += lengths[b];
        return total;
    }

    int longest() const {
        int top = 0;
        for (int b = 0; b < size; ++b) top = lengths[b] > top ? lengths[b] : top;
        return top;
    }

    // Sequence b, whose first token has the flat index `token`.
    Sequence<In> sequence(int b, size_t token) const {
        const size_t t = tags;
        return {unary + token * t, shared ? transitions : transitions + token * t * t, lengths[b],
                tags, shared, b, token};
    }
};

// The outputs of one sequence. A null pointer means that the output is not wanted.
template <class In> struct Output {
    double value;
    In* node;      // (length, tags)
    double* sum;   // (tags, tags); the kernels add to it
    In* each;      // (length - 1, tags, tags)
};

// Return the outputs of a sequence in a batch's arrays (N, tags) and (N, tags, tags).
template <class In>
Output<In> output(const Sequence<In>& s, In* node, double* sum, In* each) {
    const size_t t = s.tags;
    return {0, node ? node + s.first * t : nullptr, sum, each ? each + s.first * t * t : nullptr};
}

// Flush denormals to zero: they are a hundred times slower, and no kernel relies on them.
class FlushDenormals {
#if defined(__SSE2__) || defined(_M_X64)
    unsigned saved_ = _mm_getcsr();

  public:
    FlushDenormals() { _mm_setcsr(saved_ | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(saved_); }
#else
  public:
    FlushDenormals() {}
#endif
};

// Zeroed scratch memory, aligned to a cache line. Throws std::bad_alloc. It comes from calloc, so
// unused pages take no memory.
template <class R> class Buffer {
    std::unique_ptr<void, void (*)(void*)> memory_;
    R* data_;

  public:
    explicit Buffer(size_t n = 0) : memory_(std::calloc(n * sizeof(R) + 64, 1), std::free) {
        if (!memory_) throw std::bad_alloc();
        auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
        data_ = reinterpret_cast<R*>((address + 63) / 64 * 64);
    }
    operator R*() { return data_; }
    R* data() { return data_; }
    const R* data() const { return data_; }
};

// The logarithm of a product of many factors. It takes a logarithm only when the product gets
// extreme.
class LogProduct {
    double product_ = 1, log_ = 0;

  public:
    void multiply(double x) {
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

// Return the tag at which the cumulative weight exceeds `share` of the total.
template <class Weight> int pick_tag(int tags, double share, Weight weight) {
    double left = 0;
    for (int t = 0; t < tags; ++t) left += weight(t);
    left *= share;
    int last = 0;
    for (int t = 0; t < tags; ++t) {
        const double w = weight(t);
        if (!(w > 0)) continue;
        last = t;
        if ((left -= w) < 0) break;
    }
    return last;
}

}  // namespace bcrf
