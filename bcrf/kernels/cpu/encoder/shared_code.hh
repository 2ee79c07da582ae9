// All headers that the kernels of the CNN include and that do not depend on the instruction set; see
// ../shared_code.hh.
#pragma once

#include "../shared_code.hh"
#include "../threads.hh"
#include "kernels.hh"
