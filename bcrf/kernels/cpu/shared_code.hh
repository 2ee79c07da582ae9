// All headers that the kernels include and that do not depend on the instruction set.
//
// A file in targets/ includes them before it selects an instruction set. The linker keeps one copy
// of each function that several files define, which must run on any processor.
#pragma once

#include <memory>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>

#include "../shared/precision.hh"
#include "../shared/projection.hh"
#include "chunks.hh"
#include "kernels.hh"
#include "paths.hh"
