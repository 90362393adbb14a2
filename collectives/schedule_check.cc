#include "collectives/schedule_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "collectives/accesses.h"
#include "collectives/chunk_space.h"
#include "collectives/printer.h"

namespace gimbal {
namespace {

Status bad_step(Rank rank, size_t index, const Step& step, const std::string& what) {
  return {Code::kInternal, "schedule of rank " + std::to_string(rank) + ", step " + std::to_string(index) + " (" +
                               describe(step) + "): " + what};
}

bool is_peer(const CollectiveSpec& spec, Rank rank, Rank peer) { return peer >= 0 && peer < spec.nranks && peer != rank; }

// The buffers of each operation, as the table in schedule.h has them.
bool has_its_buffers(const Step& step) {
  const bool adds_to = step.src == BufferId::kInput || step.src == BufferId::kScratch;
  const bool keeps = step.dst == BufferId::kOutput || step.dst == BufferId::kScratch;
  switch (step.op) {
    case Op::kSend:
      return step.src != BufferId::kNone && step.dst == BufferId::kNone;
    case Op::kRecv:
      return step.src == BufferId::kNone && keeps;
    case Op::kRecvReduce:
    case Op::kCopy:
      return adds_to && keeps;
    case Op::kReduce:
      return step.src == BufferId::kInput && keeps;
    case Op::kRecvSend:
      return step.src == BufferId::kNone && (keeps || step.dst == BufferId::kNone);
    case Op::kRecvReduceSend:
      return adds_to && (keeps || step.dst == BufferId::kNone);
  }
  return false;
}

Status check_fields(const CollectiveSpec& spec, Rank rank, const Schedule& schedule, size_t index) {
  const Step& step = schedule.steps[index];
  if (step.count == 0 || uint64_t{step.chunk} + step.count > schedule.chunk_count) {
    return bad_step(rank, index, step, "the run is not within " + std::to_string(schedule.chunk_count) + " chunks");
  }
  if (step.channel >= schedule.channels) {
    return bad_step(rank, index, step, "channel " + std::to_string(step.channel) + " of " + std::to_string(schedule.channels));
  }
  if (!has_its_buffers(step)) return bad_step(rank, index, step, "the operation cannot use these buffers");
  const bool local = step.op == Op::kCopy || step.op == Op::kReduce;
  if (!local && !is_peer(spec, rank, step.peer)) {
    return bad_step(rank, index, step, "peer " + std::to_string(step.peer) + " is not another rank");
  }
  const bool fused = step.op == Op::kRecvSend || step.op == Op::kRecvReduceSend;
  if (fused ? !is_peer(spec, rank, step.forward_to) : step.forward_to != kNoRank) {
    return bad_step(rank, index, step, "forwards to " + std::to_string(step.forward_to));
  }
  const auto after = static_cast<size_t>(step.after);
  if (step.after != kNoStep && (step.after < 0 || after >= index || schedule.steps[after].channel != step.channel)) {
    return bad_step(rank, index, step, "waits for step " + std::to_string(step.after) + ", not an earlier one of its channel");
  }
  return {};
}

Status check_channels(Rank rank, const Schedule& schedule) {
  constexpr int kUnknown = -1;
  std::vector<int> channel_of(schedule.chunk_count, kUnknown);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    for (uint32_t c = step.chunk; c < step.chunk + step.count; ++c) {
      if (channel_of[c] == kUnknown) channel_of[c] = step.channel;
      if (channel_of[c] == step.channel) continue;
      return bad_step(rank, i, step, "chunk " + std::to_string(c) + " belongs to channel " + std::to_string(channel_of[c]));
    }
  }
  return {};
}

// Which steps are surely complete when a step begins: all earlier ones of its cursor, and of the other cursor those up to the
// last that it or an earlier one of its cursor waits for.
class Before {
 public:
  explicit Before(const Schedule& schedule) : steps_(schedule.steps), other_(schedule.steps.size()) {
    std::vector<std::array<int32_t, 2>> known(schedule.channels, {kNoStep, kNoStep});
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      int32_t& latest = known[step.channel][on_send_cursor(step) ? 1 : 0];
      const bool crosses =
          step.after != kNoStep && on_send_cursor(steps_[static_cast<size_t>(step.after)]) != on_send_cursor(step);
      if (crosses) latest = std::max(latest, step.after);
      other_[i] = latest;
    }
  }

  [[nodiscard]] bool surely(int32_t earlier, size_t later) const {
    const Step& first = steps_[static_cast<size_t>(earlier)];
    return on_send_cursor(first) == on_send_cursor(steps_[later]) || other_[later] >= earlier;
  }

 private:
  const std::vector<Step>& steps_;
  std::vector<int32_t> other_;
};

struct Accessors {
  int32_t writer = kNoStep;
  std::array<int32_t, 2> readers = {kNoStep, kNoStep};  // since the write, by cursor
};

// The step that touched the place before, in conflict with `index` and not surely complete; kNoStep when there is none.
int32_t unordered(Accessors& accessors, const Before& before, size_t index, bool reads_it, bool writes_it, size_t cursor) {
  if (accessors.writer != kNoStep && !before.surely(accessors.writer, index)) return accessors.writer;
  if (writes_it) {
    for (const int32_t reader : accessors.readers) {
      if (reader != kNoStep && !before.surely(reader, index)) return reader;
    }
    accessors = {static_cast<int32_t>(index), {kNoStep, kNoStep}};
  } else if (reads_it) {
    accessors.readers[cursor] = static_cast<int32_t>(index);
  }
  return kNoStep;
}

Status check_order(Rank rank, const Schedule& schedule) {
  const Before before(schedule);
  std::array<std::vector<Accessors>, kPlaceCount> places;
  for (auto& place : places) place.resize(schedule.chunk_count);
  std::vector<std::map<Rank, int32_t>> last_send(schedule.channels);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    for (size_t place = 0; place < kPlaceCount; ++place) {
      const bool reads_it = reads(step, static_cast<Place>(place));
      const bool writes_it = writes(step, static_cast<Place>(place));
      if (!reads_it && !writes_it) continue;
      for (uint32_t c = step.chunk; c < step.chunk + step.count; ++c) {
        const int32_t other = unordered(places[place][c], before, i, reads_it, writes_it, on_send_cursor(step) ? 1 : 0);
        if (other == kNoStep) continue;
        return bad_step(rank, i, step,
                        "does not wait for step " + std::to_string(other) + ", which uses chunk " + std::to_string(c) + " too");
      }
    }
    if (sends_to(step) == kNoRank) continue;
    const auto [last, is_first] = last_send[step.channel].try_emplace(sends_to(step), static_cast<int32_t>(i));
    if (!is_first && !before.surely(last->second, i)) {
      return bad_step(rank, i, step, "may overtake step " + std::to_string(last->second) + ", which sends to the same rank");
    }
    last->second = static_cast<int32_t>(i);
  }
  return {};
}

}  // namespace

Status check_schedule(const CollectiveSpec& spec, Rank rank, const Schedule& schedule) {
  const uint32_t blocks = block_count(spec.collective, spec.nranks);
  if (schedule.chunk_count == 0 || schedule.chunk_count % blocks != 0) {
    return {Code::kInternal, "schedule of rank " + std::to_string(rank) + ": " + std::to_string(schedule.chunk_count) +
                                 " chunks; allowed: a multiple of " + std::to_string(blocks)};
  }
  for (size_t i = 0; i < schedule.steps.size(); ++i) RETURN_IF_ERROR(check_fields(spec, rank, schedule, i));
  RETURN_IF_ERROR(check_channels(rank, schedule));
  return check_order(rank, schedule);
}

}  // namespace gimbal
