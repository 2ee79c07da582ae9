// The kernels for AVX2 and FMA.
#include "shared_code.hh"

#ifdef BCRF_DISPATCH
#define BCRF_TARGET avx2
#define BCRF_VECTOR_BYTES 32
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "table.hh"
#pragma GCC pop_options
#endif
