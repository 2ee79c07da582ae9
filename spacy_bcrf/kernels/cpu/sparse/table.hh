// The table of kernels of sparse linear chains for the instruction set BCRF_TARGET.
#pragma once

#include "kernels.hh"
#include "online.hh"
#include "predict.hh"

namespace bcrf {
namespace BCRF_TARGET {

SparseKernels sparse_kernels() { return {learn, score}; }

}  // namespace BCRF_TARGET
}  // namespace bcrf
