// The sums over a token's neighbours, which projections and mean field need: in = K^T x[i-1] and out = K y[i+1].
#pragma once

#include "interrupt.hh"
#include "token_layouts.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class L, class N> class Messages {
    using R = typename N::R;
    using Value = typename N::Value;
    using Tile = typename L::Tile;
    static constexpr int W = lanes<R>, MOST = L::MOST;
    L& layout_;
    const int vectors_;
    const size_t part_, row_part_;
    const double work_;
    const Value alone_;       // `in` of a sequence of one token
    SignalCheck signals_;
    Buffer<R> in_, out_;      // (PARTS, MOST, vectors)

    R* in(int r) { return in_ + r * vectors_ * W; }
    R* out(int r) { return out_ + r * vectors_ * W; }

    // Set rows of `to` to the products of the rows of neighbours with shared transitions.
    BCRF_INLINE void multiply_rows(const Position* at, int n, const R* numbers, size_t Position::*neighbour, R* to,
                                   bool transposed) {
        if constexpr (N::PARTS == 1 && !L::IN_LANES) {
            const R* x[MOST];
            for (int r = 0; r < n; ++r) x[r] = numbers + at[r].*neighbour;
            k.products(n, x, transposed, [&](int r, int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
                store(to + (r * vectors_ + v) * W, sum);
            });
        }
    }
    BCRF_INLINE void multiply_row(int edge, const R* numbers, R* to, bool transposed) {
        k.product(edge, numbers, W, part_, transposed, [&](int v, Value sum) BCRF_INLINE_LAMBDA {
            N::store(to + v * W, row_part_, sum);
        });
    }
    BCRF_NOINLINE void sums(const Position* at, int n, const Tile& tile, const R* x, const R* y) {
        signals_.add(work_ * n);
        const int length = tile.sequence[0].length;
        if constexpr (L::IN_LANES) {
            k.write_product(x + at->before, layout_.step(), part_, false, in_, row_part_);
            k.write_product(y + at->after, layout_.step(), part_, true, out_, row_part_);
        } else if (length == 1) {
            for (int v = 0; v < vectors_; ++v) {
                N::store(in_ + v * W, row_part_, alone_);
                N::store(out_ + v * W, row_part_, N::zero());
            }
        } else if (N::PARTS == 1 && tile.sequence[0].shared) {
            multiply_rows(at, n, x, &Position::before, in_, false);
            multiply_rows(at, n, y, &Position::after, out_, true);
        } else {
            for (int r = 0; r < n; ++r) {
                // The ends of a sequence have one edge. The neighbour beyond has numbers that do not count.
                multiply_row(std::max(at[r].token - 1, 0), x + at[r].before, in(r), false);
                multiply_row(std::min(at[r].token, length - 2), y + at[r].after, out(r), true);
            }
        }
    }

  public:
    Transitions<typename L::Layout, N> k;

    Messages(const Batch<R>& batch, L& layout, size_t room, double scale, Value alone)
        : layout_(layout), vectors_(layout.vectors), part_(layout.size()), row_part_(size_t(MOST) * vectors_ * W),
          work_(2.0 * batch.tags * vectors_ * W), alone_(alone), in_(N::PARTS * row_part_), out_(N::PARTS * row_part_),
          k(batch, int(room), scale) {}

    size_t part() const { return row_part_; }  // of the sums

    // Call use(position, in, out) for n positions get(k) of the numbers x and y.
    template <class Get, class Use>
    BCRF_INLINE void for_positions(const Tile& tile, const R* x, const R* y, int n, Get get, Use use) {
        for (int k = 0, together; k < n; k += together) {
            Position at[MOST];
            together = L::together(n - k);
            for (int r = 0; r < together; ++r) at[r] = get(k + r);
            sums(at, together, tile, x, y);
            for (int r = 0; r < together; ++r) use(at[r], in(r), out(r));
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
