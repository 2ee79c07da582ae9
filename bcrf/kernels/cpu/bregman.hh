// The Bregman CRF: an upper bound of the log-partition by iterative projections, or a lower one, with marginals.
#pragma once

#include "outputs.hh"
#include "projections.hh"

namespace bcrf {
namespace BCRF_TARGET {

// What a call wants.
template <class R> struct BregmanCall {
    const BregmanOptions& options;
    const Shape& shape;
    double* value;  // (size)
    Outputs<R> out;
    ArcChain<R>* chain;  // for the lower bound, or null
};

template <class L, class N, class R>
void project_tiles(const Batch<R>& batch, const std::vector<Tile<R>>& tiles, const BregmanCall<R>& call, char* failed) {
    using P = Projections<L, N>;
    const size_t room = largest_room<L>(tiles);
    for_each_tile(
        batch, tiles, (L::IN_LANES ? 0.3 : 1) * (call.options.n_iter + 3) * pass(batch), call.out.sum,
        [&] { return P(batch, call.shape, call.options, room); },
        [&](P& projections, const Tile<R>& tile, double* sum) {
            projections.run(tile, call.value, call.out, call.chain, sum, failed);
        });
}

// Compute a long sequence in windows, which are tiles of their own. Return whether it needs more range.
template <class L, class N, class R>
bool project_windows(const Batch<R>& batch, const Sequence<R>& s, BregmanCall<R> call) {
    LiveTags live_tags(batch.tags, batch.shared);
    std::vector<std::uint64_t> alive;
    if (!(extent(batch.transitions, size_t(batch.tags) * batch.tags).low > -infinity<R>)) {
        alive.resize(size_t(s.length) * live_tags.words);
        live_tags.find(s, alive.data());
    }
    const std::vector<Sequence<R>> all = windows(s, call.options.n_iter, alive.data(), live_tags.words);
    // A sequence that fails must not change the sum.
    const size_t pairs = call.out.sum ? size_t(batch.tags) * batch.tags : 0;
    Buffer<double> own(pairs);
    double *value = call.value + s.index, *sum = call.out.sum;
    std::vector<double> values(all.size());
    std::vector<char> failed(all.size());
    call.value = values.data();
    call.out.sum = own.data();
    project_tiles<L, N>(batch, single_tiles(all), call, failed.data());
    *value = 0;
    for (double x : values) *value += x;
    if (std::count(failed.begin(), failed.end(), 0) < long(all.size())) return true;
    BCRF_VECTORIZE for (size_t k = 0; k < pairs; ++k) sum[k] += own[k];
    return false;
}

// Return sum p (log p - log_q) over n numbers, without numbers p that are not normal.
template <class R> double divergence(const R* p, const R* log_q, size_t n) {
    constexpr size_t W = lanes<R>;
    LaneSums<R> sums;
    for (size_t k = 0; k < n; k += W) {
        const int left = int(std::min(n - k, W));
        const Vec<R> x = load_first<R>(p + k, left, p + n);
        const Vec<R> one = broadcast<R>(1), used = x > Precision<R>::MIN_NORMAL ? x : one;
        const Vec<R> term = x * (logarithm(used) - load_first<R>(log_q + k, left, log_q + n));
        sums.add(x > Precision<R>::MIN_NORMAL ? term : Vec<R>{});
    }
    double total[W];
    sums.read(total);
    return std::accumulate(total, total + W, 0.0);
}

// Subtract the duality gap from the values of the sequences that are not done: the dual value minus <p, w> + H(p). p is
// a point of the polytope: the Markov chain with q's first marginals and q's transition probabilities. The gap is the
// sum of p log(p / flow out) over all tokens but the last.
template <class R>
void subtract_gaps(const Batch<R>& batch, const std::vector<char>& done, double scale, const ArcChain<R>& arcs,
                   double* value) {
    const size_t tags = batch.tags, edges = batch.shared ? 1 : batch.tokens();
    Batch<R> chain = batch;
    chain.unary = arcs.scores;
    std::vector<R> transitions(batch.transitions, batch.transitions + edges * tags * tags);
    for (R& w : transitions) w = R(w * scale);
    chain.transitions = transitions.data();
    std::vector<Sequence<R>> chains;
    for (const Sequence<R>& s : chain.sequences())
        if (!done[s.index]) chains.push_back(s);
    Buffer<R> p(batch.tokens() * tags);
    std::vector<R> ignored(batch.size);
    sum_product<R>(chain, chains, Outputs<R>{ignored.data(), p});
    for_each_sequence(batch, chains, double(tags), [] { return 0; }, [&](int, const Sequence<R>& s) {
        const size_t first = s.first * tags, numbers = (s.length - 1) * tags;
        value[s.index] -= std::max(divergence(p + first, arcs.log_flow + first, numbers), 0.0);
    });
}

template <class R>
void bregman(const Batch<R>& batch, const BregmanOptions& options, const Outputs<R>& out) {
    const Request request{Operation::BREGMAN, out.each != nullptr, options.lower, options.n_iter, options.scale};
    const Shape shape = shape_of(batch, request, guess_range(batch, request));
    const size_t numbers = options.lower ? batch.tokens() * batch.tags : 0;
    Buffer<R> scores(numbers), log_flow(numbers);
    ArcChain<R> chain{scores, log_flow};
    std::vector<double> values(batch.size);
    const BregmanCall<R> call{options, shape, values.data(), out, options.lower ? &chain : nullptr};
    std::vector<char> doubled(batch.size);  // whether a sequence was computed as doubles
    const auto run = [&](auto layout, auto number, const auto& tiles, char* failed) {
        using L = typename decltype(layout)::type;
        using N = typename decltype(number)::type;
        // Windows do not see the violations of each other.
        const bool cut = shape.has_lanes() && !options.needs_violation() && !Projections<L, N>::ANY_RANGE;
        std::vector<Tile<R>> rest;
        for (const Tile<R>& tile : tiles) {
            const Sequence<R>& s = tile.sequence[0];
            if (!cut || s.length <= LONG_LENGTH) rest.push_back(tile);
            else failed[s.index] = project_windows<L, N>(batch, s, call);
        }
        project_tiles<L, N>(batch, rest, call, failed);
    };
    const auto in_double = [&](const std::vector<Sequence<R>>& left) {
        run_in_double(batch, left, out, [&](const Batch<double>& doubles, const Outputs<double>& to) {
            bregman(doubles, options, to);
        });
        for (const Sequence<R>& s : left) values[s.index] = out.value[s.index], doubled[s.index] = 1;
    };
    run_plan<TokenRows, TokenLanes>(batch, batch.sequences(), shape, run, in_double);
    if (options.lower) subtract_gaps(batch, doubled, options.scale, chain, values.data());
    // One after the other, because the sum is complete only now.
    for (const Sequence<R>& s : batch.sequences()) {
        out.value[s.index] = R(values[s.index]);
        subtract_gold(s, out, out.sum);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
