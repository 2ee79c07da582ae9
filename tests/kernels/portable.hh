// The kernels as MSVC compiles them: without vectors and intrinsics of GCC and Clang. The standard
// library still needs __GNUC__, so all of it comes first.
#include <bits/stdc++.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#undef __GNUC__
#undef __SSE2__
#undef __linux__
