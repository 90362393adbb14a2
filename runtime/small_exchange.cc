#include "runtime/small_exchange.h"

#include <bit>
#include <cstring>

#include "base/relax.h"
#include "collectives/chunk_space.h"

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

SmallExchange::SmallExchange(NodeContext& context, const Call& call, const Signature& signature)
    : context_(context),
      call_(call),
      signature_(signature),
      epoch_(++context.small_epoch),
      expected_word_(pack_word(epoch_, hash_signature(signature))) {}

void SmallExchange::publish() {
  if (published_) return;
  published_ = true;
  SmallSlot& slot = context_.memory.small_slot(context_.rank, epoch_);
  slot.count.store(signature_.count, std::memory_order_relaxed);
  slot.kind_and_root.store(pack_kind_and_root(signature_), std::memory_order_relaxed);
  slot.weight.store(std::bit_cast<uint64_t>(call_.weight), std::memory_order_relaxed);
  if (call_.count > 0 && contributes(call_, context_.rank)) {
    std::memcpy(slot.payload, call_.send, call_.bytes());
  }
  slot.word.store(expected_word_, std::memory_order_release);  // pairs with the acquire in all_published(): payload before word
  if (call_.count > 0 && reduces(call_.collective)) prepare_reduction();
}

// What needs no peer's data is done while they are on their way.
void SmallExchange::prepare_reduction() {
  reduce_ = find_reduce(call_.dtype, call_.op);
  for (Rank rank = 0; rank < context_.nranks; ++rank) {
    context_.sources[static_cast<size_t>(rank)] = {context_.memory.small_slot(rank, epoch_).payload, Form::kElement, 1.0};
  }
  // Not the own slot: small_exchange.h says why.
  context_.sources[static_cast<size_t>(context_.rank)].data = call_.send;
}

// Ringing costs a fence, which waits until the stores above have reached the peers' caches. Peers are mostly there already, so
// that the fence is cheaper after the exchange than before it.
void SmallExchange::ring_once() {
  if (rung_) return;
  rung_ = true;
  context_.memory.ring_all();
}

Result<Progress> SmallExchange::progress() {
  publish();
  const uint32_t looks = rung_ ? 1 : context_.first_looks;
  for (uint32_t look = 0; look < looks; ++look) {
    if (!all_published()) {
      relax();
      continue;
    }
    Status status = finish();
    ring_once();
    if (!status.ok()) [[unlikely]]
      return status;
    return Progress::kDone;
  }
  ring_once();
  return next_is_other() ? Result<Progress>(mismatch_with_next()) : Progress::kAgain;
}

bool SmallExchange::all_published() {
  for (; next_ < context_.nranks; ++next_) {
    if (context_.memory.small_slot(next_, epoch_).word.load(std::memory_order_acquire) != expected_word_) return false;
  }
  return true;
}

// Whether the rank that is due has published this epoch, but for another call.
bool SmallExchange::next_is_other() const {
  const uint64_t word = context_.memory.small_slot(next_, epoch_).word.load(std::memory_order_acquire);
  return static_cast<uint32_t>(word >> 32) == epoch_ && word != expected_word_;
}

Status SmallExchange::mismatch_with_next() const {
  const SmallSlot& slot = context_.memory.small_slot(next_, epoch_);
  return mismatch(context_.members[static_cast<size_t>(context_.rank)], signature_,
                  context_.members[static_cast<size_t>(next_)],
                  unpack_signature(signature_.sequence, slot.count.load(std::memory_order_relaxed),
                                   slot.kind_and_root.load(std::memory_order_relaxed)));
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
    std::byte* const block = recv + static_cast<size_t>(rank) * bytes;
    if (rank != context_.rank) {
      std::memcpy(block, context_.memory.small_slot(rank, epoch_).payload, bytes);
    } else if (block != call_.send) {
      std::memcpy(block, call_.send, bytes);
    }
  }
  return {};
}

Status SmallExchange::finish_reduction() {
  if (call_.weighted) {
    for (Rank rank = 0; rank < context_.nranks; ++rank) {
      const uint64_t bits = context_.memory.small_slot(rank, epoch_).weight.load(std::memory_order_relaxed);
      context_.weights[static_cast<size_t>(rank)] = context_.sources[static_cast<size_t>(rank)].weight =
          std::bit_cast<double>(bits);
    }
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
