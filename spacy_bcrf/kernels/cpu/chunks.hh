// The parallel loop over the tiles of a batch, in chunks: a chunk is what a thread takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "batch.hh"
#include "features.hh"
#include "threads.hh"
#include "thresholds.hh"

namespace bcrf {

// Consecutive tiles [first, last).
struct Chunk {
    size_t first, last;
};

// Return the work of one pass over the transitions, for each token.
template <class R> double pass(const Batch<R>& batch) { return double(batch.tags) * batch.tags + TOKEN_WORK; }

// Split n tiles into chunks of similar size. tokens(i) is the size of a tile. Neither the chunks nor
// the sums, to the last bit, depend on the number of threads.
template <class Tokens>
std::vector<Chunk> split(size_t n, Tokens tokens, double work, size_t sums) {
    size_t left = 0;
    for (size_t i = 0; i < n; ++i) left += tokens(i);
    const double least_work = std::max(LEAST_WORK, LEAST_WORK_A_SUM * double(sums));
    const size_t least = std::max(size_t(least_work / work), left / MOST_CHUNKS) + 1;
    std::vector<Chunk> chunks;
    Chunk chunk{0, 0};
    for (size_t size = 0; chunk.last < n;) {
        const size_t length = tokens(chunk.last++);
        size += length;
        left -= length;
        if (size < least || left < least) continue;
        chunks.push_back(chunk);
        chunk = {chunk.last, chunk.last};
        size = 0;
    }
    chunks.push_back({chunk.first, n});
    return chunks;
}

// Deals n chunks to threads: to the caller from the front, to others from the end. The cache of a thread then often
// has the memory of its chunks from the last call.
class Deal {
    const size_t n_;
    std::atomic<size_t> dealt_{0}, front_{0}, back_{0};

  public:
    explicit Deal(size_t n) : n_(n) {}
    bool is_over() const { return dealt_ >= n_; }
    // Return the next chunk of this thread, or n.
    size_t next() {
        if (dealt_++ >= n_) return n_;
        return thread_of_call.is_caller ? front_++ : n_ - 1 - back_++;
    }
};

// Return the length of the longest sequence of a list of tiles.
template <class Tile> int longest(const std::vector<Tile>& tiles) {
    int top = 0;
    for (const Tile& tile : tiles) top = std::max(top, tile.longest);
    return top;
}

// Call run(recursion, tile, sum) for each tile of a list. make() returns the recursion of a thread. `work` is the work
// for each token, in multiply-adds. `sum` (tags, tags) may be null. Each chunk has a sum of its own, which
// flush(recursion, sum) completes; the loop adds them in order.
template <class R, class Tile, class Make, class Run, class Flush>
void for_each_tile(const Batch<R>& batch, const std::vector<Tile>& tiles, double work, double* sum, Make make, Run run,
                   Flush flush) {
    if (tiles.empty()) return;
    const size_t size = sum ? size_t(batch.tags) * batch.tags : 0;
    const std::vector<Chunk> chunks = split(tiles.size(), [&](size_t i) { return tiles[i].tokens; }, work, size);
    Buffer<double> sums(size * (chunks.size() - 1));
    Deal deal(chunks.size());
    in_threads(int(std::min(size_t(batch.threads), chunks.size())), [&] {
        if (deal.is_over()) return;
        FlushDenormals denormals;
        auto recursion = make();
        SignalCheck signals;
        for (size_t p = deal.next(); p < chunks.size(); p = deal.next()) {
            double* own = !sum ? nullptr : p == 0 ? sum : sums + (p - 1) * size;
            for (size_t i = chunks[p].first; i < chunks[p].last; ++i) {
                run(recursion, tiles[i], own);
                signals.add(double(tiles[i].tokens) * work);
            }
            if (sum) flush(recursion, own);
        }
    });
    const double* own = sums;
    for (size_t p = 1; p < chunks.size(); ++p)
        for (size_t i = 0; i < size; ++i) sum[i] += *own++;
}

// A tile of one sequence, of searches that are no recursion in a layout.
template <class R> struct SequenceTile : Sequence<R> {
    size_t tokens;
    SequenceTile(const Sequence<R>& s) : Sequence<R>(s), tokens(s.length) {}
};

// Call run(search, sequence) for all sequences that have tokens.
template <class R, class Make, class Run>
void for_each_sequence(const Batch<R>& batch, double work, Make make, Run run) {
    const std::vector<Sequence<R>> all = batch.sequences();
    for_each_tile(
        batch, std::vector<SequenceTile<R>>(all.begin(), all.end()), work, nullptr, make,
        [&](auto& search, const Sequence<R>& s, double*) { run(search, s); }, [](auto&, double*) {});
}

}  // namespace bcrf
