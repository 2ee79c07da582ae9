// The kernels as MSVC compiles them: without vectors and intrinsics of GCC and Clang. The standard
// library still needs __GNUC__, so all that the kernels use of it comes first.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <malloc.h>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#undef __GNUC__
#undef __SSE2__
#undef __linux__
