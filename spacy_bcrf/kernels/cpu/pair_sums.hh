// Edge marginals a[i, u] K[u, v] b[i+1, v] from node factors a and b.
#pragma once

#include "matrices.hh"
#include "products.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Sums edge marginals over all edges of a shared K, as K times a sum of outer products. The sum is
// in R over BLOCK edges, then in double.
template <class R> class PairSums {
    static constexpr int BLOCK = 256;
    int tags_, width_, pending_ = 0;
    Buffer<R> products_;  // (tags, width)

  public:
    explicit PairSums(int tags)
        : tags_(tags), width_(padded<R>(tags)), products_(size_t(tags) * padded<R>(tags)) {}

    void add(const R* a, const R* b, int edges, const R* k, double* sum) {
        for (int i = 0; i < edges; i += BLOCK) {
            const int rows = edges - i < BLOCK ? edges - i : BLOCK;
            const size_t at = size_t(i) * width_;
            add_outer_products<R>(products_, a + at, b + at, rows, tags_, width_);
            pending_ += rows;
            if (pending_ >= BLOCK) flush(k, sum);
        }
    }

    void flush(const R* k, double* sum) {
        R* products = products_;
        for (int u = 0; u < tags_; ++u, k += width_, products += width_, sum += tags_)
            for (int v = 0; v < tags_; ++v) {
                sum[v] += double(products[v]) * k[v];
                products[v] = 0;
            }
        pending_ = 0;
    }
};

// Write the marginals of each edge, (edges, tags, tags).
template <class R, class In>
void write_arcs(In* out, const R* a, const R* b, Matrices<R, In>& matrices, int edges) {
    const int tags = matrices.tags(), width = matrices.width();
    for (int i = 0; i < edges; ++i, a += width, b += width) {
        const R* k = matrices.rows(i);
        for (int u = 0; u < tags; ++u, k += width)
            for (int v = 0; v < tags; ++v) *out++ = In(a[u] * k[v] * b[v]);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
