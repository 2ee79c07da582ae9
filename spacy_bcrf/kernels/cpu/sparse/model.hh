// The weights of a linear chain while they are learned.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "../batch.hh"

namespace bcrf {

// Zeroed rows of floats that can grow. In huge pages where the system has them: rows are read in
// no order, and most of the time of small pages would go into finding them.
class Table {
    float* data_ = nullptr;
    size_t rows_ = 0, capacity_ = 0, stride_;
    static constexpr size_t PAGE = size_t(1) << 21;

    void reserve(size_t rows) {
        if (rows <= capacity_) return;
        const size_t wanted = rows > 2 * capacity_ ? rows : 2 * capacity_;
        const size_t bytes = (wanted * stride_ * sizeof(float) + PAGE - 1) / PAGE * PAGE;
#if defined(_MSC_VER)
        auto* data = static_cast<float*>(_aligned_malloc(bytes, 64));
#else
        auto* data = static_cast<float*>(std::aligned_alloc(PAGE, bytes));
#endif
        if (!data) throw std::bad_alloc();
#if defined(__linux__)
        madvise(data, bytes, MADV_HUGEPAGE);
#endif
        if (rows_) std::memcpy(data, data_, rows_ * stride_ * sizeof(float));
        std::memset(data + rows_ * stride_, 0, bytes - rows_ * stride_ * sizeof(float));
        release();
        data_ = data;
        capacity_ = bytes / (stride_ * sizeof(float));
    }

    void release() {
#if defined(_MSC_VER)
        _aligned_free(data_);
#else
        std::free(data_);
#endif
    }

  public:
    explicit Table(size_t stride) : stride_(stride) {}
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;
    ~Table() { release(); }

    void resize(size_t rows) {
        reserve(rows);
        rows_ = rows > rows_ ? rows : rows_;
    }
    void clear() {
        if (rows_) std::memset(data_, 0, rows_ * stride_ * sizeof(float));
    }
    size_t rows() const { return rows_; }
    float* row(size_t i) { return data_ + i * stride_; }
    const float* row(size_t i) const { return data_ + i * stride_; }
};

enum class Objective { crf, sapo, perceptron, mira };

struct Options {
    Objective objective;
    int n;           // labelings in the list of SAPO and MIRA
    int beam;        // its width, or 0 for A*
    bool averaged;
    double rate;     // of the first step; for MIRA the largest step (its C)
    double decay;    // the rate of pass p, counted from 0 with fractions, is rate / (1 + decay p)
    double l2;       // lambda: that much / n_sequences times the weights is taken off at each step
    double n_sequences;
};

// Weights w = scale * v, so that L2 touches one number a step (Bottou; Shalev-Shwartz et al. 2007).
// Their sum over all steps, for averaging, is v * mass - late: a change of v at a step is in all
// sums from then on, so `late` collects it times the mass that came before. Neither costs more
// than the rows a step changes.
//
// The first rows are transitions by `from`; then the bias, a sequence's start and its end; then
// the features.
struct Model {
    Options options;
    int tags;
    size_t stride;
    Table v, late;
    double scale = 1, mass = 0;
    std::int64_t steps = 0;      // since the weights were set; the average is over these
    double sequences_seen = 0;   // all of them: the rate depends on it
    std::vector<unsigned char> transitions, start, end;  // what is allowed; empty if all is

    Model(const Options& options, int tags)
        : options(options), tags(tags), stride((size_t(tags) + 7) / 8 * 8), v(stride), late(stride) {
        resize(0);
    }

    size_t first_feature() const { return size_t(tags) + 3; }
    int bias() const { return tags; }

    void resize(size_t features) {
        v.resize(first_feature() + features);
        if (options.averaged) late.resize(first_feature() + features);
    }

    double rate() const {
        return options.rate / (1 + options.decay * sequences_seen / options.n_sequences);
    }

    // Folds the scale into the weights before it gets so small that sums cancel. The only thing that
    // touches all rows; needed once in ln(100) / (rate * l2) passes.
    void rescale() {
        const size_t n = v.rows() * stride;
        float *weight = v.row(0), *past = late.row(0);
        for (size_t i = 0; options.averaged && i < n; ++i) past[i] -= float(weight[i] * mass);
        for (size_t i = 0; i < n; ++i) weight[i] *= float(scale);
        mass = 0;
        scale = 1;
    }

    // The weights to predict with, (rows, stride): the average, or what there is now; or `current`.
    void read(float* out, bool current) const {
        const bool average = options.averaged && steps && !current;
        for (size_t i = 0; i < v.rows(); ++i, out += stride) {
            const float* row = v.row(i);
            for (size_t t = 0; t < stride; ++t)
                out[t] = average ? float((row[t] * mass - late.row(i)[t]) / double(steps))
                                 : float(row[t] * scale);
        }
    }

    // Starts again from these weights, (rows, stride). What a later row was is forgotten.
    void write(const float* in, size_t rows) {
        v.clear();
        late.clear();
        resize(rows - first_feature());
        std::memcpy(v.row(0), in, rows * stride * sizeof(float));
        scale = 1;
        mass = 0;
        steps = 0;
    }
};

// Sequences of a ragged batch: features of token i are rows[starts[i] : starts[i + 1]], without
// the bias and such. Gold is tag ids (N), -1 for unknown, or `allowed` (N, tags). What a lattice
// leaves open is `open` (N, tags); it and `allowed` may be null.
struct Sequences {
    const int* rows;
    const std::int64_t* starts;
    const int* gold;
    const unsigned char *allowed, *open;
};

}  // namespace bcrf
