// The choice of an instruction set at run time.
//
// A wheel must run on any processor, so it cannot use -march=native. Each file in targets/ compiles
// the kernels for one instruction set, and BCRF_CHOOSE picks one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__x86_64__)
#define BCRF_DISPATCH
#endif

namespace bcrf {

// Return the number of instruction sets beside the baseline that the processor has, and whose
// registers the system saves.
inline int count_levels() {
#ifdef BCRF_DISPATCH
    // Not __builtin_cpu_supports: clang-cl takes it from a library that the linker does not find.
    std::uint32_t a, b, c, d, saved;
    const auto read_features = [&](std::uint32_t leaf) {
        asm volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(0));
    };
    const auto has = [](std::uint32_t word, std::uint32_t bits) { return (word & bits) == bits; };
    constexpr std::uint32_t FMA_OSXSAVE = 1u << 12 | 1u << 27, AVX2 = 1u << 5;
    constexpr std::uint32_t AVX512_F_DQ_BW_VL = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    read_features(0);
    if (a < 7) return 0;
    read_features(1);
    if (!has(c, FMA_OSXSAVE)) return 0;
    asm volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    read_features(7);
    if (!has(b, AVX2) || !has(saved, 0x06)) return 0;
    return has(b, AVX512_F_DQ_BW_VL) && has(saved, 0xe6) ? 2 : 1;
#else
    return 0;
#endif
}

// Return the instruction sets that this processor has and the kernels support, slowest first.
inline std::vector<std::string> instruction_sets() {
    std::vector<std::string> names{"baseline", "avx2", "avx512"};
    names.resize(1 + count_levels());
    return names;
}

// Return which of the names an environment variable has, or -1 if it is not set. Throw std::invalid_argument, ValueError
// in Python, for another one.
template <class Names> int read_choice(const std::string& variable, const Names& names, const char* of) {
    const char* wanted = std::getenv(variable.c_str());
    if (!wanted || !*wanted) return -1;
    std::string listed;
    for (size_t i = 0; i < names.size(); ++i) {
        if (std::string(names[i]) == wanted) return int(i);
        listed += (i ? ", '" : "'") + std::string(names[i]) + "'";
    }
    throw std::invalid_argument("the environment variable " + variable + " must be one of " + listed + of + ", got '" +
                                wanted + "'");
}

// Return the position in `instruction_sets` of the set in use: the one that the environment variable BCRF_ISA names at
// the first call, or the fastest.
inline int level() {
    static const int chosen = read_choice("BCRF_ISA", instruction_sets(), ", the instruction sets of this machine");
    return chosen < 0 ? count_levels() : chosen;
}

}  // namespace bcrf

// Declare a function in the namespace of each instruction set. Evaluate a call in that in use.
#ifdef BCRF_DISPATCH
#define BCRF_EACH_TARGET(declaration) \
    namespace baseline { declaration } \
    namespace avx2 { declaration } \
    namespace avx512 { declaration }
#define BCRF_CHOOSE(call) \
    (level() == 2 ? avx512::call : level() == 1 ? avx2::call : baseline::call)
#else
#define BCRF_EACH_TARGET(declaration) namespace baseline { declaration }
#define BCRF_CHOOSE(call) (level(), baseline::call)
#endif
