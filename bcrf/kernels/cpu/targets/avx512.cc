// The kernels for AVX-512.
#include "shared_code.hh"

#ifdef BCRF_DISPATCH
#define BCRF_TARGET avx512
#define BCRF_VECTOR_BYTES 64
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq"))), apply_to = function)
#include "table.hh"
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")
#include "table.hh"
#pragma GCC pop_options
#endif
#endif
