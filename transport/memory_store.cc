#include "base/process_registry.h"
#include "transport/store_table.h"
#include "transport/stores.h"

namespace gimbal {
namespace {

struct SharedTable {
  std::string job_key;
  StoreTable table;
};

class MemoryStore : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<SharedTable> shared) : shared_(std::move(shared)) {}

  Status set(const std::string& key, std::span<const std::byte> value) override {
    RETURN_IF_ERROR(check_store_value(key, value));
    shared_->table.set(key, value);
    return {};
  }
  Result<Bytes> get(const std::string& key, Deadline deadline) override {
    RETURN_IF_ERROR(check_store_key(key));
    return shared_->table.get(key, deadline);
  }
  Status wait(const std::string& key, Deadline deadline) override { return get(key, deadline).status(); }
  Result<int64_t> add(const std::string& key, int64_t amount) override {
    RETURN_IF_ERROR(check_store_key(key));
    return shared_->table.add(key, amount);
  }

 private:
  std::shared_ptr<SharedTable> shared_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_memory_store(const std::string& name, const std::string& job_key) {
  const auto create = [&]() -> Result<std::shared_ptr<SharedTable>> {
    auto table = std::make_shared<SharedTable>();
    table->job_key = job_key;
    return table;
  };
  ASSIGN_OR_RETURN(std::shared_ptr<SharedTable> shared,
                   ProcessRegistry::instance().find_or_create<SharedTable>("store/" + name, create));
  if (shared->job_key != job_key)
    return Status(Code::kMismatch, "memory://" + name + " belongs to another job, or to one with another GIMBAL_JOB_KEY");
  return std::unique_ptr<Store>(new MemoryStore(std::move(shared)));
}

}  // namespace gimbal
