// The kernels of the CNN for the instructions that every processor of the platform has.
#include "../table.hh"
