// Sequences of float scores as a batch of doubles, for scores that no number of floats holds, or that plain doubles hold
// faster than wide floats.
#pragma once

#include "batch.hh"

namespace bcrf {

class InDouble {
    const std::vector<Sequence<float>>& which_;
    const Outputs<float>& to_;
    const size_t all_, tags_, pairs_;  // tokens of the batch, numbers of a token and of an edge
    const bool shared_;
    std::vector<int> lengths_;
    size_t tokens_ = 0;
    Buffer<double> unary_, transitions_;
    std::vector<double> uniform_;
    std::vector<int> labels_;
    std::vector<Buffer<double>> arrays_;  // of `out`

    // Return `width` numbers a token of the sequences.
    Buffer<double> gather(const float* from, size_t width) const {
        Buffer<double> to(tokens_ * width, Fill::NONE);
        double* at = to;
        for (const Sequence<float>& s : which_) at = std::copy_n(from + s.first * width, size_t(s.length) * width, at);
        return to;
    }
    // Write them back.
    template <class X, class From> void scatter(const From* from, X* to, size_t width) const {
        for (const Sequence<float>& s : which_) {
            for (size_t i = 0; i < size_t(s.length) * width; ++i) to[s.first * width + i] = X(from[i]);
            from += size_t(s.length) * width;
        }
    }
    void scatter_values(const double* from, float* to) const {
        for (const Sequence<float>& s : which_) to[s.index] = float(*from++);
    }
    // Return an array of n numbers for a wanted output.
    double* make(const float* wanted, size_t n) {
        if (!wanted) return nullptr;
        arrays_.emplace_back(n);
        return arrays_.back();
    }

  public:
    Outputs<double> out;

    // Copy the sequences of a list, which must outlive the copy, as must the outputs.
    InDouble(const Batch<float>& batch, const std::vector<Sequence<float>>& which, const Outputs<float>& to)
        : which_(which), to_(to), all_(batch.tokens()), tags_(batch.tags), pairs_(tags_ * tags_), shared_(batch.shared) {
        for (const Sequence<float>& s : which) lengths_.push_back(s.length), tokens_ += s.length;
        unary_ = gather(batch.unary, tags_);
        if (shared_) {
            transitions_ = Buffer<double>(pairs_, Fill::NONE);
            std::copy_n(batch.transitions, pairs_, transitions_.data());
        } else {
            transitions_ = gather(batch.transitions, pairs_);
        }
        out.value = make(to.value, which.size());
        out.node = make(to.node, tokens_ * tags_);
        out.sum = to.sum;  // to which the kernels add
        out.each = make(to.each, tokens_ * pairs_);
        out.entropies = make(to.entropies, which.size());
        out.pairs = make(to.pairs, tokens_ * to.n);
        out.n = to.n, out.heads = to.heads, out.tails = to.tails;
        if (!to.labels) return;
        labels_.resize(tokens_ * to.n);
        for (int j = 0; j < to.n; ++j)
            for (const Sequence<float>& s : which)
                std::copy_n(to.uniform + j * all_ + s.first, s.length, std::back_inserter(uniform_));
        out.labels = labels_.data(), out.uniform = uniform_.data();
    }

    Batch<double> batch(int threads) {
        return {unary_.data(), transitions_.data(), lengths_.data(), int(lengths_.size()), int(tags_), shared_, threads};
    }

    // Copy the outputs to those of the batch of floats.
    void write() const {
        scatter_values(out.value, to_.value);
        if (to_.node) scatter(out.node, to_.node, tags_);
        if (to_.each) scatter(out.each, to_.each, pairs_);
        if (to_.entropies) scatter_values(out.entropies, to_.entropies);
        if (to_.pairs) scatter(out.pairs, to_.pairs, to_.n);
        for (int j = 0; j < to_.n && to_.labels; ++j) scatter(out.labels + j * tokens_, to_.labels + j * all_, 1);
    }
};

}  // namespace bcrf
