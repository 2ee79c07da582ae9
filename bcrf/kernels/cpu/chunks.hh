// The parallel loop over the tiles of a batch, in chunks: a chunk is what a thread takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "batch.hh"
#include "features.hh"
#include "paths.hh"
#include "threads.hh"

namespace bcrf {

// Consecutive tiles [first, last).
struct Chunk {
    size_t first, last;
};

// Return the work of one pass over the transitions, for each token.
template <class R> double pass(const Batch<R>& batch) { return double(batch.tags) * batch.tags + TOKEN_WORK; }

// Split tiles into chunks of similar size. Neither the chunks nor the sums, to the last bit, depend on the number of
// threads.
template <class R> std::vector<Chunk> split(const std::vector<Tile<R>>& tiles, double work, size_t sums) {
    size_t left = 0, size = 0;
    for (const Tile<R>& tile : tiles) left += tile.tokens;
    const double least_work = std::max(LEAST_WORK, LEAST_WORK_A_SUM * double(sums));
    const size_t least = std::max(size_t(least_work / work), left / MOST_CHUNKS) + 1;
    std::vector<Chunk> chunks{{0, 0}};
    for (const Tile<R>& tile : tiles) {
        size += tile.tokens;
        left -= tile.tokens;
        const size_t last = ++chunks.back().last;
        if (size < least || left < least) continue;
        chunks.push_back({last, last});
        size = 0;
    }
    return chunks;
}

// Return the most room that a tile of a list needs in a layout.
template <class Layout, class R> size_t largest_room(const std::vector<Tile<R>>& tiles) {
    size_t room = 0;
    for (const Tile<R>& tile : tiles) room = std::max(room, Layout::room(tile));
    return room;
}

// Call run(recursion, tile, sum) for each tile of a list. make() returns the recursion of a thread. `work` is the work
// for each token, in multiply-adds. `sum` (tags, tags) may be null. Each chunk has a sum of its own, which
// recursion.flush(sum) completes; the loop adds them in order. Sum: double*, or nullptr_t for recursions without one.
template <class R, class Sum, class Make, class Run>
void for_each_tile(const Batch<R>& batch, const std::vector<Tile<R>>& tiles, double work, Sum sum, Make make, Run run) {
    if (tiles.empty()) return;
    double* const total = sum;
    const size_t size = total ? size_t(batch.tags) * batch.tags : 0;
    const std::vector<Chunk> chunks = split(tiles, work, size);
    Buffer<double> sums(size * (chunks.size() - 1));
    std::atomic<size_t> next{0};
    in_threads(int(std::min(size_t(batch.threads), chunks.size())), [&] {
        if (next >= chunks.size()) return;
        [[maybe_unused]] const FlushDenormals denormals;
        auto recursion = make();
        SignalCheck signals;
        for (size_t p = next++; p < chunks.size(); p = next++) {
            double* own = p == 0 || !total ? total : sums + (p - 1) * size;
            for (size_t i = chunks[p].first; i < chunks[p].last; ++i) {
                run(recursion, tiles[i], own);
                signals.add(double(tiles[i].tokens) * work);
            }
            if constexpr (!std::is_null_pointer_v<Sum>)
                if (own) recursion.flush(own);
        }
    });
    for (size_t p = 1; p < chunks.size(); ++p)
#pragma omp simd  // target.hh comes after the headers of all instruction sets
        for (size_t i = 0; i < size; ++i) total[i] += sums[(p - 1) * size + i];
}

// Call run(search, sequence) for the sequences of a list.
template <class R, class Make, class Run>
void for_each_sequence(const Batch<R>& batch, const std::vector<Sequence<R>>& list, double work, Make make, Run run) {
    for_each_tile(
        batch, single_tiles(list), work, nullptr, make,
        [&](auto& search, const Tile<R>& tile, double*) { run(search, tile.sequence[0]); });
}

}  // namespace bcrf
