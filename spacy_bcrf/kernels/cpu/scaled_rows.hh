// Rows of Scaled doubles, and the transitions as such rows: what scaled_chain.hh and scaled_projections.hh
// share. They are the slow path, for sequences whose scores exceed the range of the other kernels.
//
// Scores become powers of 2, so sums of large scores that cancel, such as 1e12 - 1e12, keep fewer digits
// than the scores themselves.
#pragma once

#include "interrupt.hh"
#include "scaled.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Rows of Scaled numbers: `width` mantissas, then `width` exponents. The padding is 0. All
// are normal, and a quotient of equal numbers is 1: beside the exponent of a huge score, a carry would be lost.
class ScaledRows {
    size_t width_;
    Buffer<double> rows_;

  public:
    ScaledRows(size_t n, int width) : width_(width), rows_(2 * n * width) {}
    double* operator[](size_t i) { return rows_ + 2 * i * width_; }
};

// A Scaled number that is not a vector.
struct ScaledNumber {
    double m, e;
    double log() const { return std::log(m) + e * LOG_2; }
    // Return log(x / y). The exponents may be too large for the digits of the mantissas.
    static double log_ratio(ScaledNumber x, ScaledNumber y) { return std::log(x.m / y.m) + (x.e - y.e) * LOG_2; }
};

// Return the largest score, or 0 if none is finite.
template <class In> double top_of(const In* x, size_t n) {
    const double top = largest(x, n);
    return top > -infinity<double> ? top : 0;
}

// The operations on rows of one width.
struct RowArithmetic {
    typedef Vec<double> V;
    typedef Scaled<double> Number;
    typedef Exponents<double> E;
    static constexpr int W = lanes<double>;
    const int tags, width;

    explicit RowArithmetic(int n) : tags(n), width(padded<double>(n)) {}

    ScaledNumber at(const double* row, int t) const { return {row[t], row[width + t]}; }
    BCRF_INLINE Number get(const double* row, int t) const { return {load(row + t), load(row + width + t)}; }
    BCRF_INLINE void set(double* row, int t, Number x) const {
        store(row + t, x.m);
        store(row + width + t, x.e);
    }
    // power_of_two of a number that is not a vector. It has no branch, which would often be predicted wrong.
    static double single_power_of_two(double d) {
        const double shifted = d + (E::ROUND + E::BIAS);
        std::uint64_t bits;
        std::memcpy(&bits, &shifted, sizeof bits);
        bits = (bits << E::MANTISSA) & (0 - std::uint64_t(shifted > E::ROUND));
        double power;
        std::memcpy(&power, &bits, sizeof power);
        return power;
    }
    static BCRF_INLINE Number times(Number a, Number b) { return {a.m * b.m, a.e + b.e}; }
    // Return x / y as a plain number.
    static BCRF_INLINE V plain(Number x, ScaledNumber y) {
        return x.m * (1 / y.m) * power_of_two<double>(x.e - y.e);
    }

    // Return the next integer.
    static BCRF_INLINE V rounded(V y) {
        // Larger doubles are integers.
        const double most = 4503599627370496.0;
        const V shift = y < V{} ? broadcast(-most) : broadcast(most), size = y < V{} ? -y : y;
        return size < most ? (y + shift) - shift : y;
    }

    // Return 1 / sqrt(x).
    static BCRF_INLINE Number inverse_root(Number x) {
        x = normalized<double>(x);
        const V half = rounded(x.e * 0.5);
        return {inverse_square_root(x.m * power_of_two<double>(x.e - half * 2.0)), -half};
    }

    // Set a row to exp(scale (x - top)) for `tags` scores. Return false if one is NaN or infinity.
    template <class In> bool exponentiate(double* row, const In* x, double top, double scale) const {
        // Sums of a few exponents stay above the exponent of 0.
        const double most = 1e305;
        V wrong{};
        for (int t = 0; t < width; t += W) {
            const V lowest = broadcast(-infinity<double>), one = broadcast(1.0), none{};
            V score = lowest;
            if (t + W <= tags) {
                score = load_as<double>(x + t);
            } else {
                double scores[W];
                store(scores, lowest);
                for (int k = 0; t + k < tags; ++k) scores[k] = double(x[t + k]);
                score = load((const double*)scores);
            }
            wrong += score < infinity<double> ? none : one;
            const V y = max<double>((score - top) * (scale / LOG_2), broadcast(-most)), n = rounded(y);
            const V m = exponential((y - n) * LOG_2);
            set(row, t, {score > lowest ? m : none, score > lowest ? n : broadcast(E::ZERO)});
        }
        return BCRF_TARGET::sum<double>(wrong) == 0;
    }

    // Return the largest exponent of a row. That of a row of zeros is below `nothing`.
    double top_exponent(const double* row) const {
        V top = broadcast(2 * E::ZERO);
        for (int t = 0; t < width; t += W) top = max<double>(top, load(row + width + t));
        return maximum<double>(top);
    }
    static constexpr double nothing = E::ZERO / 2;

    // Return the sum of a row.
    ScaledNumber total(const double* row) const {
        const double e = top_exponent(row);
        V sum{};
        for (int t = 0; t < width; t += W) {
            const Number x = get(row, t);
            sum += x.m * power_of_two<double>(x.e - e);
        }
        return {BCRF_TARGET::sum<double>(sum), e};
    }

    // Set out = x y.
    void multiply(double* out, const double* x, const double* y) const {
        for (int t = 0; t < width; t += W) set(out, t, normalized<double>(times(get(x, t), get(y, t))));
    }

    // Divide a row by a number.
    void divide(double* row, ScaledNumber by) const {
        for (int t = 0; t < width; t += W) {
            const Number x = get(row, t);
            set(row, t, normalized<double>({x.m / by.m, x.e - by.e}));
        }
    }

    // The product below for COLUMNS vectors of columns, whose sums do not wait for each other.
    template <int COLUMNS> BCRF_INLINE void product_block(double* out, const double* x, const double* k) const {
        const size_t step = 2 * size_t(width);
        V top[COLUMNS], sum[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) top[c] = broadcast(2 * E::ZERO), sum[c] = V{};
        const double* at = k + width;
        for (int u = 0; u < tags; ++u, at += step)
            for (int c = 0; c < COLUMNS; ++c) top[c] = max<double>(top[c], load(at + c * W) + x[width + u]);
        at = k;
        for (int u = 0; u < tags; ++u, at += step)
            for (int c = 0; c < COLUMNS; ++c) {
                const V e = load(at + width + c * W) + x[width + u];
                sum[c] += (load(at + c * W) * x[u]) * power_of_two<double>(e - top[c]);
            }
        for (int c = 0; c < COLUMNS; ++c) set(out, c * W, normalized<double>({sum[c], top[c]}));
    }

    // Set out[v] = sum_u x[u] K[u, v]. k: `tags` rows.
    void product(double* out, const double* x, const double* k) const {
        for (int left = width / W; left > 0;) {
            const int columns = left < 4 ? left : left == 5 ? 3 : 4;
            switch (columns) {
                case 1: product_block<1>(out, x, k); break;
                case 2: product_block<2>(out, x, k); break;
                case 3: product_block<3>(out, x, k); break;
                default: product_block<4>(out, x, k);
            }
            out += columns * W, k += columns * W;
            left -= columns;
        }
    }

    // Set out[v] = sum_u x[u] K[u, v] for the tags v of a block. scratch: 3 width numbers.
    void product(double* out, const double* x, const TransitionBlock<double>& block, double* scratch) const {
        const int rows = block.rows();
        double *m = scratch, *sums = m + width, *exponents = sums + width;
        // The product reads single numbers, so the block's numbers need not be in vectors.
        double top = 2 * E::ZERO;
        for (int u : block.from) top = x[width + u] > top ? x[width + u] : top;
        for (int i = 0; i < rows; ++i) m[i] = x[block.from[i]] * single_power_of_two(x[width + block.from[i]] - top);
        BCRF_TARGET::product<SumProduct>(sums, (const double*)m, block.weights.data(), rows, block.width);
        for (int i = 0; i < block.width; i += W) {
            const Number sum = normalized<double>({load(sums + i), broadcast(top)});
            store(sums + i, sum.m);
            store(exponents + i, sum.e);
        }
        for (int i = 0; i < block.columns(); ++i)
            out[block.to[i]] = sums[i], out[width + block.to[i]] = exponents[i];
    }
};

// exp(scale transitions - shift) of an edge, and its transpose. Each keeps the last edge.
template <class In> class ScaledEdge {
    const RowArithmetic row_;
    const double scale_;
    struct Matrix {
        ScaledRows rows;
        const In* loaded = nullptr;
        double top = 0;
    } rows_, columns_;
    bool finite_ = true;
    const Batch<In>& batch_;
    struct Blocks {
        std::vector<TransitionBlock<double>> all;
        bool found = false;
    };
    Blocks blocks_, transposed_;  // of shared transitions
    Buffer<double> scratch_;

    const std::vector<TransitionBlock<double>>& blocks(bool transposed) {
        Blocks& blocks = transposed ? transposed_ : blocks_;
        if (!blocks.found) blocks.all = plain_blocks<double>(batch_, scale_, transposed);
        blocks.found = true;
        return blocks.all;
    }

    const double* load(Matrix& matrix, const In* w, bool transposed) {
        if (matrix.loaded == w) return matrix.rows[0];
        const size_t n = row_.tags;
        matrix.loaded = w;
        matrix.top = top_of(w, n * n);
        Buffer<In> column(n);
        for (size_t u = 0; u < n; ++u) {
            for (size_t v = 0; transposed && v < n; ++v) column[v] = w[v * n + u];
            const In* scores = transposed ? (const In*)column : w + u * n;
            finite_ &= row_.exponentiate(matrix.rows[u], scores, matrix.top, scale_);
        }
        return matrix.rows[0];
    }

  public:
    ScaledEdge(const Batch<In>& batch, double scale)
        : row_(batch.tags), scale_(scale), rows_{ScaledRows(row_.tags, row_.width)},
          columns_{ScaledRows(row_.tags, row_.width)}, batch_(batch), scratch_(3 * size_t(row_.width)) {}

    const double* rows(const In* transitions) { return load(rows_, transitions, false); }
    const double* columns(const In* transitions) { return load(columns_, transitions, true); }

    // Set out = x K, or K x if `transposed`, for the matrix K of an edge.
    void product(double* out, const double* x, const In* transitions, bool transposed) {
        const double* k = transposed ? columns(transitions) : rows(transitions);
        for (const auto& block : blocks(transposed)) row_.product(out, x, block, scratch_);
        if (blocks(transposed).empty()) row_.product(out, x, k);
    }

    // The shift of the rows that were used last.
    double shift() const { return scale_ * rows_.top; }
    // Return whether no score so far was NaN or infinity.
    bool finite() const { return finite_; }
    void start() {
        finite_ = true;
        // Scores that are not finite count again.
        rows_.loaded = columns_.loaded = nullptr;
    }
};

}  // namespace BCRF_TARGET
}  // namespace bcrf
