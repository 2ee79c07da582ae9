// The kernels of `kernels.hh`, which targets.hh compiles once for each instruction set.
#include "beam.hh"
#include "bregman.hh"
#include "dijkstra.hh"
#include "mean_field.hh"
#include "posterior.hh"
