#include "collectives/message_queues.h"

#include <algorithm>

#include "collectives/accesses.h"

namespace gimbal {

MessageQueues::MessageQueues(std::span<const Schedule> schedules) : targets_(schedules.size()) {
  for (size_t from = 0; from < schedules.size(); ++from) {
    std::vector<Target>& targets = targets_[from];
    for (const Step& step : schedules[from].steps) {
      const Target target = {step.channel, sends_to(step), 0};
      if (target.rank == kNoRank) continue;
      const auto at = std::lower_bound(targets.begin(), targets.end(), target, is_before);
      if (at == targets.end() || is_before(target, *at)) targets.insert(at, target);
    }
    for (Target& target : targets) {
      target.queue = queues_.size();
      queues_.emplace_back();
    }
  }
}

MessageQueue* MessageQueues::find(Rank from, Rank to, uint8_t channel) {
  const std::vector<Target>& targets = targets_[static_cast<size_t>(from)];
  const Target wanted = {channel, to, 0};
  const auto at = std::lower_bound(targets.begin(), targets.end(), wanted, is_before);
  return at == targets.end() || is_before(wanted, *at) ? nullptr : &queues_[at->queue];
}

}  // namespace gimbal
