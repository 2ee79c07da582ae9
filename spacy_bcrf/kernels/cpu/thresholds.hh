// The thresholds of plan.hh that headers below it need. Nothing here depends on the instruction set.
#pragma once

#include <cstddef>

namespace bcrf {

// Threads. The least work of a chunk, in multiply-adds, is a multiple of the cost of waking a thread, and of the cost of
// adding one number of a chunk's sums to the total.
constexpr double LEAST_WORK = 3e5, LEAST_WORK_A_SUM = 400;
constexpr std::size_t MOST_CHUNKS = 16;
// The work for a token beside the products with the transitions.
constexpr double TOKEN_WORK = 800;

// Blocks of transitions. Return the most groups of tags that save more than they cost.
constexpr std::size_t most_groups(std::size_t tags) { return (tags + 1) / 2; }

}  // namespace bcrf
