#include "runtime/staged_exchange.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace gimbal {
namespace {

bool stages_in_blocks(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllToAll || collective == Collective::kScatter;
}

bool only_root_contributes(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kScatter;
}

bool only_root_receives(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kGather;
}

}  // namespace

bool StagedExchange::serves(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return true;
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return false;
  }
  return false;
}

StagedExchange::StagedExchange(NodeContext& context, const Call& call, const Signature& signature, ReduceFunction reduce,
                               const StagedChoice& choice)
    : context_(context),
      call_(call),
      signature_(signature),
      hash_(hash_signature(signature)),
      reduce_(reduce),
      choice_(choice),
      element_bytes_(call.element_bytes()),
      in_blocks_(stages_in_blocks(call.collective)) {
  const size_t pieces = in_blocks_ ? static_cast<size_t>(context.nranks) : 1;
  chunk_elements_ = std::max<size_t>(1, choice.chunk_bytes / element_bytes_ / pieces);
  chunk_count_ = static_cast<uint32_t>((call.count + chunk_elements_ - 1) / chunk_elements_);
  first_epoch_ = context.stage_epoch + 1;
  context.stage_epoch += chunk_count_;
}

StagedExchange::Range StagedExchange::chunk(uint32_t index) const {
  const size_t begin = index * chunk_elements_;
  return {begin, std::min(begin + chunk_elements_, call_.count)};
}

StagedExchange::Range StagedExchange::slice(Range chunk, Rank rank) const {
  // Whole lines, so that two owners never write one line.
  const size_t line = std::max<size_t>(1, 64 / element_bytes_);
  const auto ranks = static_cast<size_t>(context_.nranks);
  const size_t lines = (chunk.size() + line - 1) / line;
  const auto bound = [&](size_t r) { return std::min(chunk.begin + lines * r / ranks * line, chunk.end); };
  return {bound(static_cast<size_t>(rank)), bound(static_cast<size_t>(rank) + 1)};
}

const std::byte* StagedExchange::send_at(size_t element) const {
  return static_cast<const std::byte*>(call_.send) + element * element_bytes_;
}

std::byte* StagedExchange::recv_at(size_t element) const {
  return static_cast<std::byte*>(call_.recv) + element * element_bytes_;
}

Result<bool> StagedExchange::all_staged(uint32_t index) {
  const uint32_t epoch = first_epoch_ + index;
  for (; next_staged_ < context_.nranks; ++next_staged_) {
    const StageFlag& flag = context_.memory.control(next_staged_).staged[epoch % kStageSlots];
    const uint64_t word = flag.word.load(std::memory_order_acquire);
    if (word == pack_word(epoch, hash_)) continue;
    waiting_for_ = next_staged_;
    if (static_cast<uint32_t>(word >> 32) != epoch) return false;
    return mismatch(context_.members[static_cast<size_t>(context_.rank)], signature_,
                    context_.members[static_cast<size_t>(next_staged_)],
                    unpack_signature(signature_.sequence, flag.count.load(std::memory_order_relaxed),
                                     flag.kind_and_root.load(std::memory_order_relaxed)));
  }
  next_staged_ = 0;
  return true;
}

bool StagedExchange::all_reduced(uint32_t index) {
  for (; next_reduced_ < context_.nranks; ++next_reduced_) {
    if (!has_reached(context_.memory.control(next_reduced_).reduced, first_epoch_ + index)) {
      waiting_for_ = next_reduced_;
      return false;
    }
  }
  next_reduced_ = 0;
  return true;
}

void StagedExchange::publish_stage(uint32_t index) {
  const uint32_t epoch = first_epoch_ + index;
  StageFlag& flag = context_.memory.control(context_.rank).staged[epoch % kStageSlots];
  flag.count.store(signature_.count, std::memory_order_relaxed);
  flag.kind_and_root.store(pack_kind_and_root(signature_), std::memory_order_relaxed);
  flag.weight.store(std::bit_cast<uint64_t>(call_.weight), std::memory_order_relaxed);
  flag.word.store(pack_word(epoch, hash_), std::memory_order_release);  // pairs with the acquire in all_staged(): bytes first
  unrung_ = true;
}

// Before this rank stops moving: a fence here is cheap, right after a chunk's stores it is not.
void StagedExchange::ring_if_needed() {
  if (!unrung_) return;
  unrung_ = false;
  context_.memory.ring_all();
}

Result<Progress> StagedExchange::progress() {
  while (true) {
    while (staged_ < chunk_count_ && staged_ - finished_ < kAhead) stage(staged_++);
    if (finished_ == chunk_count_) break;
    ASSIGN_OR_RETURN(const bool advanced, choice_.two_shot ? advance_two_shot() : advance_one_shot());
    if (!advanced) {
      ring_if_needed();
      return Progress::kAgain;
    }
  }
  ring_if_needed();
  return Progress::kDone;
}

Result<bool> StagedExchange::advance_one_shot() {
  ASSIGN_OR_RETURN(const bool staged, all_staged(finished_));
  if (!staged) return false;
  if (!has_weights_) RETURN_IF_ERROR(read_weights());
  read(finished_++);
  return true;
}

Result<bool> StagedExchange::advance_two_shot() {
  // Reduce first: peers wait for it.
  if (reduced_ < staged_) {
    ASSIGN_OR_RETURN(const bool staged, all_staged(reduced_));
    if (staged) {
      if (!has_weights_) RETURN_IF_ERROR(read_weights());
      reduce_slice(reduced_++);
      return true;
    }
  }
  if (finished_ == reduced_ || !all_reduced(finished_)) return false;
  copy_slices(finished_++);
  return true;
}

Status StagedExchange::read_weights() {
  has_weights_ = true;
  if (reduce_ == nullptr) return {};
  for (Rank rank = 0; call_.weighted && rank < context_.nranks; ++rank) {
    const StageFlag& flag = context_.memory.control(rank).staged[first_epoch_ % kStageSlots];
    context_.weights[static_cast<size_t>(rank)] = std::bit_cast<double>(flag.weight.load(std::memory_order_relaxed));
  }
  ASSIGN_OR_RETURN(divisor_, final_divisor(context_, call_.op, call_.normalize));
  return {};
}

void StagedExchange::stage(uint32_t index) {
  if (!only_root_contributes(call_.collective) || context_.rank == call_.root) {
    const Range range = chunk(index);
    // What only this rank will read stays where it is.
    if (in_blocks_) {
      for (Rank peer = 0; peer < context_.nranks; ++peer) {
        const auto block = static_cast<size_t>(peer);
        if (peer != context_.rank) {
          stage_piece(index, block * call_.count + range.begin, block * chunk_elements_, range.size());
        }
      }
    } else if (choice_.two_shot) {
      const Range own = slice(range, context_.rank);
      stage_piece(index, range.begin, 0, own.begin - range.begin);
      stage_piece(index, own.end, own.end - range.begin, range.end - own.end);
    } else {
      stage_piece(index, range.begin, 0, range.size());
    }
  }
  publish_stage(index);
}

void StagedExchange::stage_piece(uint32_t index, size_t send_element, size_t stage_element, size_t elements) {
  std::byte* const slot = context_.memory.stage(context_.rank, first_epoch_ + index);
  copy_bytes(slot + stage_element * element_bytes_, send_at(send_element), elements * element_bytes_, choice_.stage_store);
}

// One shot: everything that this rank gets of the chunk.
void StagedExchange::read(uint32_t index) {
  if (only_root_receives(call_.collective) && context_.rank != call_.root) return;
  const Range range = chunk(index);
  if (reduce_ != nullptr) {
    reduce_range(index, range, 0, nullptr);
  } else if (only_root_contributes(call_.collective)) {
    copy_from(call_.root, index, range.begin);
  } else {
    for (Rank step = 0; step < context_.nranks; ++step) {
      // Begin with the neighbour, so that not all ranks read one rank's stage at once.
      const Rank peer = (context_.rank + step) % context_.nranks;
      copy_from(peer, index, static_cast<size_t>(peer) * call_.count + range.begin);
    }
  }
}

void StagedExchange::copy_from(Rank peer, uint32_t index, size_t recv_element) {
  const Range range = chunk(index);
  const size_t block = in_blocks_ ? static_cast<size_t>(context_.rank) : 0;
  const std::byte* source = context_.memory.stage(peer, first_epoch_ + index) + block * chunk_elements_ * element_bytes_;
  if (peer == context_.rank) source = send_at(block * call_.count + range.begin);
  if (source != recv_at(recv_element)) {
    copy_bytes(recv_at(recv_element), source, range.size() * element_bytes_, choice_.output_store);
  }
}

// Reduces elements [range) of the unit vector into recv and, where given, a second place. In every stage slot they begin at
// stage_element of the piece for this rank.
void StagedExchange::reduce_range(uint32_t index, Range range, size_t stage_element, std::byte* second_output) {
  const size_t block = in_blocks_ ? static_cast<size_t>(context_.rank) : 0;
  const size_t offset = (block * chunk_elements_ + stage_element) * element_bytes_;
  for (Rank rank = 0; rank < context_.nranks; ++rank) {
    const double weight = call_.weighted ? context_.weights[static_cast<size_t>(rank)] : 1.0;
    const std::byte* source = context_.memory.stage(rank, first_epoch_ + index) + offset;
    if (rank == context_.rank) source = send_at(block * call_.count + range.begin);
    context_.sources[static_cast<size_t>(rank)] = {source, Form::kElement, weight};
  }
  // Those that are streamed come first. The result slot before the output: it begins a line, and the output may not.
  std::array<void*, 2> destinations = {recv_at(range.begin), second_output};
  const size_t destination_count = second_output == nullptr ? 1 : 2;
  size_t streamed = choice_.output_store == StoreMode::kStreaming ? 1 : 0;
  if (destination_count == 2 && choice_.result_store == StoreMode::kStreaming) {
    ++streamed;
    std::swap(destinations[0], destinations[1]);
  }
  ReduceArguments arguments;
  arguments.sources = context_.sources;
  arguments.destinations = {destinations.data(), destination_count};
  arguments.count = range.size();
  arguments.order = context_.order;
  arguments.store = streamed > 0 ? StoreMode::kStreaming : StoreMode::kCached;
  arguments.cached_destinations = destination_count - streamed;
  arguments.divisor = divisor_;
  reduce_(arguments);
}

void StagedExchange::reduce_slice(uint32_t index) {
  const Range range = chunk(index);
  const Range own = slice(range, context_.rank);
  if (own.size() > 0) {
    reduce_range(index, own, own.begin - range.begin, context_.memory.result(context_.rank, first_epoch_ + index));
  }
  // Pairs with the acquire in has_reached(): results before the counter.
  context_.memory.control(context_.rank).reduced.store(first_epoch_ + index, std::memory_order_release);
  unrung_ = true;
}

void StagedExchange::copy_slices(uint32_t index) {
  const Range range = chunk(index);
  for (Rank step = 1; step < context_.nranks; ++step) {
    const Rank peer = (context_.rank + step) % context_.nranks;
    const Range theirs = slice(range, peer);
    copy_bytes(recv_at(theirs.begin), context_.memory.result(peer, first_epoch_ + index), theirs.size() * element_bytes_,
               choice_.output_store);
  }
}

}  // namespace gimbal
