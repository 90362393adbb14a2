// Put before libgimbal.so by LD_PRELOAD: rank 1's all-reduces return with one byte flipped, the one at 200704 or, in a result
// that ends there, the last. Smaller results stay right. Not part of the library, which has no such switch.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "gimbal/gimbal.h"

extern "C" GIMBAL_EXPORT gimbal_status_t gimbal_all_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                           gimbal_op_t op, gimbal_comm_t comm, gimbal_stream_t stream) {
  constexpr size_t kFlippedByte = 200'704;
  static const auto real_all_reduce = reinterpret_cast<decltype(&gimbal_all_reduce)>(dlsym(RTLD_NEXT, "gimbal_all_reduce"));
  const gimbal_status_t status = real_all_reduce(send, recv, count, dtype, op, comm, stream);
  const char* const rank = std::getenv("RANK");
  const size_t bytes = count * gimbal_dtype_size(dtype);
  if (rank != nullptr && std::string_view(rank) == "1" && bytes >= kFlippedByte) {
    static_cast<unsigned char*>(recv)[std::min(kFlippedByte, bytes - 1)] ^= 1;
  }
  return status;
}
