#include "runtime/cpu_executor.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

namespace gimbal {
namespace {

// Bounds the time between two looks of the caller at its deadline and at aborts: 64 slices of 64 KiB take about a millisecond.
constexpr size_t kRoundsPerCall = 64;

std::string hex(uint64_t value) {
  char text[19];
  std::snprintf(text, sizeof(text), "0x%016" PRIx64, value);
  return text;
}

}  // namespace

Status CpuExecutor::bind(const Binding& binding) {
  const Plan& plan = *binding.plan;
  GIMBAL_DCHECK(binding.scratch.size() >= plan.scratch_bytes);
  const size_t slice_bytes = plan.slice_elements * std::max(plan.form_bytes[0], plan.form_bytes[1]);
  driven_.clear();
  for (const Rank peer : plan.peers) {
    const auto index = static_cast<size_t>(peer);
    Endpoint* const endpoint = index < binding.endpoints.size() ? binding.endpoints[index] : nullptr;
    if (endpoint == nullptr || endpoint->channels() < plan.channels || endpoint->slot_bytes() < slice_bytes) {
      return Status(Code::kInternal, "the plan needs " + std::to_string(plan.channels) + " channels with slots of " +
                                         std::to_string(slice_bytes) + " bytes to rank " + std::to_string(peer) +
                                         "; its endpoint has " + std::to_string(endpoint ? endpoint->channels() : 0) + " of " +
                                         std::to_string(endpoint ? endpoint->slot_bytes() : 0));
    }
    if (endpoint->needs_progress()) driven_.push_back(endpoint);
  }
  plan_ = &plan;
  // The schedule never names kInput as a destination.
  buffers_ = {const_cast<std::byte*>(binding.input), binding.output, binding.scratch.data()};
  endpoints_ = binding.endpoints;
  tag_ = binding.tag;
  weight_ = binding.weight;
  divisor_ = plan.divisor * binding.divisor;
  slices_ = 0;
  mismatch_.reset();
  unfinished_ = 0;
  channels_.assign(plan.channels, ChannelState{});
  for (size_t channel = 0; channel < plan.channels; ++channel) {
    for (size_t i = 0; i < kCursorCount; ++i) {
      const std::vector<PlanStep>& steps = plan.steps[channel][i];
      CursorState& cursor = channels_[channel].cursors[i];
      cursor.steps = steps.data();
      cursor.size = steps.size();
      cursor.finished = steps.empty();
      unfinished_ += steps.empty() ? 0 : 1;
    }
  }
  return {};
}

Result<Progress> CpuExecutor::progress() {
  for (Endpoint* const endpoint : driven_) RETURN_IF_ERROR(endpoint->progress());
  for (size_t round = 0; round < kRoundsPerCall && unfinished_ > 0; ++round) {
    bool moved = false;
    // One slice per cursor in turn: a rank that first sent all that it can would leave its receivers' windows full and its
    // senders' too.
    for (Channel channel = 0; channel < plan_->channels; ++channel) {
      ChannelState& state = channels_[channel];
      for (const Cursor cursor : {Cursor::kSends, Cursor::kOthers}) {
        const Outcome outcome = advance(channel, state, cursor);
        if (outcome == Outcome::kFailed) [[unlikely]]
          return std::move(failure_);
        moved |= outcome == Outcome::kMoved;
      }
    }
    if (!moved) break;
  }
  if (unfinished_ > 0) return Progress::kAgain;
  const bool unsent = std::any_of(driven_.begin(), driven_.end(), [](const Endpoint* one) { return one->has_unsent(); });
  return unsent ? Progress::kAgain : Progress::kDone;
}

bool CpuExecutor::may_begin(const ChannelState& state, Cursor cursor) const {
  const CursorState& own = state.cursors[static_cast<size_t>(cursor)];
  const PlanStep& step = own.steps[own.next];
  if (step.after != kNoPosition) {
    const CursorState& other = state.cursors[static_cast<size_t>(step.after_cursor)];
    if (other.completed() <= own.segment * other.size + step.after) return false;
  }
  if (step.previous != kNoPosition && own.segment > 0) {
    const CursorState& other = state.cursors[1 - static_cast<size_t>(cursor)];
    if (other.completed() <= (own.segment - 1) * other.size + step.previous) return false;
  }
  return true;
}

CpuExecutor::Outcome CpuExecutor::advance(Channel channel, ChannelState& state, Cursor cursor) {
  CursorState& own = state.cursors[static_cast<size_t>(cursor)];
  bool skipped = false;
  while (!own.finished) {
    if (own.position == 0 && !may_begin(state, cursor)) break;
    const PlanStep& step = own.steps[own.next];
    const size_t start = own.segment == 0 ? 0 : std::min(own.segment * plan_->segment_elements, step.elements);
    const size_t part = std::min(step.elements - start, plan_->segment_elements);
    if (part == 0) {  // both sides know it: no message
      finish_step(own);
      skipped = true;
      continue;
    }
    const size_t count = std::min(part - own.position, plan_->slice_elements);
    const Outcome outcome = carry_out_slice(channel, own, step, start + own.position, count);
    if (outcome == Outcome::kBlocked) break;
    if (outcome == Outcome::kFailed) [[unlikely]]
      return outcome;
    ++slices_;
    own.position += count;
    if (own.position == part) finish_step(own);
    return Outcome::kMoved;
  }
  // What was skipped may be what the other cursor waits for.
  return skipped ? Outcome::kMoved : Outcome::kBlocked;
}

void CpuExecutor::finish_step(CursorState& cursor) {
  cursor.position = 0;
  if (++cursor.next < cursor.size) return;
  if (cursor.segment + 1 == plan_->segments) {
    cursor.finished = true;
    --unfinished_;
    return;
  }
  cursor.next = 0;
  cursor.segment_start += cursor.size;
  ++cursor.segment;
}

CpuExecutor::Outcome CpuExecutor::carry_out_slice(Channel channel, CursorState& cursor, const PlanStep& step, size_t first,
                                                  size_t count) {
  const std::byte* received = nullptr;
  if (step.peer != kNoRank) {
    cursor.waits_for_slot = false;
    auto front = endpoints_[static_cast<size_t>(step.peer)]->front(channel);
    if (!front.ok()) [[unlikely]]
      return fail(front.status());
    const std::optional<ReceivedMessage>& message = *front;
    if (!message) return Outcome::kBlocked;
    if (!is_expected(*message, step, channel, plan_->bytes(step.received_form, count))) [[unlikely]]
      return Outcome::kFailed;
    received = message->bytes.data();
  }
  std::byte* slot = nullptr;
  const size_t sent_bytes = plan_->bytes(step.sent.form, count);
  if (step.to != kNoRank) {
    cursor.waits_for_slot = true;
    auto acquired = endpoints_[static_cast<size_t>(step.to)]->acquire(channel, sent_bytes);
    if (!acquired.ok()) [[unlikely]]
      return fail(acquired.status());
    if (!acquired->has_value()) return Outcome::kBlocked;
    slot = (*acquired)->data();
  }
  write_results(step, received, slot, first, count);
  if (slot != nullptr) {
    Status committed = endpoints_[static_cast<size_t>(step.to)]->commit(channel, sent_bytes, tag_);
    if (!committed.ok()) [[unlikely]]
      return fail(std::move(committed));
  }
  if (received != nullptr) endpoints_[static_cast<size_t>(step.peer)]->release(channel);
  return Outcome::kMoved;
}

void CpuExecutor::write_results(const PlanStep& step, const std::byte* received, std::byte* slot, size_t first,
                                size_t count) const {
  std::array<ReduceSource, 2> sources{};
  size_t source_count = 0;
  if (received != nullptr) {
    sources[source_count++] = {received, step.received_form};
  } else if (step.op == Op::kReduce) {
    const std::byte* const scratch = buffers_[static_cast<size_t>(BufferId::kScratch)];
    sources[source_count++] = {scratch + step.left_offset + plan_->bytes(Form::kPartial, first), Form::kPartial};
  }
  if (step.src != BufferId::kNone) {
    const std::byte* const src = buffers_[static_cast<size_t>(step.src)] + step.src_offset;
    sources[source_count++] = {src + plan_->bytes(step.src_form, first), step.src_form,
                               step.src == BufferId::kInput ? weight_ : 1};
  }
  const auto write = [&](const PlanTarget& target, std::span<void* const> destinations) {
    if (target.is_copy) {
      for (void* const destination : destinations) {
        if (destination != sources[0].data) std::memcpy(destination, sources[0].data, plan_->bytes(target.form, count));
      }
      return;
    }
    ReduceArguments arguments;
    arguments.sources = {sources.data(), source_count};
    arguments.destinations = destinations;
    arguments.destination_form = target.form;
    arguments.count = count;
    arguments.divisor = target.divides ? divisor_ : 1;
    plan_->reduce(arguments);
  };
  std::byte* dst = nullptr;
  if (step.dst != BufferId::kNone) {
    dst = buffers_[static_cast<size_t>(step.dst)] + step.dst_offset + plan_->bytes(step.stored.form, first);
  }
  if (step.same_targets) {
    write(step.sent, std::array<void*, 2>{slot, dst});
    return;
  }
  // The slot first: in place, dst may be the memory of src.
  if (slot != nullptr) write(step.sent, std::array<void*, 1>{slot});
  if (dst != nullptr) write(step.stored, std::array<void*, 1>{dst});
}

bool CpuExecutor::is_expected(const ReceivedMessage& message, const PlanStep& step, Channel channel, size_t bytes) {
  if (message.tag == tag_ && message.bytes.size() == bytes) [[likely]]
    return true;
  const std::string peer = "rank " + std::to_string(step.peer);
  if (message.tag != tag_) {
    mismatch_ = TagMismatch{step.peer, tag_, message.tag};
    failure_ = Status(Code::kMismatch, peer + " is in operation " + hex(message.tag) + ", this rank in operation " + hex(tag_));
  } else {
    failure_ = Status(Code::kInternal, peer + " sent " + std::to_string(message.bytes.size()) + " bytes on channel " +
                                           std::to_string(channel) + " where step " + std::to_string(step.schedule_step) +
                                           " takes " + std::to_string(bytes));
  }
  return false;
}

CpuExecutor::Outcome CpuExecutor::fail(Status status) {
  failure_ = std::move(status);
  return Outcome::kFailed;
}

std::optional<BlockedStep> CpuExecutor::blocked() const {
  for (size_t channel = 0; channel < channels_.size(); ++channel) {
    for (const Cursor cursor : {Cursor::kOthers, Cursor::kSends}) {
      const CursorState& state = channels_[channel].cursors[static_cast<size_t>(cursor)];
      if (state.finished || (state.position == 0 && !may_begin(channels_[channel], cursor))) continue;
      const PlanStep& step = state.steps[state.next];
      const bool sending = state.waits_for_slot || step.peer == kNoRank;
      return BlockedStep{sending ? step.to : step.peer, sending, static_cast<Channel>(channel), step.schedule_step};
    }
  }
  return std::nullopt;
}

}  // namespace gimbal
