// The sums over a token's neighbours, which projections and mean field need: in = K^T x[i-1] and out = K y[i+1].
#pragma once

#include "interrupt.hh"
#include "token_layouts.hh"

namespace bcrf {
namespace BCRF_TARGET {

template <class L, class N> class Messages {
    using R = typename N::R;
    using Value = typename N::Value;
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

    // Set `to` to the products of the numbers of the neighbours of n positions: of the tokens before, or after.
    BCRF_INLINE void multiply(const Position* at, int n, const Sequence<R>& s, const R* numbers, bool after, R* to) {
        size_t Position::*neighbour = after ? &Position::after : &Position::before;
        if constexpr (N::PARTS == 1 && !L::IN_LANES)
            if (s.shared) {
                const R* x[MOST];
                for (int r = 0; r < n; ++r) x[r] = numbers + at[r].*neighbour;
                return k.products(n, x, after, [&](int r, int v, Vec<R> sum) BCRF_INLINE_LAMBDA {
                    store(to + (r * vectors_ + v) * W, sum);
                });
            }
        for (int r = 0; r < n; ++r, to += vectors_ * W) {
            // The ends of a sequence have one edge. The neighbour beyond has numbers that do not count.
            const int edge = after ? std::min(at[r].token, s.length - 2) : std::max(at[r].token - 1, 0);
            k.write_product(edge, numbers + at[r].*neighbour, layout_.step(), part_, after, to, row_part_);
        }
    }
    BCRF_NOINLINE void sums(const Position* at, int n, const Sequence<R>& s, const R* x, const R* y) {
        signals_.add(work_ * n);
        if (L::IN_LANES || s.length > 1) {
            multiply(at, n, s, x, false, in_);
            multiply(at, n, s, y, true, out_);
        } else {
            for (int v = 0; v < vectors_; ++v) {
                N::store(in_ + v * W, row_part_, alone_);
                N::store(out_ + v * W, row_part_, N::zero());
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
    BCRF_INLINE void for_positions(const Tile<R>& tile, const R* x, const R* y, int n, Get get, Use use) {
        for (int k = 0, together; k < n; k += together) {
            Position at[MOST];
            together = L::together(n - k);
            for (int r = 0; r < together; ++r) at[r] = get(k + r);
            sums(at, together, tile.sequence[0], x, y);
            for (int r = 0; r < together; ++r) use(at[r], in(r), out(r));
        }
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
