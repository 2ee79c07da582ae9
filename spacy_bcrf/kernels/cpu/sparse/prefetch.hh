// A hint that memory is about to be read.
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
