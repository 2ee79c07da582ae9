// The choice of an instruction set at run time.
//
// A wheel must run on any processor, so it cannot use -march=native. Each file in targets/ compiles
// the kernels for one instruction set, and BCRF_CHOOSE picks one.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BCRF_DISPATCH
#endif

namespace bcrf {

// Return the instruction sets that this processor has and the kernels support, slowest first.
inline std::vector<std::string> instruction_sets() {
    std::vector<std::string> names{"baseline"};
#ifdef BCRF_DISPATCH
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        names.push_back("avx2");
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
            names.push_back("avx512");
    }
#endif
    return names;
}

// Return the position in `instruction_sets` of the set that the environment variable BCRF_ISA
// names, or of the fastest. Throw std::invalid_argument, ValueError in Python, if this machine
// lacks it.
inline int read_level() {
    const std::vector<std::string> names = instruction_sets();
    const char* wanted = std::getenv("BCRF_ISA");
    if (!wanted || !*wanted) return int(names.size()) - 1;
    std::string listed;
    for (size_t i = 0; i < names.size(); ++i) {
        if (names[i] == wanted) return int(i);
        listed += (i ? ", " : "") + names[i];
    }
    throw std::invalid_argument("the environment variable BCRF_ISA must name an instruction set of "
                                "this machine (" + listed + "), got '" + wanted + "'");
}

// Return the level in use. The first call reads the environment.
inline int level() {
    static const int chosen = read_level();
    return chosen;
}

// Return whether the kernels in use have products of bfloat16 numbers.
inline bool has_bfloat16() {
#ifdef BCRF_DISPATCH
    return level() == 2 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

}  // namespace bcrf

// Evaluate a call in the namespace of the instruction set in use.
#ifdef BCRF_DISPATCH
#define BCRF_CHOOSE(call) \
    (level() == 2 ? avx512::call : level() == 1 ? avx2::call : baseline::call)
#else
#define BCRF_CHOOSE(call) (level(), baseline::call)
#endif
