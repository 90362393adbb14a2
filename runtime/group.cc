#include "runtime/group.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace gimbal {
namespace {

// Packing copies every element twice more; above this size a message's fixed cost no longer matters.
constexpr size_t kFusedPartBytes = size_t{64} << 10;
constexpr size_t kFusedBytes = size_t{4} << 20;
constexpr size_t kKeptBytes = size_t{256} << 10;  // from one group of this thread to the next

bool can_be_fused(const Call& call) {
  return call.collective == Collective::kAllReduce && !call.weighted && call.count > 0 && call.bytes() <= kFusedPartBytes;
}

}  // namespace

void Group::add(std::shared_ptr<Communicator> communicator, const Call& call, Started started) {
  const auto ranks = static_cast<size_t>(communicator->size());
  entries_.push_back({std::move(communicator), OwnedCall(call, ranks), std::move(started)});
}

Status Group::launch() {
  struct Emptying {  // also when memory for a request cannot be had
    Group& group;
    ~Emptying() { group.empty(); }
  };
  const Emptying emptying{*this};
  return launch_entries();
}

void Group::empty() {
  entries_.clear();
  if (packed_bytes_ <= kKeptBytes) return;
  packed_.reset();
  packed_bytes_ = 0;
}

Status Group::launch_entries() {
  for (const Entry& entry : entries_) RETURN_IF_ERROR(entry.communicator->check_usable());
  const Status status = enqueue_on_devices();
  const Status rest = runs_on_this_thread() ? run_here() : start_all();
  return status.ok() ? rest : status;
}

Status Group::enqueue_on_devices() {
  const auto is_on_host = [](const Entry& entry) { return !entry.call.get().on_device; };
  if (std::all_of(entries_.begin(), entries_.end(), is_on_host)) return {};
  const auto first = std::stable_partition(entries_.begin(), entries_.end(), is_on_host);
  std::vector<Entry> entries(std::make_move_iterator(first), std::make_move_iterator(entries_.end()));
  entries_.erase(first, entries_.end());
  std::vector<OnDevice> calls;
  calls.reserve(entries.size());
  for (Entry& entry : entries) RETURN_IF_ERROR(begin_on_device(entry, calls));
  for (bool all_enqueued = false; !all_enqueued;) {
    all_enqueued = true;
    for (const OnDevice& one : calls) {
      if (one.call->is_enqueued()) continue;
      ASSIGN_OR_RETURN(const CurrentDevice current, one.operations->use_device());
      if (const Status status = one.call->advance(); !status.ok()) return one.entry->communicator->fail(status, nullptr);
      all_enqueued = one.call->is_enqueued() && all_enqueued;
    }
  }
  for (const OnDevice& one : calls) {
    if (one.entry->started) RETURN_IF_ERROR(one.entry->started(one.call->request()));
  }
  return {};
}

Status Group::begin_on_device(Entry& entry, std::vector<OnDevice>& calls) {
  const Call& call = entry.call.get();
  if (entry.communicator->size() == 1) {
    ASSIGN_OR_RETURN(std::shared_ptr<Request> request, entry.communicator->start(call));
    return entry.started ? entry.started(std::move(request)) : Status();
  }
  DeviceOperations& operations = entry.communicator->device_operations(call.device);
  ASSIGN_OR_RETURN(const CurrentDevice current, operations.use_device());
  ASSIGN_OR_RETURN(std::unique_ptr<EnqueuedCall> begun, operations.begin(call, entry.started != nullptr));
  calls.push_back({&entry, &operations, std::move(begun)});
  return {};
}

bool Group::runs_on_this_thread() const {
  return std::all_of(entries_.begin(), entries_.end(), [this](const Entry& entry) {
    return entry.communicator == entries_.front().communicator && !entry.started && !is_message(entry.call.get().collective);
  });
}

Status Group::run_here() {
  Status first;
  for (size_t begin = 0; begin < entries_.size();) {
    const size_t end = end_of_fusion(begin);
    Communicator& communicator = *entries_[begin].communicator;
    Status status = end - begin > 1 ? run_fused(begin, end) : communicator.run(entries_[begin].call.get());
    if (first.ok()) first = std::move(status);
    begin = end;
  }
  return first;
}

// One past the last entry that can be fused with entry `begin`.
size_t Group::end_of_fusion(size_t begin) const {
  const Call& head = entries_[begin].call.get();
  if (!can_be_fused(head)) return begin + 1;
  size_t bytes = 0;
  size_t end = begin;
  for (; end < entries_.size(); ++end) {
    const Call& call = entries_[end].call.get();
    if (!can_be_fused(call) || call.dtype != head.dtype || call.op != head.op || bytes + call.bytes() > kFusedBytes) break;
    bytes += call.bytes();
  }
  return std::max(end, begin + 1);
}

std::byte* Group::packed_memory(size_t bytes) {
  if (bytes > packed_bytes_) {
    packed_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    packed_bytes_ = bytes;
  }
  return packed_.get();
}

Status Group::run_fused(size_t begin, size_t end) {
  Call fused = entries_[begin].call.get();
  fused.count = 0;
  uint32_t hash = 2166136261U;  // FNV-1a over the parts' counts
  for (size_t i = begin; i < end; ++i) {
    const size_t count = entries_[i].call.get().count;
    fused.count += count;
    hash = (hash ^ static_cast<uint32_t>(count)) * 16777619U;
  }
  fused.parts_hash = hash | 1;
  std::byte* const packed = packed_memory(fused.bytes());
  size_t at = 0;
  for (size_t i = begin; i < end; ++i) {
    const Call& part = entries_[i].call.get();
    std::memcpy(packed + at, part.send, part.bytes());
    at += part.bytes();
  }
  fused.send = packed;
  fused.recv = packed;
  RETURN_IF_ERROR(entries_[begin].communicator->run(fused));
  at = 0;
  for (size_t i = begin; i < end; ++i) {
    const Call& part = entries_[i].call.get();
    std::memcpy(part.recv, packed + at, part.bytes());
    at += part.bytes();
  }
  return {};
}

Status Group::start_all() {
  std::vector<Awaited> awaited;
  Status first;
  for (const Entry& entry : entries_) {
    Result<std::shared_ptr<Request>> request = entry.communicator->started().start(entry.call.get());
    Status status = request.status();
    if (request.ok() && entry.started) status = entry.started(*request);
    if (request.ok() && !entry.started) awaited.push_back({entry.communicator.get(), *request});
    if (first.ok()) first = std::move(status);
  }
  wait_for_all(awaited);
  for (const Awaited& one : awaited) {
    if (first.ok()) first = one.request->status();
  }
  return first;
}

void Group::wait_for_all(const std::vector<Awaited>& awaited) {
  // Operations that only the caller drives move when they are looked at: while this rank waits for one, a peer may wait for
  // another communicator's, so all take turns.
  for (bool all_done = false; !all_done;) {
    all_done = true;
    for (const Awaited& one : awaited) {
      if (one.communicator->settings().caller_progress) all_done = one.communicator->started().test(*one.request) && all_done;
    }
    if (!all_done) sched_yield();
  }
  for (const Awaited& one : awaited) one.communicator->started().wait(*one.request);
}

}  // namespace gimbal
