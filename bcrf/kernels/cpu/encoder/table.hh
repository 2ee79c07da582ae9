// The table of kernels of the compiled CNN for the instruction set BCRF_TARGET.
#pragma once

#include "kernels.hh"
#include "pack.hh"
#include "predict.hh"
#include "train.hh"

namespace bcrf {
namespace BCRF_TARGET {

EncoderKernels encoder_kernels() { return {fingerprint, pack, predict, train, backward}; }

}  // namespace BCRF_TARGET
}  // namespace bcrf
