// The parallel loop over the sequences of a batch.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "batch.hh"
#include "threads.hh"

namespace bcrf {

// Consecutive sequences [first, last), and the flat index of their first token.
struct Chunk {
    int first, last;
    size_t token;
};

// Minimum work of a chunk, in multiply-adds. It is a multiple of the cost of waking a thread, and
// of the cost of adding one number of a chunk's sums to the total.
constexpr double LEAST_WORK = 3e5, LEAST_WORK_A_SUM = 400;
constexpr size_t MOST_CHUNKS = 16;

// Return the work of one pass over the transitions, for each token. 800 stands for all other work.
template <class In> double pass(const Batch<In>& batch) {
    return double(batch.tags) * batch.tags + 800;
}

// Split a batch into chunks of similar size. Neither the chunks nor the sums, to the last bit, depend
// on the number of threads.
template <class In> std::vector<Chunk> split(const Batch<In>& batch, double work, size_t sums) {
    const size_t tokens = batch.tokens();
    const double least_work = std::max(LEAST_WORK, LEAST_WORK_A_SUM * double(sums));
    const size_t least = std::max(size_t(least_work / work), tokens / MOST_CHUNKS) + 1;
    std::vector<Chunk> chunks;
    Chunk chunk{0, 0, 0};
    for (size_t token = 0, left = tokens; chunk.last < batch.size;) {
        const size_t length = batch.lengths[chunk.last++];
        token += length;
        left -= length;
        if (token - chunk.token < least || left < least) continue;
        chunks.push_back(chunk);
        chunk = {chunk.last, chunk.last, token};
    }
    chunks.push_back(chunk);
    chunks.back().last = batch.size;
    return chunks;
}

// Call run(chain, sequence, sum) for each sequence that has tokens. make() returns the chain of a
// thread. `work` is the work for each token, in multiply-adds. `sum` (tags, tags) may be null. Each
// chunk has a sum of its own, which flush(chain, sum) completes; the loop adds them in order.
template <class In, class Make, class Run, class Flush>
void for_each_sequence(const Batch<In>& batch, double work, double* sum, Make make, Run run,
                       Flush flush) {
    const size_t size = sum ? size_t(batch.tags) * batch.tags : 0;
    if (batch.tokens() == 0) return;
    const std::vector<Chunk> chunks = split(batch, work, size);
    Buffer<double> sums(size * (chunks.size() - 1));
    std::atomic<size_t> next{0};
    in_threads(int(std::min(size_t(batch.threads), chunks.size())), [&] {
        if (next >= chunks.size()) return;
        FlushDenormals denormals;
        auto chain = make();
        SignalCheck signals;
        for (size_t p = next++; p < chunks.size(); p = next++) {
            double* own = !sum ? nullptr : p == 0 ? sum : sums + (p - 1) * size;
            size_t token = chunks[p].token;
            for (int b = chunks[p].first; b < chunks[p].last; ++b) {
                if (batch.lengths[b] > 0) run(chain, batch.sequence(b, token), own);
                signals.add(batch.lengths[b] * work);
                token += batch.lengths[b];
            }
            if (sum) flush(chain, own);
        }
    });
    const double* own = sums;
    for (size_t p = 1; p < chunks.size(); ++p)
        for (size_t i = 0; i < size; ++i) sum[i] += *own++;
}

template <class In, class Make, class Run>
void for_each_sequence(const Batch<In>& batch, double work, double* sum, Make make, Run run) {
    for_each_sequence(batch, work, sum, make, run,
                      [](auto& chain, double* own) { chain.flush(own); });
}

// The loop of kernels without a sum, which calls run(chain, sequence).
template <class In, class Make, class Run>
void for_each_sequence(const Batch<In>& batch, double work, Make make, Run run) {
    for_each_sequence(
        batch, work, nullptr, make,
        [&](auto& chain, const Sequence<In>& s, double*) { run(chain, s); },
        [](auto&, double*) {});
}

}  // namespace bcrf
