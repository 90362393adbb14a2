// The memory regions of one device, and every check that stands between a key and a byte.
//
// Not thread-safe: under its context's lock.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace gimbal::hostile {

struct Mr : ibv_mr {
  uint64_t iova;
  unsigned access;
};

class MemoryRegions {
 public:
  explicit MemoryRegions(std::optional<size_t> most_bytes) : most_bytes_(most_bytes) {}

  // Null with errno: EINVAL, EFAULT for memory that is not there, ENOMEM past the limit.
  Mr* add(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access);
  bool remove(const ibv_mr* mr);

  // Where the bytes are, or null when the key, the domain, the bounds or the rights do not fit.
  [[nodiscard]] std::byte* find(uint32_t key, const ibv_pd* pd, uint64_t address, size_t bytes, unsigned access) const;

 private:
  std::optional<size_t> most_bytes_;
  size_t bytes_ = 0;
  uint32_t made_ = 0;
  std::map<uint32_t, std::unique_ptr<Mr>> by_key_;
};

}  // namespace gimbal::hostile
