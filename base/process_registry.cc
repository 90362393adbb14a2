#include "base/process_registry.h"

namespace gimbal {

ProcessRegistry& ProcessRegistry::instance() {
  // Never destroyed: a communicator may outlive the static destructors of its program.
  static ProcessRegistry* const kRegistry = new ProcessRegistry();
  return *kRegistry;
}

void ProcessRegistry::forget_expired() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
}

size_t ProcessRegistry::size() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

}  // namespace gimbal
