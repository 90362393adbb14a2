// copy_bytes, and the non-temporal copy of blocks.
#include <hwy/cache_control.h>

#include <cstdint>
#include <cstring>

#include "kernels/block_kernels.h"
#include "kernels/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks for.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gimbal::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whole cache lines go around the cache; what is left at both ends, less than a line each, goes through it.
void stream_copy(void* destination, const void* source, size_t bytes) {
  constexpr size_t kLineBytes = 64;
  const hn::ScalableTag<uint8_t> d;
  auto* to = static_cast<uint8_t*>(destination);
  const auto* from = static_cast<const uint8_t*>(source);
  const size_t past_line = reinterpret_cast<uintptr_t>(to) % kLineBytes;
  const size_t head = past_line == 0 ? 0 : kLineBytes - past_line;
  if (hn::Lanes(d) > kLineBytes || bytes < head + kLineBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  size_t i = head;
  // The stores of a line follow each other, so that its write-combining buffer fills at once.
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
    for (size_t part = 0; part < kLineBytes; part += hn::Lanes(d)) {
      hn::Stream(hn::LoadU(d, from + i + part), d, to + i + part);
    }
  }
  std::memcpy(to + i, from + i, bytes - i);
}

StreamCopy choose_stream_copy() { return stream_copy; }

}  // namespace gimbal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gimbal {

HWY_EXPORT(choose_stream_copy);

StreamCopy find_stream_copy() { return HWY_DYNAMIC_DISPATCH(choose_stream_copy)(); }

void stream_fence() { hwy::FlushStream(); }

void copy_bytes(void* destination, const void* source, size_t bytes, StoreMode store) {
  if (bytes == 0) return;
  if (store == StoreMode::kCached) {
    // Not a loop of vector stores: within one core's first-level cache it takes 0.5 to 0.8 of the time up to 16 KiB, but 1.4
    // times as long where another core has the lines, as it has those of stages (bench/results/kernels-stores.txt).
    std::memcpy(destination, source, bytes);
    return;
  }
  find_stream_copy()(destination, source, bytes);
  stream_fence();
}

}  // namespace gimbal
#endif  // HWY_ONCE
