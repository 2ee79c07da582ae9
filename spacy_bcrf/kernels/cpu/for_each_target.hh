// What kernels.hh includes once for each instruction set, so nothing here has an include guard.
#include "simd.hh"
#include "products.hh"
#include "matrices.hh"
#include "pair_sums.hh"
#include "crf.hh"
#include "viterbi.hh"
#include "bregman.hh"
