// Features of labelings: indicators of each token's tag and of each edge's two tags.
#pragma once

#include "batch.hh"

namespace bcrf {

// n labelings of a batch, (n, N), and their weights in each sequence, (size, n).
template <class In> struct Labelings {
    const int* tags;
    const In* weights;
    const int* lengths;
    int n, size, n_tags;
    size_t tokens;
};

// Return the score of a labeling of tokens [from, to), and of the edges between them. tags: of all tokens.
template <class In> double path_score(const Sequence<In>& s, const int* tags, int from, int to) {
    const size_t t = s.tags;
    double score = 0;
    for (int i = from; i < to; ++i) {
        if (const int later = i + TOKENS_AHEAD; later < to) prefetch(s.unary + later * t + tags[later]);
        score += s.unary[i * t + tags[i]];
        if (i > from) score += s.edge(i - 1)[tags[i - 1] * t + tags[i]];
    }
    return score;
}

// Compute the scores (size) of a labeling (N) of a batch.
template <class In> void path_scores(const Batch<In>& batch, const int* tags, In* scores) {
    size_t first = 0;
    for (int b = 0; b < batch.size; first += batch.lengths[b++])
        scores[b] = In(path_score(batch.sequence(b, first), tags + first, 0, batch.lengths[b]));
}

// Add sum_k weights[k] F(y_k) to `node` (N, T), and to `sum` (T, T) or `each` (N, T, T) for edges.
template <class In>
void add_features(const Labelings<In>& y, In* node, double* sum, In* each) {
    const size_t t = y.n_tags;
    size_t start = 0;
    for (int b = 0; b < y.size; ++b) {
        const size_t stop = start + y.lengths[b];
        for (int k = 0; k < y.n; ++k) {
            const In weight = y.weights[size_t(b) * y.n + k];
            if (weight == 0) continue;
            const int* tags = y.tags + k * y.tokens;
            for (size_t i = start; i < stop; ++i) {
                if (const size_t later = i + TOKENS_AHEAD; later < stop) prefetch(node + later * t + tags[later]);
                node[i * t + tags[i]] += weight;
            }
            for (size_t i = start; i + 1 < stop; ++i) {
                const size_t pair = tags[i] * t + tags[i + 1];
                if (sum) sum[pair] += weight;
                else each[i * t * t + pair] += weight;
            }
        }
        start = stop;
    }
}

// Turn the log-partition and the marginals of a sequence into the loss of its gold labeling, which is 0 or more, and
// its gradient, if there is one. The loss of a forbidden labeling is infinity or NaN. sum: see Outputs.
template <class In> void subtract_gold(const Sequence<In>& s, const Outputs<In>& outputs, double* sum) {
    if (!outputs.gold) return;
    const size_t t = s.tags;
    const int* y = outputs.gold + s.first;
    In* node = outputs.node + s.first * t;
    double total = 0;
    for (int i = 0; i < s.length; ++i) {
        if (const int later = i + TOKENS_AHEAD; later < s.length) {
            prefetch(s.unary + later * t + y[later]);
            prefetch(node + later * t + y[later]);
        }
        total += s.unary[i * t + y[i]];
        node[i * t + y[i]] -= 1;
        if (i == 0) continue;
        const size_t pair = y[i - 1] * t + y[i];
        total += s.edge(i - 1)[pair];
        if (sum) sum[pair] -= 1;
        else outputs.each[(s.first + i - 1) * t * t + pair] -= 1;
    }
    const In score = In(total);
    In& value = outputs.value[s.index];
    value = value < score ? In(0) : value - score;
}

// Compute <F(y_j), F(y_k)> for each sequence, (size, n, n). With shared transitions F counts each
// pair of tags in the sequence; otherwise each edge has features of its own.
template <class In> void gram_matrices(const Labelings<In>& y, bool shared, double* products) {
    const size_t t = y.n_tags;
    Buffer<double> counts(shared ? t * t : 1);
    size_t start = 0;
    for (int b = 0; b < y.size; ++b, products += size_t(y.n) * y.n) {
        const size_t stop = start + y.lengths[b];
        for (int j = 0; j < y.n; ++j) {
            const int* a = y.tags + j * y.tokens;
            for (size_t i = start; shared && i + 1 < stop; ++i) counts[a[i] * t + a[i + 1]] += 1;
            for (int k = 0; k <= j; ++k) {
                const int* c = y.tags + k * y.tokens;
                double product = 0;
                for (size_t i = start; i < stop; ++i) product += a[i] == c[i];
                for (size_t i = start; i + 1 < stop; ++i)
                    product += shared ? counts[c[i] * t + c[i + 1]]
                                      : double(a[i] == c[i] && a[i + 1] == c[i + 1]);
                products[j * y.n + k] = products[k * y.n + j] = product;
            }
            for (size_t i = start; shared && i + 1 < stop; ++i) counts[a[i] * t + a[i + 1]] = 0;
        }
        start = stop;
    }
}

// For each of `size` problems, find the steps (n) in [0, most] that maximize <steps, gains> - steps' gram steps / 2.
// Hildreth's method sets one step after another to its best value, until no step moves.
inline void hildreth(int size, int n, const double* gains, const double* gram, double most,
                     double* steps) {
    for (; size > 0; --size, gains += n, gram += size_t(n) * n, steps += n) {
        std::fill(steps, steps + n, 0.0);
        double moved = infinity<double>, largest = 0;
        using Limits = HildrethLimits;
        for (int sweep = 0; sweep < Limits::MOST_SWEEPS && moved > Limits::LEAST_MOVE * largest; ++sweep) {
            moved = largest = 0;
            for (int k = 0; k < n; ++k) {
                const double* row = gram + size_t(k) * n;
                if (!(row[k] > 0)) continue;
                double left = gains[k];
                for (int j = 0; j < n; ++j) left -= row[j] * steps[j];
                const double step = std::min(std::max(steps[k] + left / row[k], 0.0), most);
                moved = std::max(moved, std::fabs(step - steps[k]));
                largest = std::max(largest, step);
                steps[k] = step;
            }
        }
    }
}

}  // namespace bcrf
