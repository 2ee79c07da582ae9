// A hint to the processor that the program will read this memory soon.
#pragma once

namespace bcrf {

inline void prefetch(const void* at) {
#if defined(__GNUC__)
    __builtin_prefetch(at);
#else
    (void)at;
#endif
}

}  // namespace bcrf
