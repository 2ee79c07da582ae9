// The table of kernels of sparse linear chains for the instruction set BCRF_TARGET.
#pragma once

#include "adagrad.hh"
#include "kernels.hh"
#include "online.hh"
#include "predict.hh"
#include "second_order.hh"

namespace bcrf {
namespace BCRF_TARGET {

SparseKernels sparse_kernels() { return {learn, descend, sum_parts, correct}; }

}  // namespace BCRF_TARGET
}  // namespace bcrf
