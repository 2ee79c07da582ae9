// Hints to the processor that the program will read memory soon.
#pragma once

#include <cstddef>

namespace bcrf {

inline void prefetch(const void* at) { __builtin_prefetch(at); }

// Prefetch n numbers.
template <class X> inline void prefetch(const X* row, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 64 / sizeof(X)) prefetch(row + i);
}

// A loop over the tokens of a sequence prefetches the row of the token so many tokens ahead.
constexpr int TOKENS_AHEAD = 16;

}  // namespace bcrf
