#include "kernels/device_kernels.h"

namespace gimbal {

// As linked_cuda(): a program that serves devices has another definition, which goes before this one.
__attribute__((weak)) DeviceKernels* linked_device_kernels() { return nullptr; }

}  // namespace gimbal
