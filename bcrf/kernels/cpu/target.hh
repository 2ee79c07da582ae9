// The instruction set that the headers are compiled for: its namespace and the size of its vectors.
// The files in targets/ define both; a header on its own is compiled for the baseline.
#pragma once

#ifndef BCRF_TARGET
#define BCRF_TARGET baseline
#define BCRF_VECTOR_BYTES 16
#endif

#define BCRF_INLINE inline __attribute__((always_inline))
#define BCRF_INLINE_LAMBDA __attribute__((always_inline))
// One copy of a function that several templates call.
#define BCRF_NOINLINE __attribute__((noinline))
// Vectorize the next loop. Compilers vectorize no others: most would be larger, but no faster.
#define BCRF_VECTORIZE _Pragma("omp simd")
// Unroll the next loop, so that an array of vectors stays in registers.
#if defined(__clang__)
#define BCRF_UNROLL _Pragma("unroll")
#else
#define BCRF_UNROLL _Pragma("GCC unroll 24")
#endif
