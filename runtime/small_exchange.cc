#include "runtime/small_exchange.h"

#include <bit>
#include <cstring>

namespace gimbal {
namespace {

bool contributes(const Call& call, Rank rank) { return call.collective != Collective::kBroadcast || rank == call.root; }

bool receives(const Call& call, Rank rank) {
  const bool rooted = call.collective == Collective::kReduce || call.collective == Collective::kGather;
  return !rooted || rank == call.root;
}

}  // namespace

bool SmallExchange::serves(const Call& call) {
  switch (call.collective) {
    case Collective::kBarrier:
      return true;
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kBroadcast:
      return call.bytes() <= SmallSlot::kPayloadBytes;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kScatter:
      // Without elements it still synchronises, so that signatures are checked.
      return call.count == 0;
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return false;
  }
  return false;
}

SmallExchange::SmallExchange(NodeContext& context, const Call& call, const Signature& signature, ReduceFunction reduce)
    : context_(context),
      call_(call),
      signature_(signature),
      reduce_(reduce),
      epoch_(++context.small_epoch),
      expected_word_(pack_word(epoch_, hash_signature(signature))) {}

void SmallExchange::publish() {
  SmallSlot& slot = context_.memory.small_slot(context_.rank, epoch_);
  slot.count.store(signature_.count, std::memory_order_relaxed);
  slot.kind_and_root.store(pack_kind_and_root(signature_), std::memory_order_relaxed);
  slot.weight.store(std::bit_cast<uint64_t>(call_.weight), std::memory_order_relaxed);
  if (call_.count > 0 && contributes(call_, context_.rank)) {
    std::memcpy(slot.payload, call_.send, call_.bytes());
  }
  slot.word.store(expected_word_, std::memory_order_release);  // pairs with the acquire in look(): payload before word
  published_ = true;
}

// Ringing costs a fence, which waits until the stores above have reached the peers' caches. Peers are mostly there already, so
// that the fence is cheaper after the exchange than before it.
void SmallExchange::ring_once() {
  if (rung_) return;
  rung_ = true;
  context_.memory.ring_all();
}

Result<Progress> SmallExchange::progress() {
  if (!published_) publish();
  const uint32_t looks = rung_ ? 1 : context_.first_looks;
  for (uint32_t look = 0; look < looks; ++look) {
    ASSIGN_OR_RETURN(const bool complete, all_published());
    if (!complete) continue;
    Status status = finish();
    ring_once();
    // Take the next epoch's line back from the peers, who have read it: they have entered this epoch.
    __builtin_prefetch(&context_.memory.small_slot(context_.rank, epoch_ + 1), 1);
    if (!status.ok()) return status;
    return Progress::kDone;
  }
  ring_once();
  return Progress::kAgain;
}

Result<bool> SmallExchange::all_published() {
  for (; next_ < context_.nranks; ++next_) {
    const SmallSlot& slot = context_.memory.small_slot(next_, epoch_);
    const uint64_t word = slot.word.load(std::memory_order_acquire);
    if (word == expected_word_) [[likely]]
      continue;
    if (static_cast<uint32_t>(word >> 32) != epoch_) return false;
    return mismatch(context_.members[static_cast<size_t>(context_.rank)], signature_,
                    context_.members[static_cast<size_t>(next_)],
                    unpack_signature(signature_.sequence, slot.count.load(std::memory_order_relaxed),
                                     slot.kind_and_root.load(std::memory_order_relaxed)));
  }
  return true;
}

Status SmallExchange::finish() {
  if (call_.count == 0 || !receives(call_, context_.rank)) return {};
  if (reduce_ != nullptr) return finish_reduction();
  const size_t bytes = call_.bytes();
  auto* const recv = static_cast<std::byte*>(call_.recv);
  if (call_.collective == Collective::kBroadcast) {
    if (context_.rank != call_.root) std::memcpy(recv, context_.memory.small_slot(call_.root, epoch_).payload, bytes);
    return {};
  }
  for (Rank rank = 0; rank < context_.nranks; ++rank) {
    std::memcpy(recv + static_cast<size_t>(rank) * bytes, context_.memory.small_slot(rank, epoch_).payload, bytes);
  }
  return {};
}

Status SmallExchange::finish_reduction() {
  for (Rank rank = 0; rank < context_.nranks; ++rank) {
    const SmallSlot& slot = context_.memory.small_slot(rank, epoch_);
    const double weight = call_.weighted ? std::bit_cast<double>(slot.weight.load(std::memory_order_relaxed)) : 1.0;
    context_.sources[static_cast<size_t>(rank)] = {slot.payload, Form::kElement, weight};
    context_.weights[static_cast<size_t>(rank)] = weight;
  }
  ReduceArguments arguments;
  arguments.sources = context_.sources;
  void* const destination = call_.recv;
  arguments.destinations = {&destination, 1};
  arguments.count = call_.count;
  arguments.order = context_.order;
  ASSIGN_OR_RETURN(arguments.divisor, final_divisor(context_, call_.op, call_.normalize));
  reduce_(arguments);
  return {};
}

}  // namespace gimbal
