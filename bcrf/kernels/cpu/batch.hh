// Ragged batches, and helpers that do not depend on the instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <type_traits>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

#include "../shared/projection.hh"

namespace bcrf {

using std::size_t;

template <class R> constexpr R infinity = std::numeric_limits<R>::infinity();
constexpr double LOG_2 = 0.69314718055994530942;

// Consecutive tokens of a batch: a sequence, or a window of a long sequence.
template <class In> struct Sequence {
    const In* unary;        // (length, tags)
    const In* transitions;  // (tags, tags), or (length - 1, tags, tags) if not shared
    int length, tags;
    bool shared;
    int index = 0;          // position in the batch, or of a window in its sequence
    size_t first = 0;       // flat index of the first token
    int from = 0, to = 0;   // of a window: the tokens whose results count; the others are its border
    const std::uint64_t* alive = nullptr;  // see LiveTags; null to find them

    const In* edge(int i) const {
        return shared ? transitions : transitions + size_t(i) * tags * tags;
    }
};

template <class In> struct Batch {
    const In* unary;        // (N, tags)
    const In* transitions;  // (tags, tags), or (N, tags, tags)
    const int* lengths;     // (size)
    int size, tags;
    bool shared;      // one transition matrix for all edges
    int threads = 1;  // maximum number of threads
    int path = -1;    // the Path to take first, or -1; see plan.hh

    size_t tokens() const { return std::accumulate(lengths, lengths + size, size_t(0)); }

    int longest() const { return size ? *std::max_element(lengths, lengths + size) : 0; }

    // The end of the tag scores.
    const In* end() const { return unary + tokens() * tags; }

    // Return sequence b, whose first token has this flat index.
    Sequence<In> sequence(int b, size_t first) const {
        const size_t t = tags;
        return {unary + first * t, shared ? transitions : transitions + first * t * t, lengths[b], tags, shared, b,
                first, 0, lengths[b]};
    }

    // Return the sequences that have tokens.
    std::vector<Sequence<In>> sequences() const {
        std::vector<Sequence<In>> found;
        found.reserve(size);
        size_t first = 0;
        for (int b = 0; b < size; first += lengths[b++])
            if (lengths[b] > 0) found.push_back(sequence(b, first));
        return found;
    }
};

// What one recursion runs on: consecutive sequences of a list.
template <class In> struct Tile {
    const Sequence<In>* sequence;
    int size;
    int longest = 0;
    size_t tokens = 0;

    Tile(const Sequence<In>* first, int n) : sequence(first), size(n) {
        for (int k = 0; k < n; ++k) longest = std::max(longest, first[k].length), tokens += first[k].length;
    }
};

// Return a tile of each sequence of a list, which must outlive it.
template <class In> std::vector<Tile<In>> single_tiles(const std::vector<Sequence<In>>& list) {
    std::vector<Tile<In>> found;
    found.reserve(list.size());
    for (const Sequence<In>& s : list) found.emplace_back(&s, 1);
    return found;
}

// Options of the Bregman projections; see BregmanOptions in kernels/__init__.py.
struct BregmanOptions {
    int n_iter;
    double relaxation;  // in [1, 2), or 0 to estimate it
    double tolerance;   // negative to run all iterations
    bool lower;         // report the value of a feasible point, not the dual value
    int unary;          // a projection::Unary
    double scale;       // the inverse temperature, which multiplies all scores

    bool needs_violation() const { return relaxation == 0 || tolerance >= 0; }
};

// The outputs of a batch. A null pointer means that the output is not wanted. Gold needs `node`, and `sum` or `each`. In
// mean field, it may be -1 for a token without a loss.
template <class In> struct Outputs {
    In* value = nullptr;        // (size)
    In* node = nullptr;         // (N, tags)
    double* sum = nullptr;      // (tags, tags), for shared transitions; the kernels add to it
    In* each = nullptr;         // (N, tags, tags), zeros before
    const int* gold = nullptr;  // (N): the value becomes the loss of this labeling, the others its gradient
    // Of the CRF alone, one of them a call.
    In* entropies = nullptr;  // (size): -inf without an allowed labeling, NaN for scores that are no numbers
    In* pairs = nullptr;      // (N, n): the marginals of tag heads[m] at a token and tails[m] at the next one
    int* labels = nullptr;    // (n, N), zeros before: labelings drawn from the uniform numbers (n, N)
    int n = 0;
    const int *heads = nullptr, *tails = nullptr;
    const double* uniform = nullptr;
};

// Flush denormals to zero: they are a hundred times slower, and no kernel relies on them.
struct FlushDenormals {
#if defined(__SSE2__)
    const unsigned saved = __builtin_ia32_stmxcsr();
    FlushDenormals() { __builtin_ia32_ldmxcsr(saved | 0x8040); }
    ~FlushDenormals() { __builtin_ia32_ldmxcsr(saved); }
#endif
};

// Memory that a thread keeps from one kernel call to the next: the system takes longer to provide fresh
// pages than a kernel to fill them.
class Workspace {
    static constexpr size_t MOST_KEPT = size_t(16) << 20, LARGE = size_t(4) << 20;
    struct Block {
        void* memory;
        size_t size;
    };
    // An array, because destructors give memory back, and a list that grows may throw.
    Block kept_[64];
    int n_ = 0;
    size_t size_ = 0;

    static Workspace* get() {
        static thread_local bool ended = false;
        static thread_local struct Owner {
            Workspace workspace;
            ~Owner() { ended = true; }
        } owner;
        return ended ? nullptr : &owner.workspace;
    }

  public:
    ~Workspace() {
        while (n_ > 0) release(kept_[--n_].memory);
    }

    // Return at least `size` bytes, aligned to a cache line, and zeroed if `cleared`. Set `size` to the number to
    // give back. Throw std::bad_alloc.
    __attribute__((noinline)) static void* take(size_t& size, bool cleared) {
        const size_t used = size;
        // A few sizes, so that a block fits other calls.
        size = std::max<size_t>((size + 4095) / 4096 * 4096, 4096);
        if (used > size_t(std::numeric_limits<std::ptrdiff_t>::max())) throw std::bad_alloc();
        if (Workspace* own = get())
            for (int i = own->n_; i-- > 0;)
                if (own->kept_[i].size >= size && own->kept_[i].size <= 2 * size) {
                    const Block found = own->kept_[i];
                    std::copy(own->kept_ + i + 1, own->kept_ + own->n_--, own->kept_ + i);
                    own->size_ -= size = found.size;
                    if (cleared) std::memset(found.memory, 0, used);
                    return found.memory;
                }
        void* memory = allocate(size);
        if (!memory) throw std::bad_alloc();
        if (cleared) std::memset(memory, 0, used);
        return memory;
    }

    __attribute__((noinline)) static void give(void* memory, size_t size) {
#if !defined(__SANITIZE_ADDRESS__)
        Workspace* own = get();
        if (own && own->n_ < int(std::size(own->kept_)) && own->size_ + size <= MOST_KEPT) {
            own->kept_[own->n_++] = {memory, size};
            own->size_ += size;
            return;
        }
#endif
        release(memory);
    }

  private:
#if defined(_WIN32)
    static void* allocate(size_t size) { return _aligned_malloc(size, 64); }
    static void release(void* memory) { _aligned_free(memory); }
#else
    static void* allocate(size_t size) {
        constexpr size_t PAGE = size_t(2) << 20;  // a huge page
        void* memory = std::aligned_alloc(size < LARGE ? 64 : PAGE, size < LARGE ? size : (size + PAGE - 1) / PAGE * PAGE);
#if defined(__linux__)
        if (memory && size >= LARGE) madvise(memory, size, MADV_HUGEPAGE);
#endif
        return memory;
    }
    static void release(void* memory) { std::free(memory); }
#endif
};

enum class Fill { ZERO, NONE };

// Scratch memory, zeroed or not, aligned to a cache line. Throws std::bad_alloc.
template <class R> class Buffer {
    size_t size_ = 0;
    R* data_ = nullptr;

  public:
    explicit Buffer(size_t n = 0, Fill fill = Fill::ZERO) : size_(n * sizeof(R)) {
        if (n) data_ = static_cast<R*>(Workspace::take(size_, fill == Fill::ZERO));
#if defined(__SANITIZE_ADDRESS__)
        if (n && fill == Fill::NONE) std::memset(static_cast<void*>(data_), 0xff, n * sizeof(R));
#endif
    }
    ~Buffer() {
        if (data_) Workspace::give(data_, size_);
    }
    Buffer(Buffer&& other) noexcept : size_(other.size_), data_(other.data_) { other.data_ = nullptr; }
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(size_, other.size_);
        std::swap(data_, other.data_);
        return *this;
    }
    operator R*() { return data_; }
    R* data() { return data_; }
    const R* data() const { return data_; }
};

// Return the tag at which the cumulative weight exceeds `share` of the total.
template <class R> int pick_tag(const R* weights, int tags, double share) {
    double left = share * std::accumulate(weights, weights + tags, 0.0);
    int last = 0;
    for (int t = 0; t < tags && left >= 0; ++t) {
        if (!(weights[t] > 0)) continue;
        last = t;
        left -= weights[t];
    }
    return last;
}

// Hints to the processor that the program will read memory soon.
inline void prefetch(const void* at) { __builtin_prefetch(at); }

// Prefetch n numbers.
template <class X> inline void prefetch(const X* row, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 64 / sizeof(X)) prefetch(row + i);
}

// A loop over the tokens of a sequence prefetches the row of the token so many tokens ahead.
constexpr int TOKENS_AHEAD = 16;

// Call run(batch, outputs) with the sequences of a list as doubles, and copy its outputs to `to`. The kernels add to the
// sum themselves. It is for float scores that no number of floats holds, or that plain doubles hold faster than wide
// floats.
template <class R, class Run>
void run_in_double(const Batch<R>& batch, const std::vector<Sequence<R>>& list, const Outputs<R>& to, Run run) {
    if constexpr (sizeof(R) == sizeof(float)) {
        const size_t all = batch.tokens(), tags = batch.tags, pairs = tags * tags;
        size_t tokens = 0;
        std::vector<int> lengths;
        for (const Sequence<R>& s : list) lengths.push_back(s.length), tokens += s.length;
        // Copy `width` numbers a token of the sequences.
        const auto gather = [&](const auto* from, double* at, size_t width) {
            for (const Sequence<R>& s : list) at = std::copy_n(from + s.first * width, s.length * width, at);
        };
        const auto scatter = [&](const auto* from, auto* wanted, size_t width) {
            for (const Sequence<R>& s : list)
                for (size_t i = 0; wanted && i < s.length * width; ++i)
                    wanted[s.first * width + i] = std::decay_t<decltype(*wanted)>(*from++);
        };
        const auto scatter_values = [&](const double* from, R* wanted) {
            for (const Sequence<R>& s : list)
                if (wanted) wanted[s.index] = R(*from++);
        };
        std::vector<Buffer<double>> arrays;
        const auto make = [&](bool is_wanted, size_t n) -> double* {
            arrays.emplace_back(is_wanted ? n : 0);
            return arrays.back();
        };
        double* unary = make(true, tokens * tags);
        double* transitions = make(true, batch.shared ? pairs : tokens * pairs);
        gather(batch.unary, unary, tags);
        if (batch.shared) std::copy_n(batch.transitions, pairs, transitions);
        else gather(batch.transitions, transitions, pairs);
        Outputs<double> out;
        out.value = make(to.value, list.size());
        out.node = make(to.node, tokens * tags);
        out.sum = to.sum;
        out.each = make(to.each, tokens * pairs);
        out.entropies = make(to.entropies, list.size());
        out.pairs = make(to.pairs, tokens * to.n);
        out.n = to.n, out.heads = to.heads, out.tails = to.tails;
        std::vector<int> labels(to.labels ? tokens * to.n : 0);
        double* uniform = make(to.labels, labels.size());
        for (int j = 0; j < to.n && to.labels; ++j) gather(to.uniform + j * all, uniform + j * tokens, 1);
        if (to.labels) out.labels = labels.data(), out.uniform = uniform;
        run(Batch<double>{unary, transitions, lengths.data(), int(lengths.size()), int(tags), batch.shared,
                          batch.threads},
            out);
        scatter_values(out.value, to.value);
        scatter(out.node, to.node, tags);
        scatter(out.each, to.each, pairs);
        scatter_values(out.entropies, to.entropies);
        scatter(out.pairs, to.pairs, to.n);
        for (int j = 0; j < to.n && to.labels; ++j) scatter(out.labels + j * tokens, to.labels + j * all, 1);
    }
}

}  // namespace bcrf
