// What the ranks of one process share: the only global state of the library.
//
// Ranks that are threads of one process must share *one* mapping of a segment (and one in-memory store) under one name; the
// registry hands out the same object for the same key as long as somebody holds it.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace gimbal {

class ProcessRegistry {
 public:
  static ProcessRegistry& instance();

  // The live object under key, else what create() returns. create runs under the registry's lock and must not use the registry.
  template <typename T>
  Result<std::shared_ptr<T>> find_or_create(const std::string& key, const std::function<Result<std::shared_ptr<T>>()>& create) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<void>& entry = entries_[key];
    if (std::shared_ptr<void> live = entry.lock()) return std::static_pointer_cast<T>(live);
    ASSIGN_OR_RETURN(std::shared_ptr<T> created, create());
    entry = created;
    return created;
  }

  // The object under key for the rest of the process's life: for what the process as a whole counts.
  template <typename T>
  T& permanent(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<void>& entry = permanent_[key];
    if (entry == nullptr) entry = std::make_shared<T>();
    return *std::static_pointer_cast<T>(entry);
  }

  // Drops keys whose objects are gone. Called when a communicator is destroyed, so that the map does not grow.
  void forget_expired();
  [[nodiscard]] size_t size();

 private:
  ProcessRegistry() = default;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> entries_;
  std::map<std::string, std::shared_ptr<void>> permanent_;
};

}  // namespace gimbal
