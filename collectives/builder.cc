#include "collectives/builder.h"

#include <algorithm>

#include "base/status.h"

namespace gimbal {
namespace {

constexpr Step kBlank = {
    Op::kCopy, Payload::kFinal, Payload::kFinal, BufferId::kNone, BufferId::kNone, 0, 0, kNoRank, kNoRank, 0, 0, kNoStep};

Payload payload_in(BufferId buffer) {
  switch (buffer) {
    case BufferId::kInput:
      return Payload::kRaw;
    case BufferId::kScratch:
      return Payload::kPartial;
    case BufferId::kOutput:
    case BufferId::kNone:
      return Payload::kFinal;
  }
  return Payload::kFinal;
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(const CollectiveSpec& spec, uint32_t units)
    : has_blocks_(has_blocks(spec.collective)),
      reduces_(reduces(spec.collective)),
      lanes_(lane_count(spec)),
      pieces_(spec.pieces),
      units_(units) {
  GIMBAL_DCHECK(!has_blocks_ || units == block_count(spec.collective, spec.nranks));
  schedule_.chunk_count = lanes_ * units;
  schedule_.channels = spec.channels;
}

void ScheduleBuilder::enter(uint8_t channel, uint32_t piece) {
  channel_ = channel;
  lane_ = channel * pieces_ + piece;
}

void ScheduleBuilder::enter_rail(const SliceRail& rail, Rank rank) {
  rail_ = rail;
  rail_rank_ = rank;
}

void ScheduleBuilder::add(Step step, Units units) {
  if (rail_.nodes == nullptr) return record(step, units);
  add_on_rail(step, units);
}

void ScheduleBuilder::add_on_rail(Step step, Units units) {
  if (step.peer != kNoRank) {
    if (input_is_sum(step.peer) && step.payload == Payload::kRaw && step.op != Op::kSend) {
      step.payload = step.sent = Payload::kPartial;
    }
    step.peer = rail_.nodes->carrier(step.peer, rail_.slice);
  }
  if (!has_blocks_) return record(step, {rail_.first_unit + units.first, units.count});
  for (uint32_t i = 0; i < units.count; ++i) {
    const std::span<const Rank> members = rail_.nodes->members(static_cast<Rank>(units.first + i));
    const auto slice = static_cast<size_t>(rail_.slice);
    if (slice < members.size()) record(step, unit(members[slice]));
  }
}

void ScheduleBuilder::record(Step step, Units units) {
  GIMBAL_DCHECK(units.first + units.count <= units_);
  step.channel = channel_;
  if (!has_blocks_ || lanes_ == 1) {
    step.chunk = has_blocks_ ? units.first : lane_ * units_ + units.first;
    step.count = units.count;
    if (units.count > 0) schedule_.steps.push_back(step);
    return;
  }
  step.count = 1;
  for (uint32_t i = 0; i < units.count; ++i) {
    step.chunk = (units.first + i) * lanes_ + lane_;
    schedule_.steps.push_back(step);
  }
}

void ScheduleBuilder::send(Rank peer, Units units, BufferId src) {
  if (src == BufferId::kInput && input_is_sum()) src = BufferId::kScratch;
  Step step = kBlank;
  step.op = Op::kSend;
  step.payload = reduces_ ? payload_in(src) : Payload::kFinal;
  step.sent = step.payload;
  step.src = src;
  step.peer = peer;
  add(step, units);
}

void ScheduleBuilder::recv(Rank peer, Units units, Payload payload, BufferId dst) {
  Step step = kBlank;
  step.op = Op::kRecv;
  step.payload = payload;
  step.sent = payload;
  step.dst = dst;
  step.peer = peer;
  add(step, units);
}

void ScheduleBuilder::recv_reduce(Rank peer, Units units, Payload payload, BufferId src, BufferId dst) {
  if (src == BufferId::kInput && input_is_sum()) src = BufferId::kScratch;
  Step step = kBlank;
  step.op = Op::kRecvReduce;
  step.payload = payload;
  step.sent = payload;
  step.src = src;
  step.dst = dst;
  step.peer = peer;
  add(step, units);
}

void ScheduleBuilder::copy(Units units, BufferId src, BufferId dst) {
  Step step = kBlank;
  step.op = Op::kCopy;
  step.src = src;
  step.dst = dst;
  add(step, units);
}

void ScheduleBuilder::reduce(Units units, BufferId dst) {
  GIMBAL_DCHECK(!input_is_sum());
  Step step = kBlank;
  step.op = Op::kReduce;
  step.src = BufferId::kInput;
  step.dst = dst;
  add(step, units);
}

Schedule build_waves(const CollectiveSpec& spec, uint32_t units, const std::vector<Stage>& stages) {
  uint32_t last = 0;
  for (const Stage& stage : stages) last = std::max(last, stage.lag);
  ScheduleBuilder builder(spec, units);
  for (uint8_t channel = 0; channel < spec.channels; ++channel) {
    for (uint32_t time = 0; time < spec.pieces + last; ++time) {
      for (const Stage& stage : stages) {
        if (time < stage.lag || time - stage.lag >= spec.pieces) continue;
        builder.enter(channel, time - stage.lag);
        stage.record(builder);
      }
    }
  }
  return builder.take();
}

}  // namespace gimbal
