// All headers that the kernels of sparse chains include and that do not depend on the instruction
// set; see ../shared_code.hh.
#pragma once

#include "../shared_code.hh"
#include "kernels.hh"
#include "quadratic.hh"
#include "scores.hh"
