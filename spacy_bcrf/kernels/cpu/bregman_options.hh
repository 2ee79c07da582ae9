// How far the Bregman projections run; see BregmanOptions in kernels/__init__.py.
#pragma once

#include "batch.hh"

namespace bcrf {

// Tag marginals below this are projected plainly, never over-relaxed.
constexpr double SMALL = 1e-6;

struct BregmanOptions {
    int n_iter;
    double relaxation;  // in [1, 2), or 0: estimate it
    double tolerance;   // or negative: run all iterations
    bool lower;         // report the value of a feasible point, not the dual value
    double scale;       // all scores are multiplied by it, an inverse temperature

    bool watched() const { return relaxation == 0 || tolerance >= 0; }
    double first() const { return relaxation == 0 ? 1 : relaxation; }
};

// The best over-relaxation by Young's theorem, from the rate at which `omega` converges.
inline double estimate_relaxation(double violation, double last, double omega) {
    if (!(violation > 0 && violation < last && last < infinity<double>)) return omega;
    const double rate = violation / last, root = rate + omega - 1;
    double jacobi = root * root / (rate * omega * omega);
    if (jacobi > 0.99) jacobi = 0.99;
    return 2 / (1 + std::sqrt(1 - jacobi));
}

}  // namespace bcrf
