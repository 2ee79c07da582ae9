// The loop over the sequences of a batch that all kernels share, and what of it goes to a thread.
#pragma once

#include "batch.hh"
#include "threads.hh"

namespace bcrf {

// Neighbouring sequences, and the flat index of the first one's first token.
struct Chunk {
    int first, last;
    size_t token;
};

// Work is counted in multiply-adds. A chunk has at least some times what it takes to wake a thread,
// and, where sums are wanted, to add up those of a chunk.
constexpr double LEAST_WORK = 3e5, LEAST_WORK_A_SUM = 400;
constexpr size_t MOST_CHUNKS = 16;

// What one pass of a kernel over the transitions takes a token; 800 stands for what is left.
template <class In> double pass(const Batch<In>& batch) {
    return double(batch.tags) * batch.tags + 800;
}

// Chunks of about the same size. They do not depend on the number of threads, so neither do sums.
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

// Gives every sequence that has tokens to run(chain, sequence, sum), where each thread has one chain,
// made by make(). `work` is what a token takes, in multiply-adds. `sum` (tags, tags) may be null;
// each chunk has its own, filled by flush(chain, sum) at its end, and they are added in order.
template <class In, class Make, class Run, class Flush>
void for_each_sequence(const Batch<In>& batch, double work, double* sum, Make make, Run run,
                       Flush flush) {
    const size_t size = sum ? size_t(batch.tags) * batch.tags : 0;
    const std::vector<Chunk> chunks = split(batch, work, size);
    Buffer<double> sums(size * (chunks.size() - 1));
    std::atomic<size_t> next{0};
    in_threads(int(std::min(size_t(batch.threads), chunks.size())), [&] {
        if (next >= chunks.size()) return;
        FlushDenormals denormals;
        auto chain = make();
        for (size_t p = next++; p < chunks.size(); p = next++) {
            double* own = !sum ? nullptr : p == 0 ? sum : sums + (p - 1) * size;
            size_t token = chunks[p].token;
            for (int b = chunks[p].first; b < chunks[p].last; ++b) {
                if (batch.lengths[b] > 0) run(chain, batch.sequence(b, token), own);
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

// The same of kernels that sum nothing: run(chain, sequence).
template <class In, class Make, class Run>
void for_each_sequence(const Batch<In>& batch, double work, Make make, Run run) {
    for_each_sequence(
        batch, work, nullptr, make,
        [&](auto& chain, const Sequence<In>& s, double*) { run(chain, s); },
        [](auto&, double*) {});
}

}  // namespace bcrf
