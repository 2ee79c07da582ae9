// What targets.hh includes for sparse/kernels.hh, once for each instruction set, so nothing here has
// an include guard.
#include "rows.hh"
#include "nbest.hh"
#include "online.hh"
#include "predict.hh"
