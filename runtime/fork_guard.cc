#include "runtime/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

namespace gimbal {

ForkGuard::ForkGuard() : word_(&fallback_) {
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);
    return;
  }
  word_ = static_cast<volatile uint32_t*>(page);
  *word_ = 1;
  mapped_ = true;
}

ForkGuard::~ForkGuard() {
  if (mapped_) munmap(const_cast<uint32_t*>(word_), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace gimbal
