// The plans that a communicator used last, so that a repeated operation costs no planning.
//
// What is equal for all of a communicator's operations (ranks, slices, window, precision) is not part of the key. The v-forms,
// whose counts are arrays of the call, are not kept. A plan found stays valid while its pointer is held, evicted or not.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/types.h"
#include "runtime/plan.h"

namespace gimbal {

struct PlanKey {
  Collective collective = Collective::kAllReduce;
  std::string_view algorithm;  // of the registry: outlives the cache
  size_t count = 0;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  Rank root = 0;
  uint8_t channels = 1;
  bool weighted = false;

  bool operator==(const PlanKey&) const = default;
};

class PlanCache {
 public:
  // capacity > 0. The plan used longest ago goes first.
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  // Null when there is none.
  std::shared_ptr<const Plan> find(const PlanKey& key);
  void insert(const PlanKey& key, std::shared_ptr<const Plan> plan);
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<const Plan> plan;
  };
  struct Hash {
    size_t operator()(const PlanKey& key) const;
  };
  using Entries = std::list<Entry>;

  size_t capacity_;
  Entries entries_;  // used last, first
  std::unordered_map<PlanKey, Entries::iterator, Hash> index_;
};

}  // namespace gimbal
