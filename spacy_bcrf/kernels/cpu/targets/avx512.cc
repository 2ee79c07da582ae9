// The kernels for AVX-512.
#include "shared_code.hh"

#ifdef BCRF_DISPATCH
#define BCRF_TARGET avx512
#define BCRF_VECTOR_BYTES 64
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")
#include "table.hh"
#pragma GCC pop_options
#endif
