#include "transport/store_table.h"
#include "transport/stores.h"

namespace gimbal {
namespace {

class CallbackStore : public Store {
 public:
  explicit CallbackStore(const gimbal_store_t& callbacks) : callbacks_(callbacks) {}

  Status set(const std::string& key, std::span<const std::byte> value) override {
    RETURN_IF_ERROR(check_store_value(key, value));
    return checked(callbacks_.set(callbacks_.context, key.c_str(), value.data(), value.size()), "set", key);
  }

  // The first call learns the size when the value is larger than expected; the value may have grown until the second.
  Result<Bytes> get(const std::string& key, Deadline deadline) override {
    constexpr size_t kFirstBytes = 4096;
    Bytes value(kFirstBytes);
    for (;;) {
      size_t bytes = value.size();
      if (callbacks_.get(callbacks_.context, key.c_str(), value.data(), &bytes, deadline.remaining_ms()) != 0) {
        return missed("get", key, deadline);
      }
      if (bytes > kMaxStoreValueBytes) {
        return Status(Code::kInternal, "the store's get callback gave " + std::to_string(bytes) + " bytes for \"" + key +
                                           "\": at most " + std::to_string(kMaxStoreValueBytes) + " are allowed");
      }
      const bool whole = bytes <= value.size();
      value.resize(bytes);
      if (whole) return value;
    }
  }

  Status wait(const std::string& key, Deadline deadline) override {
    if (callbacks_.wait(callbacks_.context, key.c_str(), deadline.remaining_ms()) != 0) return missed("wait", key, deadline);
    return {};
  }

  Result<int64_t> add(const std::string& key, int64_t amount) override {
    int64_t count = 0;
    RETURN_IF_ERROR(checked(callbacks_.add(callbacks_.context, key.c_str(), amount, &count), "add", key));
    return count;
  }

 private:
  static Status checked(int result, const char* callback, const std::string& key) {
    if (result == 0) return {};
    return {Code::kSystem, std::string("the store's ") + callback + " callback returned " + std::to_string(result) +
                               " for key \"" + key + "\""};
  }
  // A callback has one way to say no; before the deadline it must be a failure.
  static Status missed(const char* callback, const std::string& key, Deadline deadline) {
    if (deadline.passed()) return store_timeout(key);
    return {Code::kSystem,
            std::string("the store's ") + callback + " callback failed for key \"" + key + "\" before its deadline"};
  }

  gimbal_store_t callbacks_;
};

class PrefixStore : public Store {
 public:
  PrefixStore(Store& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

  Status set(const std::string& key, std::span<const std::byte> value) override { return store_.set(prefix_ + key, value); }
  Result<Bytes> get(const std::string& key, Deadline deadline) override { return store_.get(prefix_ + key, deadline); }
  Status wait(const std::string& key, Deadline deadline) override { return store_.wait(prefix_ + key, deadline); }
  Result<int64_t> add(const std::string& key, int64_t amount) override { return store_.add(prefix_ + key, amount); }

 private:
  Store& store_;
  std::string prefix_;
};

}  // namespace

Result<std::unique_ptr<Store>> make_callback_store(const gimbal_store_t& callbacks) {
  const auto missing = [](const char* name) {
    return Status(Code::kInvalidArgument,
                  std::string("gimbal_store_t: the callback ") + name + " is NULL; all four are needed");
  };
  if (callbacks.set == nullptr) return missing("set");
  if (callbacks.get == nullptr) return missing("get");
  if (callbacks.wait == nullptr) return missing("wait");
  if (callbacks.add == nullptr) return missing("add");
  return std::unique_ptr<Store>(new CallbackStore(callbacks));
}

std::unique_ptr<Store> make_prefix_store(Store& store, std::string prefix) {
  return std::make_unique<PrefixStore>(store, std::move(prefix));
}

}  // namespace gimbal
