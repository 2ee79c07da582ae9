// Options of the Bregman projections; see BregmanOptions in kernels/__init__.py.
#pragma once

#include "../shared/projection.hh"

namespace bcrf {

struct BregmanOptions {
    int n_iter;
    double relaxation;  // in [1, 2), or 0 to estimate it
    double tolerance;   // negative to run all iterations
    bool lower;         // report the value of a feasible point, not the dual value
    int unary;          // a projection::Unary
    double scale;       // the inverse temperature, which multiplies all scores

    bool needs_violation() const { return relaxation == 0 || tolerance >= 0; }
};

}  // namespace bcrf
