// The plan of a call: steps, each a layout and a number, in the order in which they are tried. A step computes the
// sequences that fit its layout; those that its number cannot hold go on to the next step. The last step of floats copies
// them to doubles, which have a plan of their own.
//
// All thresholds that choose a path are here. Each names the benchmark that chose it, on an AMD EPYC (Zen 5) and an Intel
// Xeon. benchmarks.paths times each path beside the plan's choice. A threshold without a path needs a second checkout with
// another number: its benchmark runs with --against, or in both.
#pragma once

#include "chunks.hh"
#include "lanes.hh"
#include "paths.hh"
#include "rows.hh"
#include "transition_blocks.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Recursions of longer sequences keep one window of tokens in the cache: `benchmarks.scaling`, lengths 1,000 and above.
constexpr int LONG_LENGTH = 2048, WINDOW = 256;

// Projections and mean field: the vectors of columns of a tile in lanes, unless a sequence is longer. The numbers of this
// many fit the first cache: `benchmarks.kernels --against`, BCRF(10) of 16 and 64 sequences.
constexpr int TOKEN_VECTORS = 4;
// The least tokens of a window: `benchmarks.scaling`, BCRF(10) of length 1,000. The tags^2 per token of a tile that
// pay for the sums of all pairs of tags: `benchmarks.paths --operations bregman`, a quarter of the lanes.
constexpr int LEAST_WINDOW = 512, PAIRS_A_TOKEN = 24;

// Return the tokens of a window of a long sequence, without its border: many times the border's, or all.
inline int token_window(int border, int length) {
    return std::max(LEAST_WINDOW, border < length / 16 ? 16 * border : length);
}

// From this many tags on, plain products over blocks of transitions are faster if at most this share is allowed:
// `benchmarks.kernels --against`, Schemes, BILUO of 4 and 7 labels; scattered transitions by its Ranges, "half".
constexpr int MIN_BLOCK_TAGS = 24;
constexpr double MOST_ALLOWED_IN_BLOCKS = 0.6;
// The tokens per tag that pay for finding blocks: `benchmarks.kernels --against`, Schemes, batches of 1.
constexpr size_t BLOCK_TOKENS_A_TAG = 4;

// Return whether blocks of tags leave out so many transitions that plain products over them are faster, and whether
// there are enough tokens to pay for finding them. The tags may have no groups.
template <class R> bool would_blocks_pay(const Batch<R>& batch) {
    if (!batch.shared || batch.tags < MIN_BLOCK_TAGS || batch.tokens() < BLOCK_TOKENS_A_TAG * batch.tags) return false;
    const size_t n = size_t(batch.tags) * batch.tags;
    const auto forbidden = std::count(batch.transitions, batch.transitions + n, -infinity<R>);
    return double(n - forbidden) / double(n) < MOST_ALLOWED_IN_BLOCKS;
}

inline bool is_only_plain(Operation operation) {
    return operation == Operation::MEAN_FIELD || operation == Operation::MAX_PRODUCT;
}

// Return whether a plan tries plain numbers for scores of this range.
template <class R> bool fits_plain(Operation operation, double range) {
    using Limits = Precision<R>;
    if (is_only_plain(operation)) return true;
    return !(range > (operation == Operation::BREGMAN ? Limits::MAX_RANGE : Limits::TRIED_RANGE));
}

// range: see guess_range.
template <class R> Shape shape_of(const Batch<R>& batch, const Request& request, double range) {
    const Operation operation = request.operation;
    const size_t n = batch.shared && !is_only_plain(operation) ? size_t(batch.tags) * batch.tags : 0;
    const Extent<R> found = extent(batch.transitions, n);
    const bool plain = !((double(found.top) - found.least) * request.scale > Precision<R>::PLAIN_RANGE);
    const bool may_pay = would_blocks_pay(batch);
    // Plain numbers do not ask.
    const bool may_be_alone = n && found.low == -infinity<R> && !fits_plain<R>(operation, range);
    const bool has_groups = (may_pay || may_be_alone) && !group_tags(batch, false).empty();
    return {request, batch.tags, batch.shared, may_pay && has_groups, may_be_alone && !has_groups, plain, range,
            batch.path};
}

struct Step {
    Path path;
    double share = 0;  // the least share of its lanes that a tile must fill
};

// Return the least tokens of a tile of Bregman projections in lanes: the sums of all pairs of tags take a time of their
// own. share: see Step; 0 if rows are slow.
inline size_t least_tokens(const Shape& shape, double share) {
    return share == 0 || shape.blocks ? 0 : size_t(shape.tags) * shape.tags / PAIRS_A_TOKEN;
}

// Return the share of lanes that a tile must fill to be faster than rows of plain numbers, or more than 1 if none is.
// `benchmarks.paths --sets baseline avx2 avx512`, deviation 2.
template <class R> double plain_lane_share(const Shape& shape) {
    const int tags = shape.tags;
    if (lanes<R> < 4 && shape.operation == Operation::BREGMAN) return shape.blocks ? 0.4 : 2;
    if (lanes<R> < 4)
        return shape.blocks && lanes<R> >= 2 && shape.operation == Operation::SUM_PRODUCT && !shape.each ? 0.65 : 2;
    switch (shape.operation) {
        case Operation::MEAN_FIELD:
            // With more tags, the vectors of rows have little padding.
            return tags <= (BCRF_VECTOR_BYTES > 16 ? 44 : 20) ? 0.4 : 2;
        case Operation::BREGMAN:
            if (tags >= 64 && !shape.blocks) return 2;
            return tags < 32 || shape.blocks ? 0.4 : 0.7;
        case Operation::MAX_PRODUCT:
            if (shape.blocks) return 0.6;
            // No sums need registers, so lanes are faster up to more tags.
            if (BCRF_VECTOR_BYTES == 64 && tags >= 32 && tags < 64) return 0.45;
            break;
        default:
            if (shape.blocks) return 0.65;
    }
    const int limit = shape.operation != Operation::MAX_PRODUCT && sizeof(R) == 8 ? 20 : 32;
    if (tags >= limit) return 2;
    const double share = BCRF_VECTOR_BYTES == 64 ? 0.3 + 0.0115 * tags : 0.35 + 0.0175 * tags;
    return share + (sizeof(R) == 8 ? 0.1 : 0);
}

// The share for lanes of wide numbers to be faster than rows. `benchmarks.paths`, deviation 300.
template <class R> double wide_lane_share(const Shape& shape) {
    // Without blocks, plain doubles are faster, and rows of many tags.
    const bool doubles = sizeof(R) == 4 && fits_plain<double>(shape.operation, shape.range);
    if (shape.alone && (doubles || shape.tags >= 32)) return 2;
    if (shape.operation == Operation::BREGMAN) return 0;
    const double share = std::min(0.1 + 0.0095 * shape.tags, 0.75) * (sizeof(R) == 4 ? 1 : 1.6);
    return shape.blocks ? std::min(share, 0.5) : share;
}

inline bool has_path(const Shape& shape, Path path, bool single) {
    const bool plain = path == Path::LANES || path == Path::ROWS;
    if (path == Path::FLOAT64) return single && !is_only_plain(shape.operation);
    if (is_in_lanes(path) && !shape.has_lanes()) return false;
    if ((path == Path::LANES_WIDE && !shape.plain) || (!plain && single && shape.needs_doubles())) return false;
    return plain || !is_only_plain(shape.operation);
}

// Return the steps of an operation. Throw std::invalid_argument if the forced path does not exist for it.
template <class R> std::vector<Step> plan(const Shape& shape) {
    constexpr bool SINGLE = sizeof(R) == 4;
    const bool only_plain = is_only_plain(shape.operation);
    const Path last = only_plain ? Path::ROWS : SINGLE ? Path::FLOAT64 : Path::ROWS_WIDE;
    if (shape.path >= 0) {
        const Path path = Path(shape.path);
        if (!has_path(shape, path, SINGLE)) {
            std::string listed;
            for (size_t i = 0; i < PATHS.size(); ++i)
                if (has_path(shape, Path(i), SINGLE)) listed += (listed.empty() ? "'" : ", '") + std::string(PATHS[i]) + "'";
            throw std::invalid_argument(
                std::string("the environment variable BCRF_PATH names '") + PATHS[shape.path] + "', which " +
                OPERATIONS[size_t(shape.operation)] + " does not have for these " + (SINGLE ? "float32" : "float64") +
                " scores" + (shape.each ? ", marginals of each edge" : "") + " and transitions of " +
                (shape.shared ? "all edges" : "each edge") + "; it has " + listed);
        }
        if (path == last) return {{last}};
        return {{path}, {last}};
    }
    std::vector<Step> steps;
    steps.reserve(PATHS.size());
    const double plain = plain_lane_share<R>(shape), wide = wide_lane_share<R>(shape);
    if (fits_plain<R>(shape.operation, shape.range)) {
        if (shape.has_lanes() && plain <= 1) steps.push_back({Path::LANES, plain});
        steps.push_back({Path::ROWS});
    }
    if (only_plain) return steps;
    const bool holds = shape.range < Wide<R>::MAX_RANGE && !(SINGLE && shape.needs_doubles());
    if (holds && shape.has_lanes() && shape.plain && wide <= 1) steps.push_back({Path::LANES_WIDE, wide});
    // Plain doubles are faster than rows of wide floats, but not to copy the marginals of each edge.
    const bool copies_edges = shape.each && shape.operation == Operation::SUM_PRODUCT;
    if (!SINGLE || (holds && (copies_edges || !fits_plain<double>(shape.operation, shape.range))))
        steps.push_back({Path::ROWS_WIDE});
    if (SINGLE) steps.push_back({Path::FLOAT64});
    return steps;
}

// Return the range of most tag scores, the median of a few tokens, or of the transitions if that is less: a tag whose
// weight is lost matters only if the next tags cannot follow the others as well. A wrong guess costs time only: a step
// fails, or a slower one runs than needed.
template <class R> double guess_range(const Batch<R>& batch, const Request& request) {
    constexpr size_t MOST = 16;
    const size_t t = batch.tags, tokens = batch.tokens(), n = std::min(tokens, MOST);
    double ranges[MOST];
    for (size_t i = 0; i < n; ++i) {
        const Extent<R> found = extent(batch.unary + tokens * i / n * t, t);
        const double range = double(found.top) - found.least;
        ranges[i] = range >= 0 ? range : infinity<double>;  // NaN has no place in an order
    }
    std::nth_element(ranges, ranges + n / 2, ranges + n);
    const double range = (n ? ranges[n / 2] : 0) * request.scale;
    const Operation operation = request.operation;
    if (operation == Operation::BREGMAN || !batch.shared || fits_plain<R>(operation, range)) return range;
    const Extent<R> found = extent(batch.transitions, t * t);
    return found.low > -infinity<R> ? std::min(range, double(found.top) - found.low) : range;
}

// The names of types, for functions that take a layout and a number.
template <class T> struct Type {
    using type = T;
};

// Run the steps of an operation: run(layout, number, tiles, failed) computes tiles, and sets failed[b] for the sequences
// b that the number cannot hold. in_double(list) computes the sequences of floats of a list as doubles; it is null if
// plain numbers hold all.
template <template <class> class RowsOf, template <class> class LanesOf, class R, class Run, class InDouble>
void run_plan(const Batch<R>& batch, std::vector<Sequence<R>> left, const Shape& shape, Run run, InDouble in_double) {
    std::vector<char> failed(batch.size);
    for (Step step : plan<R>(shape)) {
        if (left.empty()) return;
        if (step.path == Path::FLOAT64) break;
        const auto compute = [&](auto layout, auto number) {
            std::vector<Sequence<R>> list, rest;
            list.swap(left);
            const auto tiles = decltype(layout)::type::tiles(shape, list, rest, step.share);
            left.swap(rest);
            if (!tiles.empty()) run(layout, number, tiles, failed.data());
            for (const Tile<R>& tile : tiles)
                for (int k = 0; k < tile.size; ++k)
                    if (failed[tile.sequence[k].index]) left.push_back(tile.sequence[k]);
            std::sort(left.begin(), left.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
            count_path<R>(shape.operation, step.path, list.size() - left.size());
        };
        const auto compute_number = [&](auto number) {
            if (is_in_lanes(step.path)) compute(Type<LanesOf<R>>(), number);
            else compute(Type<RowsOf<R>>(), number);
        };
        if constexpr (std::is_null_pointer_v<InDouble>) compute_number(Type<Plain<R>>());
        else if (is_wide(step.path)) compute_number(Type<Wide<R>>());
        else compute_number(Type<Plain<R>>());
    }
    if constexpr (!std::is_null_pointer_v<InDouble>)
        if (!left.empty()) {
            in_double(left);
            count_path<R>(shape.operation, Path::FLOAT64, left.size());
        }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
