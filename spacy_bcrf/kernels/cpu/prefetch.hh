// Hints to the processor that the program will read memory soon.
#pragma once

#include <cstddef>

namespace bcrf {

inline void prefetch(const void* at) {
#if defined(__GNUC__)
    __builtin_prefetch(at);
#else
    (void)at;
#endif
}

// Prefetch n numbers.
template <class X> inline void prefetch(const X* row, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 64 / sizeof(X)) prefetch(row + i);
}

// Loops over the tokens of long sequences prefetch the rows of this number of tokens later.
constexpr int TOKENS_AHEAD = 16;

}  // namespace bcrf
