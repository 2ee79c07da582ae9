// The kernels of sparse chains for the instructions that every processor of the platform has.
#include "../table.hh"
