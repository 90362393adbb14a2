// The keys and values behind the memory store and behind the servers of the socket stores.
//
// A key names a value or a counter, not both.
// Thread safety: every function may be called from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/bytes.h"

namespace gimbal {

// Keys have 1 to kMaxStoreKeyBytes bytes, values at most kMaxStoreValueBytes.
Status check_store_key(const std::string& key);
Status check_store_value(const std::string& key, std::span<const std::byte> value);
// The sentence of every store's TIMEOUT.
Status store_timeout(const std::string& key);

class StoreTable {
 public:
  // Called after every set, under the table's lock.
  void on_set(std::function<void()> listener);

  void set(const std::string& key, std::span<const std::byte> value);
  std::optional<Bytes> find(const std::string& key) const;
  Result<Bytes> get(const std::string& key, Deadline deadline) const;
  int64_t add(const std::string& key, int64_t amount);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<std::string, Bytes> values_;
  std::unordered_map<std::string, int64_t> counters_;
  std::function<void()> listener_;
};

}  // namespace gimbal
