#include "base/cuda.h"

namespace gimbal {

// A program that serves devices is linked with kernels/cuda, whose definition goes before this one.
__attribute__((weak)) Cuda* linked_cuda() { return nullptr; }

}  // namespace gimbal
