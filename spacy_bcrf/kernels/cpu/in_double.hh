// Sequences of float scores as a batch of doubles, for scores that no number of floats holds, or that plain doubles hold
// faster than wide floats.
#pragma once

#include "batch.hh"

namespace bcrf {

class InDouble {
    const std::vector<Sequence<float>>& which_;
    const size_t tags_;
    const bool shared_;
    std::vector<int> lengths_;
    size_t tokens_ = 0;
    Buffer<double> unary_, transitions_, node_, each_, value_;

    size_t pairs() const { return tags_ * tags_; }

  public:
    // Copy the sequences of a list, which must outlive the copy.
    InDouble(const Batch<float>& batch, const std::vector<Sequence<float>>& which)
        : which_(which), tags_(batch.tags), shared_(batch.shared) {
        for (const Sequence<float>& s : which) lengths_.push_back(s.length), tokens_ += s.length;
        unary_ = gather(batch.unary, tags_);
        if (shared_) {
            transitions_ = Buffer<double>(pairs(), Fill::NONE);
            std::copy_n(batch.transitions, pairs(), transitions_.data());
        } else {
            transitions_ = gather(batch.transitions, pairs());
        }
    }

    size_t tokens() const { return tokens_; }

    Batch<double> batch(int threads) {
        return {unary_.data(), transitions_.data(), lengths_.data(), int(lengths_.size()), int(tags_), shared_, threads};
    }

    // Return `width` numbers a token of the sequences.
    template <class To = double, class X> Buffer<To> gather(const X* from, size_t width) const {
        Buffer<To> to(tokens_ * width, Fill::NONE);
        To* at = to;
        for (const Sequence<float>& s : which_)
            at = std::copy_n(from + s.first * width, size_t(s.length) * width, at);
        return to;
    }
    // Write them back.
    template <class X, class From> void scatter(const From* from, X* to, size_t width) const {
        for (const Sequence<float>& s : which_) {
            for (size_t i = 0; i < size_t(s.length) * width; ++i) to[s.first * width + i] = X(from[i]);
            from += size_t(s.length) * width;
        }
    }
    // Write numbers of the sequences.
    void scatter_values(const double* from, float* to) const {
        for (const Sequence<float>& s : which_) to[s.index] = float(*from++);
    }

    // Return arrays for the outputs that are wanted of a batch of floats. Sums are added to that of the batch.
    Outputs<double> outputs(const Outputs<float>& wanted) {
        value_ = Buffer<double>(lengths_.size());
        if (wanted.node) node_ = Buffer<double>(tokens_ * tags_);
        if (wanted.each) each_ = Buffer<double>(tokens_ * pairs());
        return {value_.data(), node_.data(), wanted.sum, each_.data()};
    }
    // Copy the outputs to those of the batch of floats.
    void write(const Outputs<float>& to) const {
        scatter_values(value_.data(), to.value);
        if (to.node) scatter(node_.data(), to.node, tags_);
        if (to.each) scatter(each_.data(), to.each, pairs());
    }
};

}  // namespace bcrf
