// The kernels for the instructions that every processor of the platform has.
//
// Each extension compiles the files in targets/ with its own folder on the include path, so that
// table.hh and shared_code.hh are those of the extension.
#include "table.hh"
