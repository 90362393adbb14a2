#include "collectives/verifier.h"

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "collectives/accesses.h"
#include "collectives/cursors.h"
#include "collectives/message_queues.h"
#include "collectives/order_hash.h"
#include "collectives/printer.h"
#include "collectives/schedule_check.h"
#include "collectives/symbolic.h"

namespace gimbal {
namespace {

Status step_error(Rank rank, int32_t index, const Step& step, const std::string& what) {
  return {Code::kInternal,
          "rank " + std::to_string(rank) + ", step " + std::to_string(index) + " (" + describe(step) + "): " + what};
}

// One channel of one rank: what an executor steps through.
struct Lane {
  Lane(Rank rank_of, uint8_t channel_of, const std::vector<Step>& steps)
      : rank(rank_of), channel(channel_of), cursors(steps, channel_of) {}

  Rank rank;
  uint8_t channel;
  bool queued = false;
  ChannelCursors cursors;
  // Of the step that has begun on each cursor: how far it is, and what it will have written when complete.
  std::array<uint32_t, 2> slices_done = {0, 0};
  std::array<std::vector<Symbol>, 2> values;
};

class Run {
 public:
  Run(const CollectiveSpec& spec, std::span<const Schedule> schedules, const VerifyOptions& options)
      : spec_(spec), schedules_(schedules), options_(options), queues_(schedules) {
    for (Rank rank = 0; rank < spec.nranks; ++rank) {
      memories_.emplace_back(spec, rank, schedules[0].chunk_count);
      for (uint8_t channel = 0; channel < schedules[0].channels; ++channel) {
        lanes_.emplace_back(rank, channel, steps(rank));
      }
    }
  }

  Status execute();
  [[nodiscard]] Result<OrderClass> check_outputs() const;

 private:
  [[nodiscard]] const std::vector<Step>& steps(Rank rank) const { return schedules_[static_cast<size_t>(rank)].steps; }
  Lane& lane(Rank rank, uint8_t channel) { return lanes_[static_cast<size_t>(rank) * schedules_[0].channels + channel]; }

  void wake(Rank rank, uint8_t channel);
  // Goes on as far as it can; true when something was done.
  Result<bool> advance(Lane& lane, size_t cursor);
  // The reason why the step cannot go on now; null when it can.
  const char* blocked(const Lane& lane, size_t cursor);
  Status begin(Lane& lane, size_t cursor);
  Status receive(const Lane& lane, int32_t index, std::vector<Symbol>& values);
  Status combine(const Lane& lane, int32_t index, std::vector<Symbol>& values);
  void complete(Lane& lane, size_t cursor);
  [[nodiscard]] Status deadlock();
  [[nodiscard]] Status leftover() const;
  [[nodiscard]] std::string wrong_output(Rank rank, uint32_t chunk) const;

  CollectiveSpec spec_;
  std::span<const Schedule> schedules_;
  VerifyOptions options_;
  MessageQueues queues_;
  std::vector<SymbolicMemory> memories_;
  std::vector<Lane> lanes_;
  std::deque<size_t> ready_;
};

void Run::wake(Rank rank, uint8_t channel) {
  Lane& woken = lane(rank, channel);
  if (woken.queued) return;
  woken.queued = true;
  ready_.push_back(static_cast<size_t>(&woken - lanes_.data()));
}

const char* Run::blocked(const Lane& lane, size_t cursor) {
  const Step& step = lane.cursors.step(cursor);
  if (!lane.cursors.may_begin(cursor)) return "an earlier step";
  if (receives_from(step) != kNoRank) {
    const MessageQueue* queue = queues_.find(step.peer, lane.rank, lane.channel);
    if (queue == nullptr || queue->in_flight == 0) return "a message";
  }
  if (sends_to(step) != kNoRank && queues_.find(lane.rank, sends_to(step), lane.channel)->in_flight >= options_.slot_depth) {
    return "a free slot";
  }
  return nullptr;
}

// Takes the message's symbols off the queue and checks that its ends agree.
Status Run::receive(const Lane& lane, int32_t index, std::vector<Symbol>& values) {
  const Step& step = steps(lane.rank)[static_cast<size_t>(index)];
  MessageQueue& queue = *queues_.find(step.peer, lane.rank, lane.channel);
  const MessageHeader header = queue.front();
  if (header.chunk != step.chunk || header.count != step.count || header.payload != step.payload) {
    const Step& sender = steps(step.peer)[static_cast<size_t>(header.step)];
    return step_error(lane.rank, index, step,
                      "the message that arrives is that of rank " + std::to_string(step.peer) + ", step " +
                          std::to_string(header.step) + " (" + describe(sender) + ")");
  }
  queue.pop_into(values);
  return {};
}

// values = (what was received) ⊕ src, or scratch ⊕ src, or src.
Status Run::combine(const Lane& lane, int32_t index, std::vector<Symbol>& values) {
  const Step& step = steps(lane.rank)[static_cast<size_t>(index)];
  const SymbolicMemory& memory = memories_[static_cast<size_t>(lane.rank)];
  const bool adds = step.op == Op::kRecvReduce || step.op == Op::kRecvReduceSend || step.op == Op::kReduce;
  if (adds && !reduces(spec_.collective)) {
    return step_error(lane.rank, index, step, "the collective adds nothing");
  }
  if (adds && receives_from(step) != kNoRank && step.payload == Payload::kFinal) {
    return step_error(lane.rank, index, step, "a final value is rounded and not to be added");
  }
  const Payload local = step.src == BufferId::kScratch ? Payload::kPartial
                        : !reduces(spec_.collective)   ? Payload::kFinal
                                                       : Payload::kRaw;
  if (step.op == Op::kReduce) values.resize(step.count);
  for (uint32_t i = 0; i < step.count; ++i) {
    const uint32_t chunk = step.chunk + i;
    const char* why = memory.unreadable(step.src, chunk, on_send_cursor(step) ? step.payload : local);
    if (why == nullptr && step.op == Op::kReduce) why = memory.unreadable(BufferId::kScratch, chunk, Payload::kPartial);
    if (why != nullptr) {
      return step_error(lane.rank, index, step, "chunk " + std::to_string(chunk) + ": " + why);
    }
    if (step.op == Op::kReduce) values[i] = memory.read(BufferId::kScratch, chunk);
    const Symbol operand = memory.read(step.src, chunk);
    if (adds) {
      values[i] = add(values[i], operand);
    } else {
      values.push_back(operand);
    }
  }
  return {};
}

// Reads everything that the step reads; what it sends becomes visible to the receiver.
Status Run::begin(Lane& lane, size_t cursor) {
  const Step& step = lane.cursors.step(cursor);
  const auto index = static_cast<int32_t>(lane.cursors.index(cursor));
  std::vector<Symbol>& values = lane.values[cursor];
  values.clear();
  if (receives_from(step) != kNoRank) RETURN_IF_ERROR(receive(lane, index, values));
  if (step.src != BufferId::kNone) RETURN_IF_ERROR(combine(lane, index, values));
  if (step.dst == BufferId::kScratch && step.payload == Payload::kFinal && receives_from(step) != kNoRank) {
    return step_error(lane.rank, index, step, "a final value is no partial");
  }
  if (sends_to(step) == kNoRank) return {};
  const Payload result = step.dst == BufferId::kOutput ? Payload::kFinal : Payload::kPartial;
  const Payload expected = step.op == Op::kRecvReduceSend ? result : step.payload;
  if (step.sent != expected) {
    return step_error(lane.rank, index, step, "what leaves is " + std::string(payload_name(expected)));
  }
  queues_.find(lane.rank, sends_to(step), lane.channel)->push({step.chunk, step.count, step.sent, index}, values);
  return {};
}

void Run::complete(Lane& lane, size_t cursor) {
  const Step& step = lane.cursors.step(cursor);
  SymbolicMemory& memory = memories_[static_cast<size_t>(lane.rank)];
  for (uint32_t i = 0; i < step.count; ++i) memory.write(step.dst, step.chunk + i, lane.values[cursor][i]);
  lane.slices_done[cursor] = 0;
  lane.cursors.complete(cursor);
}

Result<bool> Run::advance(Lane& lane, size_t cursor) {
  bool moved = false;
  while (!lane.cursors.at_end(cursor) && blocked(lane, cursor) == nullptr) {
    moved = true;
    const Step& step = lane.cursors.step(cursor);
    if (lane.slices_done[cursor] == 0) RETURN_IF_ERROR(begin(lane, cursor));
    if (receives_from(step) != kNoRank) {
      --queues_.find(step.peer, lane.rank, lane.channel)->in_flight;
      wake(step.peer, lane.channel);
    }
    if (sends_to(step) != kNoRank) {
      ++queues_.find(lane.rank, sends_to(step), lane.channel)->in_flight;
      wake(sends_to(step), lane.channel);
    }
    if (++lane.slices_done[cursor] == options_.slices) complete(lane, cursor);
  }
  return moved;
}

Status Run::execute() {
  for (const Lane& lane : lanes_) wake(lane.rank, lane.channel);
  while (!ready_.empty()) {
    Lane& lane = lanes_[ready_.front()];
    ready_.pop_front();
    lane.queued = false;
    for (bool moved = true; moved;) {
      ASSIGN_OR_RETURN(const bool received, advance(lane, ChannelCursors::kOthers));
      ASSIGN_OR_RETURN(const bool sent, advance(lane, ChannelCursors::kSends));
      moved = received || sent;
    }
  }
  RETURN_IF_ERROR(deadlock());
  return leftover();
}

Status Run::deadlock() {
  // Enough to see a cycle without filling the screen.
  constexpr size_t kNamed = 4;
  std::string stuck;
  size_t count = 0;
  for (const Lane& lane : lanes_) {
    for (const size_t cursor : ChannelCursors::kBoth) {
      if (lane.cursors.at_end(cursor) || ++count > kNamed) continue;
      const size_t at = lane.cursors.index(cursor);
      const Step& step = lane.cursors.step(cursor);
      const std::string reason = blocked(lane, cursor);
      stuck += (count > 1 ? "; rank " : ": rank ") + std::to_string(lane.rank) + ", step " + std::to_string(at) + " (" +
               describe(step) + ") waits for " + (reason == "an earlier step" ? "step " + std::to_string(step.after) : reason);
    }
  }
  if (count == 0) return {};
  if (count > kNamed) stuck += "; and " + std::to_string(count - kNamed) + " more";
  return {Code::kInternal, "deadlock with " + std::to_string(options_.slot_depth) + " slots and " +
                               std::to_string(options_.slices) + " slices" + stuck};
}

Status Run::leftover() const {
  Status status;
  queues_.for_each([&](Rank from, Rank to, uint8_t channel, const MessageQueue& queue) {
    if (queue.empty() || !status.ok()) return;
    const int32_t index = queue.front().step;
    status = step_error(from, index, steps(from)[static_cast<size_t>(index)],
                        "rank " + std::to_string(to) + " has no step that receives it on channel " + std::to_string(channel));
  });
  return status;
}

std::string Run::wrong_output(Rank rank, uint32_t chunk) const {
  const std::string where = "rank " + std::to_string(rank) + ", output chunk " + std::to_string(chunk) + ": ";
  const SymbolicMemory& memory = memories_[static_cast<size_t>(rank)];
  if (!memory.has_output(chunk)) return where + "it is never written";
  uint64_t excess = memory.read(BufferId::kOutput, chunk).weight;
  for (Rank source = 0; source < spec_.nranks; ++source) excess -= input_weight(source, chunk);
  for (Rank source = 0; source < spec_.nranks; ++source) {
    if (excess == input_weight(source, chunk)) return where + "the input of rank " + std::to_string(source) + " is in it twice";
    if (excess + input_weight(source, chunk) == 0) return where + "the input of rank " + std::to_string(source) + " is missing";
  }
  return where + "it is not what the collective asks for";
}

Result<OrderClass> Run::check_outputs() const {
  const ChunkSpace space(spec_, schedules_[0].chunk_count);
  const uint64_t tree = tree_order(spec_.nranks);
  const uint64_t ranks = rank_order(spec_.nranks);
  bool in_tree_order = true;
  bool in_rank_order = true;
  bool agreed = true;
  for (uint32_t chunk = 0; chunk < schedules_[0].chunk_count; ++chunk) {
    uint64_t expected = 0;
    if (space.source(chunk) == kNoRank) {
      for (Rank source = 0; source < spec_.nranks; ++source) expected += input_weight(source, chunk);
    } else {
      expected = input_weight(space.source(chunk), chunk);
    }
    std::optional<uint64_t> first_order;
    for (Rank rank = 0; rank < spec_.nranks; ++rank) {
      if (!space.in_output(rank, chunk)) continue;
      const SymbolicMemory& memory = memories_[static_cast<size_t>(rank)];
      if (!memory.has_output(chunk) || memory.read(BufferId::kOutput, chunk).weight != expected) {
        return Status(Code::kInternal, wrong_output(rank, chunk));
      }
      if (space.source(chunk) != kNoRank) continue;
      const uint64_t order = memory.read(BufferId::kOutput, chunk).order;
      if (!first_order) first_order = order;
      agreed = agreed && order == *first_order;
      in_tree_order = in_tree_order && order == tree;
      in_rank_order = in_rank_order && order == ranks;
    }
  }
  if (in_tree_order) return OrderClass::kTree;
  if (in_rank_order) return OrderClass::kRankOrder;
  return agreed ? OrderClass::kAgreed : OrderClass::kDisagreed;
}

}  // namespace

Result<Verification> verify(const CollectiveSpec& spec, std::span<const Schedule> schedules, const VerifyOptions& options) {
  if (schedules.size() != static_cast<size_t>(spec.nranks)) {
    return Status(Code::kInternal,
                  std::to_string(schedules.size()) + " schedules for " + std::to_string(spec.nranks) + " ranks");
  }
  Verification verification;
  for (Rank rank = 0; rank < spec.nranks; ++rank) {
    const Schedule& schedule = schedules[static_cast<size_t>(rank)];
    if (schedule.chunk_count != schedules[0].chunk_count || schedule.channels != schedules[0].channels) {
      return Status(Code::kInternal, "rank " + std::to_string(rank) + " has " + std::to_string(schedule.chunk_count) +
                                         " chunks on " + std::to_string(schedule.channels) + " channels, rank 0 has " +
                                         std::to_string(schedules[0].chunk_count) + " on " +
                                         std::to_string(schedules[0].channels));
    }
    RETURN_IF_ERROR(check_schedule(spec, rank, schedule));
    verification.steps += schedule.steps.size();
  }
  Run run(spec, schedules, options);
  RETURN_IF_ERROR(run.execute());
  ASSIGN_OR_RETURN(verification.order, run.check_outputs());
  return verification;
}

Result<OrderClass> order_class(const Algorithm& algorithm, Rank nranks, const NodeShape* nodes) {
  const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = nranks, .nodes = nodes};
  if (std::string why = admits(algorithm, spec); !why.empty()) return Status(Code::kUnsupported, std::move(why));
  ASSIGN_OR_RETURN(const Verification verification, verify(spec, build_all(algorithm, spec, Fusion::kNone)));
  return verification.order;
}

}  // namespace gimbal
