// Tells a forked child from its parent at the cost of one load: a page that the kernel wipes in the child (MADV_WIPEONFORK).
#pragma once

#include <cstdint>

namespace gimbal {

class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  [[nodiscard]] bool in_child() const { return *word_ == 0; }

 private:
  volatile uint32_t* word_;
  uint32_t fallback_ = 1;  // where the page could not be had: forks go unnoticed
  bool mapped_ = false;
};

}  // namespace gimbal
