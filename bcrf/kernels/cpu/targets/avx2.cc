// The kernels for AVX2 and FMA.
#include "shared_code.hh"

#ifdef BCRF_DISPATCH
#define BCRF_TARGET avx2
#define BCRF_VECTOR_BYTES 32
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#include "table.hh"
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "table.hh"
#pragma GCC pop_options
#endif
#endif
