// The operations of the kernels, the paths by which they compute a sequence, and the thresholds of plan.hh that headers
// below it need. Nothing here depends on the instruction set.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include "dispatch.hh"

namespace bcrf {

using std::size_t;

enum class Operation { SUM_PRODUCT, POSTERIOR, BREGMAN, MEAN_FIELD, MAX_PRODUCT };
constexpr std::array<const char*, 5> OPERATIONS{"sum_product", "posterior", "bregman", "mean_field", "max_product"};

// An operation, and the arguments of a call that its plan depends on beside the batch.
struct Request {
    Operation operation;
    bool each = false;   // the marginals of each edge are wanted
    // Of bregman, see BregmanOptions:
    bool lower = false;
    int n_iter = 0;
    double scale = 1;
};

// All that a plan depends on, see shape_of in plan.hh.
struct Shape : Request {
    int tags;
    bool shared;   // one transition matrix for all edges
    bool blocks;   // plain products over blocks of allowed transitions are faster
    bool alone;    // forbidden transitions leave no blocks of tags, so that each tag is a block of wide numbers
    bool plain;    // the weights of shared transitions are numbers of R, which lanes of wide numbers need
    double range;  // of most tokens' scores, see guess_range in plan.hh
    int path;      // the Path to take first, or -1

    // Transitions of edges are no weights of several sequences. Only rows of projections write each edge.
    bool has_lanes() const { return shared && !(each && operation == Operation::BREGMAN); }
    // Wide floats lose digits in a lower bound after one iteration, which weighs large scores that nearly cancel.
    bool needs_doubles() const { return lower && n_iter == 1; }
};

// A layout and a number. FLOAT64 copies float scores to doubles, which have a plan of their own.
enum class Path { LANES, ROWS, LANES_WIDE, ROWS_WIDE, FLOAT64 };
constexpr std::array<const char*, 5> PATHS{"lanes", "rows", "lanes wide", "rows wide", "float64"};

constexpr bool is_in_lanes(Path path) { return path == Path::LANES || path == Path::LANES_WIDE; }
constexpr bool is_wide(Path path) { return path == Path::LANES_WIDE || path == Path::ROWS_WIDE; }

// How many sequences each path of each operation has computed in this process, of float and of double scores.
inline std::atomic<long long> path_counts[2 * OPERATIONS.size() * PATHS.size()]{};

inline std::atomic<long long>& path_count(int is_double, int operation, int path) {
    return path_counts[(is_double * OPERATIONS.size() + operation) * PATHS.size() + path];
}
template <class R> void count_path(Operation operation, Path path, size_t sequences) {
    path_count(sizeof(R) == 8, int(operation), int(path)) += (long long)sequences;
}
inline void clear_path_counts() {
    for (auto& count : path_counts) count = 0;
}

// Return the path that the environment variable BCRF_PATH names, or -1. The caller holds Python's lock, under which
// Python changes the environment.
inline int forced_path() { return read_choice("BCRF_PATH", PATHS, ""); }

// Threads: `benchmarks.scaling --threads 1 2`, and the same with --csv before and after a change. The least work of a
// chunk, in multiply-adds, is a multiple of the cost of waking a thread, and of the cost of adding one number of a
// chunk's sums to the total.
constexpr double LEAST_WORK = 300'000, LEAST_WORK_A_SUM = 400;
constexpr size_t MOST_CHUNKS = 16;
// The work for a token beside the products with the transitions: `benchmarks.scaling`, few tags.
constexpr double TOKEN_WORK = 800;

// Blocks of transitions. Return the most groups of tags that save more than they cost: `benchmarks.kernels --against`,
// Ranges.
constexpr size_t most_groups(size_t tags) { return (tags + 1) / 2; }

}  // namespace bcrf
