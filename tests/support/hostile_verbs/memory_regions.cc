#include "tests/support/hostile_verbs/memory_regions.h"

#include <sys/mman.h>

#include <cerrno>
#include <vector>

namespace gimbal::hostile {
namespace {

constexpr uintptr_t kPage = 4096;

bool is_mapped(void* address, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(address) + bytes + kPage - 1) & ~(kPage - 1);
  std::vector<unsigned char> resident((end - begin) / kPage);
  return mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()) == 0;
}

}  // namespace

Mr* MemoryRegions::add(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
  const bool written_by_others = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (bytes == 0 || (written_by_others && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    errno = EINVAL;
    return nullptr;
  }
  if (!is_mapped(address, bytes)) {
    errno = EFAULT;
    return nullptr;
  }
  if (most_bytes_ && bytes > *most_bytes_ - bytes_) {
    errno = ENOMEM;
    return nullptr;
  }
  auto mr = std::make_unique<Mr>();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->iova = iova;
  mr->access = access;
  // Not small, not zero, and never again: a key that is made up, forgotten or stale finds nothing.
  mr->lkey = mr->rkey = ++made_ * 0x9e3779b1U;
  mr->handle = made_;
  bytes_ += bytes;
  return (by_key_[mr->lkey] = std::move(mr)).get();
}

bool MemoryRegions::remove(const ibv_mr* mr) {
  const auto found = by_key_.find(mr->lkey);
  if (found == by_key_.end() || found->second.get() != mr) return false;
  bytes_ -= mr->length;
  by_key_.erase(found);
  return true;
}

std::byte* MemoryRegions::find(uint32_t key, const ibv_pd* pd, uint64_t address, size_t bytes, unsigned access) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const Mr& mr = *found->second;
  const bool inside = address >= mr.iova && bytes <= mr.length && address - mr.iova <= mr.length - bytes;
  if (mr.pd != pd || !inside || (mr.access & access) != access) return nullptr;
  return static_cast<std::byte*>(mr.addr) + (address - mr.iova);
}

}  // namespace gimbal::hostile
