// The kernels of encoder/kernels.hh, which targets.hh compiles once for each instruction set.
#include "pack.hh"
#include "train.hh"
