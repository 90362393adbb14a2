#include "transport/store_table.h"

#include <chrono>

#include "transport/store.h"

namespace gimbal {

Status check_store_key(const std::string& key) {
  if (!key.empty() && key.size() <= kMaxStoreKeyBytes) return {};
  return {Code::kInvalidArgument,
          "store key of " + std::to_string(key.size()) + " bytes: 1 to " + std::to_string(kMaxStoreKeyBytes) + " are allowed"};
}

Status check_store_value(const std::string& key, std::span<const std::byte> value) {
  RETURN_IF_ERROR(check_store_key(key));
  if (value.size() <= kMaxStoreValueBytes) return {};
  return {Code::kInvalidArgument, "store value of " + std::to_string(value.size()) + " bytes under \"" + key + "\": at most " +
                                      std::to_string(kMaxStoreValueBytes) + " are allowed"};
}

Status store_timeout(const std::string& key) {
  return {Code::kTimeout, "store key \"" + key + "\" was not set before the deadline"};
}

void StoreTable::on_set(std::function<void()> listener) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listener_ = std::move(listener);
}

void StoreTable::set(const std::string& key, std::span<const std::byte> value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  values_[key].assign(value.begin(), value.end());
  changed_.notify_all();
  if (listener_) listener_();
}

std::optional<Bytes> StoreTable::find(const std::string& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = values_.find(key);
  return entry == values_.end() ? std::nullopt : std::optional(entry->second);
}

Result<Bytes> StoreTable::get(const std::string& key, Deadline deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    const auto entry = values_.find(key);
    if (entry != values_.end()) return entry->second;
    if (deadline.passed()) return store_timeout(key);
    const std::chrono::nanoseconds slice(static_cast<int64_t>(deadline.remaining_ms()) * 1'000'000);
    changed_.wait_until(lock, std::chrono::steady_clock::now() + slice);
  }
}

int64_t StoreTable::add(const std::string& key, int64_t amount) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t& counter = counters_[key];
  counter = static_cast<int64_t>(static_cast<uint64_t>(counter) + static_cast<uint64_t>(amount));  // wraps: a client chose it
  return counter;
}

}  // namespace gimbal
