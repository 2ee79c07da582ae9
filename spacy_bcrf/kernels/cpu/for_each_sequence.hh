// The parallel loop over the sequences of a batch.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "batch.hh"
#include "features.hh"
#include "threads.hh"

namespace bcrf {

template <class In> std::vector<Place> places(const Batch<In>& batch) {
    std::vector<Place> found;
    found.reserve(batch.size);
    size_t token = 0;
    for (int b = 0; b < batch.size; token += batch.lengths[b++])
        if (batch.lengths[b] > 0) found.push_back({b, token});
    return found;
}

// Sequences with more tokens than this get two threads, if it does not depend on other sequences.
constexpr int LONG_LENGTH = 2048;

// Return the length of the longest sequence of a list.
template <class In> int longest(const Batch<In>& batch, const std::vector<Place>& which) {
    int top = 0;
    for (Place place : which) top = std::max(top, batch.lengths[place.index]);
    return top;
}

// Move the long sequences from `which` to a list.
template <class In> std::vector<Place> take_long(const Batch<In>& batch, std::vector<Place>& which) {
    const auto is_short = [&](Place place) { return batch.lengths[place.index] <= LONG_LENGTH; };
    const auto first = std::stable_partition(which.begin(), which.end(), is_short);
    const std::vector<Place> found(first, which.end());
    which.erase(first, which.end());
    return found;
}

// Consecutive items [first, last).
struct Chunk {
    size_t first, last;
};

// The type of the numbers in rows.
template <class R> struct Rows {
    using type = R;
};

// Minimum work of a chunk, in multiply-adds. It is a multiple of the cost of waking a thread, and
// of the cost of adding one number of a chunk's sums to the total.
constexpr double LEAST_WORK = 3e5, LEAST_WORK_A_SUM = 400;
constexpr size_t MOST_CHUNKS = 16;

// Return the work of one pass over the transitions, for each token. 800 stands for all other work.
template <class In> double pass(const Batch<In>& batch) {
    return double(batch.tags) * batch.tags + 800;
}

// Split n items into chunks of similar size. tokens(i) is the size of an item. Neither the chunks nor
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

// Call run(chain, item, sum) for each of n items. make() returns the chain of a thread. `work` is the
// work for each token, in multiply-adds. `sum` (tags, tags) may be null. Each chunk has a sum of its
// own, which flush(chain, sum) completes; the loop adds them in order.
template <class In, class Tokens, class Make, class Run, class Flush>
void for_each_item(const Batch<In>& batch, size_t n, Tokens tokens, double work, double* sum,
                   Make make, Run run, Flush flush) {
    if (n == 0) return;
    const size_t size = sum ? size_t(batch.tags) * batch.tags : 0;
    const std::vector<Chunk> chunks = split(n, tokens, work, size);
    Buffer<double> sums(size * (chunks.size() - 1));
    Deal deal(chunks.size());
    in_threads(int(std::min(size_t(batch.threads), chunks.size())), [&] {
        if (deal.is_over()) return;
        FlushDenormals denormals;
        auto chain = make();
        SignalCheck signals;
        for (size_t p = deal.next(); p < chunks.size(); p = deal.next()) {
            double* own = !sum ? nullptr : p == 0 ? sum : sums + (p - 1) * size;
            for (size_t i = chunks[p].first; i < chunks[p].last; ++i) {
                run(chain, i, own);
                signals.add(double(tokens(i)) * work);
            }
            if (sum) flush(chain, own);
        }
    });
    const double* own = sums;
    for (size_t p = 1; p < chunks.size(); ++p)
        for (size_t i = 0; i < size; ++i) sum[i] += *own++;
}

// The loop over sequences: run(chain, sequence, sum).
template <class In, class Make, class Run, class Flush>
void for_each_sequence(const Batch<In>& batch, const std::vector<Place>& which, double work,
                       double* sum, Make make, Run run, Flush flush) {
    for_each_item(
        batch, which.size(), [&](size_t i) { return size_t(batch.lengths[which[i].index]); }, work,
        sum, make,
        [&](auto& chain, size_t i, double* own) {
            run(chain, batch.sequence(which[i]), own);
        },
        flush);
}

// The loop of kernels with an Output: run(chain, sequence, output) returns false if the sequence needs another
// kernel.
template <class In, class Make, class Run, class Flush>
void for_each_output(const Batch<In>& batch, const std::vector<Place>& which, double work, const Outputs<In>& outputs,
                     Make make, Run run, Flush flush) {
    for_each_sequence(
        batch, which, work, outputs.sum, make,
        [&](auto& chain, const Sequence<In>& s, double* own) {
            Output<In> out = outputs.of(s, own);
            if (!run(chain, s, out)) return;
            outputs.value[s.index] = In(out.value);
            subtract_gold(s, outputs, own);
        },
        flush);
}

// Return the sequences of a list whose entry in `failed` (batch) is set.
inline std::vector<Place> select(const std::vector<Place>& which, const std::vector<char>& failed) {
    std::vector<Place> found;
    for (Place place : which)
        if (failed[place.index]) found.push_back(place);
    return found;
}

// The loop over all sequences that have tokens.
template <class In, class Make, class Run>
void for_each_sequence(const Batch<In>& batch, double work, double* sum, Make make, Run run) {
    for_each_sequence(batch, places(batch), work, sum, make, run,
                      [](auto& chain, double* own) { chain.flush(own); });
}

// The loop of kernels without a sum, which calls run(chain, sequence).
template <class In, class Make, class Run>
void for_each_sequence(const Batch<In>& batch, double work, Make make, Run run) {
    for_each_sequence(
        batch, places(batch), work, nullptr, make,
        [&](auto& chain, const Sequence<In>& s, double*) { run(chain, s); },
        [](auto&, double*) {});
}

}  // namespace bcrf
