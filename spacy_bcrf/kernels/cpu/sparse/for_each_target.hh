// The loops of sparse/kernels.hh, which targets.hh compiles once for each instruction set.
#include "online.hh"
#include "predict.hh"
