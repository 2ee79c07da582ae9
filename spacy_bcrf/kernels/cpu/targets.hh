// Includes the file BCRF_FOR_EACH_TARGET once for each instruction set, in a namespace and with
// vectors of its own. No include guard: the kernels and the learner of linear chains both use it.
#define BCRF_TARGET baseline
#define BCRF_VECTOR_BYTES 32
#include BCRF_FOR_EACH_TARGET
#undef BCRF_TARGET

#ifdef BCRF_DISPATCH
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define BCRF_TARGET avx2
#include BCRF_FOR_EACH_TARGET
#undef BCRF_TARGET
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")
#define BCRF_TARGET avx512
#undef BCRF_VECTOR_BYTES
#define BCRF_VECTOR_BYTES 64
#include BCRF_FOR_EACH_TARGET
#undef BCRF_TARGET
#pragma GCC pop_options
#endif
#undef BCRF_VECTOR_BYTES
