#include "runtime/plan_cache.h"

#include <functional>
#include <utility>

namespace gimbal {

size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  size_t hash = std::hash<std::string_view>()(key.algorithm);
  const auto mix = [&](size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15U; };  // 2^64 / golden ratio
  mix(key.count);
  mix(static_cast<size_t>(key.collective));
  mix(static_cast<size_t>(key.dtype));
  mix(static_cast<size_t>(key.op));
  mix(static_cast<size_t>(key.root));
  mix(key.channels);
  mix(key.weighted ? 1 : 0);
  return hash;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->plan;
}

void PlanCache::insert(const PlanKey& key, std::shared_ptr<const Plan> plan) {
  if (const auto found = index_.find(key); found != index_.end()) {
    entries_.erase(found->second);
    index_.erase(found);
  } else if (entries_.size() == capacity_) {
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, std::move(plan)});
  index_.emplace(key, entries_.begin());
}

}  // namespace gimbal
