// Compile the headers that the file BCRF_FOR_EACH_TARGET includes, once for each instruction set.
//
// Each pass has a namespace BCRF_TARGET and vectors of its own. The headers have include guards,
// which forget_guards.hh undefines before each further pass. A translation unit includes this file
// once.
#pragma once

#include "dispatch.hh"

#ifndef BCRF_FOR_EACH_TARGET
#define BCRF_FOR_EACH_TARGET "for_each_target.hh"
#endif

#undef BCRF_TARGET
#undef BCRF_VECTOR_BYTES

#define BCRF_TARGET baseline
#define BCRF_VECTOR_BYTES 32
#include BCRF_FOR_EACH_TARGET
#undef BCRF_TARGET

#ifdef BCRF_DISPATCH
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define BCRF_TARGET avx2
#include "forget_guards.hh"
#include BCRF_FOR_EACH_TARGET
#undef BCRF_TARGET
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")
#define BCRF_TARGET avx512
#undef BCRF_VECTOR_BYTES
#define BCRF_VECTOR_BYTES 64
#include "forget_guards.hh"
#include BCRF_FOR_EACH_TARGET
#undef BCRF_TARGET
#pragma GCC pop_options
#endif
#undef BCRF_VECTOR_BYTES
