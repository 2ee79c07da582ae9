// Mean field for the linear chain, and its loss with the gradient.
#pragma once

#include "for_each_sequence.hh"
#include "lane_mean_field.hh"
#include "products.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class R> class MeanField {
    static constexpr int ROWS = 4;
    int tags_, width_, longest_, n_iter_;
    bool keep_;                   // keep all iterates for the backward pass
    Scores<R> scores_;
    Buffer<R> unary_, r_;         // (longest, width), (kept iterates, longest, width)
    Buffer<R> delta_, before_;    // (longest, width) gradients of the logits of two iterates
    Buffer<R> zeros_, left_, right_;
    Buffer<R> total_;             // (tags, width) gradient of shared transitions
    int pending_ = 0;
    double loss_ = 0, value_ = 0;
    double pass_;  // work for a token's messages
    SignalCheck signals_;

    R* row(R* rows, int i) { return rows + size_t(i) * width_; }
    R* iterate(int k) { return r_ + size_t(keep_ ? k : k % 2) * longest_ * width_; }

    // Call use(i, r) for each token i. Row r of left_ and right_ then holds the messages to i: the
    // products of the adjacent rows of x with the transitions between them and i.
    template <class Use> BCRF_INLINE void messages(const Sequence<R>& s, R* x, Use use) {
        const int n = s.length;
        for (int i = 0, rows = 0; i < n; i += rows) {
            rows = s.shared ? std::min(ROWS, n - i) : 1;
            const R *before[ROWS], *after[ROWS];
            R *into[ROWS], *outof[ROWS];
            for (int r = 0; r < rows; ++r) {
                before[r] = i + r > 0 ? row(x, i + r - 1) : zeros_;
                after[r] = i + r + 1 < n ? row(x, i + r + 1) : zeros_;
                into[r] = row(left_, r);
                outof[r] = row(right_, r);
            }
            product<SumProduct>(rows, into, before, scores_.rows(i ? i - 1 : 0), tags_, width_);
            product<SumProduct>(rows, outof, after, scores_.columns(i), tags_, width_);
            for (int r = 0; r < rows; ++r) use(i + r, r);
            signals_.add(rows * pass_);
        }
    }

    // Set out = softmax(logits) and return the log-normalizer.
    BCRF_INLINE double softmax(R* out, const R* logits) {
        Vec<R> tops = broadcast<R>(-infinity<R>), sums{};
        for (int t = 0; t < width_; t += lanes<R>) tops = max<R>(tops, load(logits + t));
        const R top = maximum<R>(tops);
        for (int t = 0; t < width_; t += lanes<R>) {
            const Vec<R> x = exponential(load(logits + t) - top);
            sums += x;
            store(out + t, x);
        }
        const R total = sum<R>(sums), inverse = R(1) / total;
        for (int t = 0; t < width_; t += lanes<R>) store(out + t, load(out + t) * inverse);
        return double(top) + std::log(double(total));
    }

    BCRF_INLINE void add_messages(R* logits, int i, int r) {
        const R *u = row(unary_, i), *left = row(left_, r), *right = row(right_, r);
        for (int t = 0; t < width_; t += lanes<R>)
            store(logits + t, load(u + t) + (load(left + t) + load(right + t)));
    }

    BCRF_INLINE R dot(const R* x, const R* y) {
        Vec<R> total{};
        for (int t = 0; t < width_; t += lanes<R>) total += load(x + t) * load(y + t);
        return sum<R>(total);
    }

    // Return the entropy of r = softmax(logits), where z is the log-normalizer.
    double entropy(const R* r, const R* logits, double z) {
        double total = z;
        for (int t = 0; t < tags_; ++t)
            if (r[t] > 0) total -= double(r[t]) * logits[t];
        return total;
    }

    // Compute all iterates, and the loss of gold, or the entropy if gold is null.
    void forward(const Sequence<R>& s, const int* gold) {
        R* logits = before_;  // scratch for one row
        for (int i = 0; i < s.length; ++i) softmax(row(iterate(0), i), row(unary_, i));
        loss_ = value_ = 0;
        for (int k = 1; k <= n_iter_; ++k)
            messages(s, iterate(k - 1), [&](int i, int r) BCRF_INLINE_LAMBDA {
                add_messages(logits, i, r);
                R* out = row(iterate(k), i);
                const double z = softmax(out, logits);
                if (k < n_iter_) return;
                if (gold) loss_ += gold[i] < 0 ? 0 : z - logits[gold[i]];
                else value_ += entropy(out, logits, z);
            });
    }

    // Add <w, r> to the value, where forbidden scores count as 0.
    void add_scores(const Sequence<R>& s) {
        R* last = iterate(n_iter_);
        messages(s, last, [&](int i, int r) {
            value_ += dot(row(last, i), row(left_, r));
            for (int t = 0; t < tags_; ++t)
                if (row(last, i)[t] > 0) value_ += double(row(last, i)[t]) * row(unary_, i)[t];
        });
    }

    // Add the gradient of the transitions that one update contributes.
    void add_edges(const Sequence<R>& s, R* r, R* each) {
        const int edges = s.length - 1;
        if (!each) {
            add_outer_products<R>(total_, r, row(delta_, 1), edges, tags_, width_);
            add_outer_products<R>(total_, delta_, row(r, 1), edges, tags_, width_);
            pending_ += edges;
            return;
        }
        for (int i = 0; i < edges; ++i)
            for (int u = 0; u < tags_; ++u)
                for (int v = 0; v < tags_; ++v)
                    *each++ += row(r, i)[u] * row(delta_, i + 1)[v] +
                               row(delta_, i)[u] * row(r, i + 1)[v];
    }

    // Back-propagate the loss. The gradient of the unary scores is the sum of the gradients of all
    // iterates' logits.
    void backward(const Sequence<R>& s, const int* gold, R* node, double* sum, R* each) {
        R* last = iterate(n_iter_);
        for (int i = 0; i < s.length; ++i) {
            R* d = row(delta_, i);
            for (int t = 0; t < width_; ++t) d[t] = gold[i] < 0 ? R(0) : row(last, i)[t];
            if (gold[i] >= 0) d[gold[i]] -= 1;
            for (int t = 0; t < tags_; ++t) node[size_t(i) * tags_ + t] = d[t];
        }
        for (int k = n_iter_ - 1; k >= 0; --k) {
            R* r = iterate(k);
            if (s.length > 1) add_edges(s, r, each);
            messages(s, delta_, [&](int i, int j) BCRF_INLINE_LAMBDA {
                R *left = row(left_, j), *right = row(right_, j), *at = row(r, i);
                R *d = row(before_, i), *out = node + size_t(i) * tags_;
                for (int t = 0; t < width_; t += lanes<R>)
                    store(left + t, load(left + t) + load(right + t));
                const R mean = dot(left, at);
                for (int t = 0; t < width_; t += lanes<R>)
                    store(d + t, load(at + t) * (load(left + t) - mean));
                for (int t = 0; t < tags_; ++t) out[t] += d[t];
            });
            std::memcpy(delta_, before_, size_t(s.length) * width_ * sizeof(R));
        }
        if (sum && pending_ > 1024) flush(sum);
    }

  public:
    MeanField(const Batch<R>& batch, int longest, int n_iter, bool keep)
        : tags_(batch.tags), width_(padded<R>(batch.tags)), longest_(longest), n_iter_(n_iter),
          keep_(keep), scores_(batch, longest), unary_(size_t(longest) * width_),
          r_((keep ? size_t(n_iter) + 1 : 2) * longest * width_), delta_(size_t(longest + 1) * width_),
          before_(size_t(longest) * width_), zeros_(width_), left_(ROWS * width_),
          right_(ROWS * width_), total_(size_t(tags_) * width_), pass_(pass(batch)) {}

    // With gold, return the loss and write the gradient; without, return the value and write the
    // tag marginals. Return -inf if a token has no allowed tag.
    double run(const Sequence<R>& s, const int* gold, R* node, double* sum, R* each) {
        for (int i = 0; i < s.length; ++i) {
            const R* unary = s.unary + size_t(i) * tags_;
            if (largest(unary, tags_) == -infinity<R>) {
                std::fill(node, node + size_t(s.length) * tags_, R(0));
                return -infinity<double>;
            }
            load_row(row(unary_, i), unary, 0, tags_);
        }
        scores_.load(s);
        forward(s, gold);
        if (gold) {
            backward(s, gold, node, sum, each);
            return loss_;
        }
        add_scores(s);
        for (int i = 0; i < s.length; ++i)
            std::copy_n(row(iterate(n_iter_), i), tags_, node + size_t(i) * tags_);
        return value_;
    }

    void flush(double* sum) {
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v) {
                sum[size_t(u) * tags_ + v] += total_[size_t(u) * width_ + v];
                total_[size_t(u) * width_ + v] = 0;
            }
        pending_ = 0;
    }
};

template <class R> void mean_field(const Batch<R>& batch, int n_iter, const Outputs<R>& out) {
    const int* gold = out.gold;
    const int passes = gold ? 6 : 2;  // forward 2, backward 2, transitions 2
    const double work = passes * (n_iter + 1.0) * pass(batch);
    std::vector<Place> which = places(batch);
#if defined(__GNUC__)
    // With more tags, the vectors of rows have little padding.
    constexpr int MOST = lanes<R> < 4 ? 0 : BCRF_VECTOR_BYTES > 16 ? 44 : 20;
    if (batch.shared && !out.each && batch.tags <= MOST && batch.tokens() >= size_t(lanes<R>)) {
        std::vector<char> failed(batch.size);
        // Rows use each line of the cache at once, which long sequences of many tags need more than lanes.
        if (batch.tags > 20)
            for (Place place : take_long(batch, which)) failed[place.index] = 1;
        const std::vector<Strip> all = strips(batch, which);
        size_t positions = 0;
        for (const Strip& strip : all) positions = std::max(positions, strip.positions);
        for_each_item(
            batch, all.size(), [&](size_t i) { return all[i].positions; }, work, out.sum,
            [&] { return LaneMeanField<R>(batch, positions, n_iter, gold != nullptr); },
            [&](LaneMeanField<R>& chain, size_t i, double* own) {
                if (chain.run(which, all[i], gold, out.value, out.node, own)) return;
                for (size_t k = all[i].first; k < all[i].last; ++k) failed[which[k].index] = 1;
            },
            [](LaneMeanField<R>& chain, double* own) { chain.flush(own); });
        which = select(places(batch), failed);
    }
#endif
    for_each_sequence(
        batch, which, work, out.sum,
        [&] { return MeanField<R>(batch, longest(batch, which), n_iter, gold != nullptr); },
        [&](MeanField<R>& chain, const Sequence<R>& s, double* own) {
            const Output<R> here = out.of(s, own);
            const int* labels = gold ? gold + s.first : nullptr;
            out.value[s.index] = R(chain.run(s, labels, here.node, here.sum, here.each));
        },
        [](MeanField<R>& chain, double* own) { chain.flush(own); });
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
