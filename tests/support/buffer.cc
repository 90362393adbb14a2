#include "tests/support/buffer.h"

#include <stdexcept>

namespace gimbal::test {

Buffer::Buffer(Communicator& communicator, MemoryKind kind, size_t capacity_bytes) {
  const size_t bytes = capacity_bytes + 2 * kGuardBytes;
  if (kind == MemoryKind::kOrdinary) {
    ordinary_.resize(bytes);
    memory_ = ordinary_;
    return;
  }
  void* pointer = nullptr;
  if (gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, bytes, &pointer) != GIMBAL_OK) {
    throw std::runtime_error(gimbal_last_error());
  }
  memory_ = {static_cast<std::byte*>(pointer), bytes};
}

}  // namespace gimbal::test
