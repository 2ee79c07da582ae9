// Mean field with tokens in the lanes of vectors.
#pragma once

#include "lanes.hh"
#include "matrices.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

// Sequences [first, last) of a list, one after another. After each is an empty position.
struct Strip {
    size_t first, last, positions;
};

// Split a list of sequences into strips. The iterates of a strip stay in the cache, unless it has a single, long
// sequence.
template <class In> std::vector<Strip> strips(const Batch<In>& batch, const std::vector<Place>& which) {
    constexpr size_t ENOUGH = 192;
    std::vector<Strip> found;
    for (size_t i = 0; i < which.size(); ++i) {
        const size_t positions = size_t(batch.lengths[which[i].index]) + 1;
        if (found.empty() || found.back().positions + positions > ENOUGH) found.push_back({i, i, 0});
        found.back().last = i + 1;
        found.back().positions += positions;
    }
    return found;
}

// The update of an iterate is the same for all tokens, so it does not matter which sequences they belong
// to: the messages to a vector of tokens are products of the vectors that begin one position before and
// after it. Marginals of empty positions are 0. Arrays of a strip are (tags, stride).
template <class R> class LaneMeanField {
    static constexpr int W = lanes<R>;
    const Batch<R>& batch_;
    const int tags_, width_, n_iter_;
    const bool keep_;                    // keep all iterates for the backward pass
    const R* const end_;                 // of the scores
    const size_t stride_;                // all positions, and a vector before and after them
    Scores<R> scores_;
    Buffer<R> unary_, r_;                // an array, and one for each kept iterate
    Buffer<R> delta_, before_, node_;    // gradients of the logits of two iterates, and of the unary scores
    Buffer<R> live_;                     // (stride): 1 for tokens
    Buffer<R> scratch_;                  // (tags, W)
    Buffer<R> nothing_;                  // the scores of empty positions
    Buffer<double> values_;              // (stride)
    std::vector<std::ptrdiff_t> token_;  // of each position, or -1
    LanePairSums<R> pairs_;
    SignalCheck signals_;
    const double pass_;  // work for a token's messages

    // Row 0 of an array, from position 0.
    R* begin(Buffer<R>& array) { return array + W; }
    R* iterate(int k) { return r_ + size_t(keep_ ? k : k % 2) * tags_ * stride_ + W; }

    // Set scratch to the messages to the tokens from position p on.
    BCRF_INLINE void messages(const R* x, size_t p) {
        lane_neighbours(scratch_.data(), x + p, stride_, scores_.rows(0), scores_.columns(0), tags_, width_);
        signals_.add(W * pass_);
    }

    // Set out = softmax(logits), or 0 without a token. Return the largest logit and the sum of exponentials.
    BCRF_INLINE void softmax(R* out, const R* logits, size_t step, Vec<R> live, Vec<R>& top, Vec<R>& total) {
        top = load(logits);
        for (int t = 1; t < tags_; ++t) top = max<R>(top, load(logits + t * step));
        total = Vec<R>{};
        for (int t = 0; t < tags_; ++t) {
            const Vec<R> x = exponential(load(logits + t * step) - top);
            total += x;
            store(out + t * stride_, x);
        }
        // A product with 0 would keep NaN, which an empty position must not pass on.
        const Vec<R> by = R(1) / total, none{};
        for (int t = 0; t < tags_; ++t)
            store(out + t * stride_, live > none ? load(out + t * stride_) * by : none);
    }

    // Lay out a strip, and set its scores. Return whether each token has an allowed tag.
    bool load_strip(const std::vector<Place>& which, const Strip& strip) {
        token_.assign((strip.positions + W - 1) / W * W, -1);
        size_t p = 0;
        for (size_t i = strip.first; i < strip.last; ++i, ++p)
            for (int j = 0; j < batch_.lengths[which[i].index]; ++j) token_[p++] = which[i].first + j;
        Vec<R> worst = broadcast<R>(0);
        const R lowest = -infinity<R>;
        for (p = 0; p < token_.size(); p += W) {
            const R* rows[W];
            for (int k = 0; k < W; ++k) {
                const auto token = token_[p + k];
                live_[W + p + k] = R(token >= 0);
                rows[k] = token < 0 ? nothing_.data() : batch_.unary + size_t(token) * tags_;
            }
            R* unary = begin(unary_) + p;
            pack(unary, stride_, rows, end_, tags_);
            Vec<R> top = load(unary);
            for (int t = 1; t < tags_; ++t) top = max<R>(top, load(unary + t * stride_));
            worst = min<R>(worst, top);
        }
        return -maximum<R>(-worst) > lowest;
    }

    // Compute all iterates, and for each token the loss of gold, or the entropy if gold is null.
    void forward(const int* gold) {
        const R* live = begin(live_);
        Vec<R> top, total;
        for (size_t p = 0; p < token_.size(); p += W)
            softmax(iterate(0) + p, begin(unary_) + p, stride_, load(live + p), top, total);
        for (int k = 1; k <= n_iter_; ++k)
            for (size_t p = 0; p < token_.size(); p += W) {
                R *logits = scratch_, *out = iterate(k) + p;
                messages(iterate(k - 1), p);
                for (int t = 0; t < tags_; ++t)
                    store(logits + t * W, load(logits + t * W) + load(begin(unary_) + t * stride_ + p));
                softmax(out, logits, W, load(live + p), top, total);
                if (k == n_iter_) set_values(p, gold, logits, out, top, total);
            }
    }

    void set_values(size_t p, const int* gold, const R* logits, const R* out, Vec<R> top, Vec<R> total) {
        R sums[W], tops[W];
        if (!gold) {
            // The entropy: subtracting the largest logit first loses no digits.
            Vec<R> mean{};
            for (int t = 0; t < tags_; ++t) {
                const Vec<R> x = load(out + t * stride_), below = load(logits + t * W) - top;
                mean += x > Vec<R>{} ? x * below : Vec<R>{};
            }
            store(tops, -mean);
        } else {
            store(tops, top);
        }
        store(sums, total);
        for (int k = 0; k < W; ++k) {
            const auto token = token_[p + k];
            if (token < 0) continue;
            const int tag = gold ? gold[token] : 0;
            double value = double(tops[k]) + std::log(double(sums[k]));
            if (gold) value = tag < 0 ? 0 : value - logits[size_t(tag) * W + k];
            values_[p + k] = value;
        }
    }

    // Add each token's share of <w, r>, where forbidden scores count as 0: each edge has two tokens.
    void add_scores() {
        const R* last = iterate(n_iter_);
        for (size_t p = 0; p < token_.size(); p += W) {
            messages(last, p);
            Vec<R> edges{}, own{};
            for (int t = 0; t < tags_; ++t) {
                const Vec<R> x = load(last + t * stride_ + p), unary = load(begin(unary_) + t * stride_ + p);
                edges += x * load(scratch_ + t * W);
                own += x > Vec<R>{} ? x * unary : Vec<R>{};
            }
            R sums[W];
            store(sums, edges * R(0.5) + own);
            for (int k = 0; k < W; ++k) values_[p + k] += double(sums[k]);
        }
    }

    // Back-propagate the loss. The gradient of the unary scores is the sum of the gradients of all
    // iterates' logits.
    void backward(const int* gold, double* sum) {
        R *delta = begin(delta_), *before = begin(before_), *node = begin(node_);
        const R *last = iterate(n_iter_), one = 1;
        for (size_t p = 0; p < token_.size(); p += W) {
            R counts[W];
            for (int k = 0; k < W; ++k) counts[k] = R(token_[p + k] >= 0 && gold[token_[p + k]] >= 0);
            for (int t = 0; t < tags_; ++t)
                store(delta + t * stride_ + p, load(last + t * stride_ + p) * load(counts));
            for (int k = 0; k < W; ++k)
                if (counts[k] > 0) delta[gold[token_[p + k]] * stride_ + p + k] -= one;
            for (int t = 0; t < tags_; ++t) store(node + t * stride_ + p, load(delta + t * stride_ + p));
        }
        const int vectors = int(token_.size() / W);
        for (int k = n_iter_ - 1; k >= 0; --k) {
            const R* r = iterate(k);
            if (sum) {
                pairs_.add(r, delta + 1, stride_, vectors, W, nullptr, sum);
                pairs_.add(delta, r + 1, stride_, vectors, W, nullptr, sum);
            }
            for (size_t p = 0; p < token_.size(); p += W) {
                messages(delta, p);
                const Vec<R> live = load(begin(live_) + p), none{};
                Vec<R> mean{};
                for (int t = 0; t < tags_; ++t) mean += load(scratch_ + t * W) * load(r + t * stride_ + p);
                for (int t = 0; t < tags_; ++t) {
                    const size_t at = t * stride_ + p;
                    const Vec<R> x = load(r + at) * (load(scratch_ + t * W) - mean);
                    const Vec<R> d = live > none ? x : none;
                    store(before + at, d);
                    store(node + at, load(node + at) + d);
                }
            }
            std::swap(delta, before);
        }
    }

    void write(const R* from, R* node) {
        for (size_t p = 0; p < token_.size(); p += W) {
            R* rows[W];
            for (int k = 0; k < W; ++k)
                rows[k] = token_[p + k] < 0 ? nullptr : node + size_t(token_[p + k]) * tags_;
            unpack(rows, from + p, stride_, tags_);
        }
    }

  public:
    // positions: of the longest strip.
    LaneMeanField(const Batch<R>& batch, size_t positions, int n_iter, bool keep)
        : batch_(batch), tags_(batch.tags), width_(padded<R>(batch.tags)), n_iter_(n_iter), keep_(keep),
          end_(batch.unary + batch.tokens() * batch.tags), stride_((positions + W - 1) / W * W + 2 * W),
          scores_(batch, 1), unary_(tags_ * stride_),
          r_((keep ? size_t(n_iter) + 1 : 2) * tags_ * stride_), delta_(keep ? tags_ * stride_ : 0),
          before_(keep ? tags_ * stride_ : 0), node_(keep ? tags_ * stride_ : 0), live_(stride_),
          scratch_(size_t(tags_) * W), nothing_(tags_), values_(stride_), pairs_(tags_, tags_, tags_),
          pass_(pass(batch)) {}

    // With gold, compute losses and write the gradient; without, compute values and write the tag
    // marginals. Return false if a token has no allowed tag.
    bool run(const std::vector<Place>& which, const Strip& strip, const int* gold, R* value, R* node,
             double* sum) {
        if (!load_strip(which, strip)) return false;
        forward(gold);
        if (gold) backward(gold, sum);
        else add_scores();
        write(gold ? begin(node_) : iterate(n_iter_), node);
        size_t p = 0;
        for (size_t i = strip.first; i < strip.last; ++i, ++p) {
            double total = 0;
            for (int j = 0; j < batch_.lengths[which[i].index]; ++j) total += values_[p++];
            value[which[i].index] = R(total);
        }
        return true;
    }

    void flush(double* sum) { pairs_.flush(nullptr, sum); }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
