// The interpreter: one block for each channel carries out the channel's steps, slice by slice.
//
// Thread 0 looks for a slice that can go on (a message is there, a slot is free) on either cursor in turn, as the CPU executor
// does, and so never waits for one peer while another could be served. Then all threads of the block carry it out, and thread 0
// tells the ends of the links. Between these three, barriers.
//
// kPackets: the slice's payload passes through the block's shared memory, packed and unpacked there; what is computed is the
// same.
#pragma once

#include "kernels/cuda/link_end.h"
#include "kernels/cuda/plan_walk.h"
#include "kernels/cuda/reduce_range.h"
#include "kernels/cuda/watch.h"

namespace gimbal::device {

enum class Turn : uint32_t { kSlice, kDone, kFailed };

// What thread 0 found, for all threads.
struct Decision {
  Turn turn;
  Slice slice;
  const DeviceLink* incoming;  // null when the step receives nothing
  const DeviceLink* outgoing;
  std::byte* received;  // the slot that was read, the slot to be written
  std::byte* slot;
  uint32_t received_flag;  // kPackets
  uint32_t sent_flag;
};

class Finder {
 public:
  __device__ explicit Finder(const InterpreterArguments& arguments) : arguments_(arguments), walk_(arguments, blockIdx.x) {}

  __device__ void find(Decision& decision) {
    Wait wait(arguments_.watch);
    Trouble trouble;
    trouble.expected_tag = arguments_.tag;
    while (true) {
      if (walk_.is_finished()) {
        decision.turn = Turn::kDone;
        return;
      }
      for (uint32_t i = 0; i < kCursorCount; ++i) {
        cursor_ = (cursor_ + 1) % kCursorCount;
        if (!walk_.next(cursor_, &decision.slice) || !can_go_on(decision, trouble)) continue;
        decision.turn = is_expected(decision, trouble) ? Turn::kSlice : Turn::kFailed;
        if (decision.turn == Turn::kFailed) report(arguments_.watch, trouble);
        return;
      }
      const DeviceError error = wait.turn();
      if (error == DeviceError::kNone) continue;
      decision.turn = Turn::kFailed;
      trouble.error = error;
      if (error != DeviceError::kClaimed) report(arguments_.watch, trouble);
      return;
    }
  }

  // All threads are done with the slice.
  __device__ void pass(const Decision& decision) {
    if (decision.outgoing != nullptr) {
      if (arguments_.protocol == Protocol::kSimple) {
        publish_slot(*decision.outgoing, arguments_.tag, sent_bytes(decision));
      } else {
        ++*decision.outgoing->position;
      }
    }
    if (decision.incoming != nullptr) release_slot(*decision.incoming);
    walk_.pass(cursor_, decision.slice.count);
  }

 private:
  [[nodiscard]] __device__ size_t bytes(Form form, size_t count) const {
    return count * arguments_.form_bytes[static_cast<size_t>(form)];
  }
  [[nodiscard]] __device__ size_t sent_bytes(const Decision& decision) const {
    return bytes(decision.slice.step->sent.form, decision.slice.count);
  }

  __device__ bool can_go_on(Decision& decision, Trouble& trouble) {
    const PlanStep& step = *decision.slice.step;
    trouble.step = step.schedule_step;
    decision.incoming = nullptr;
    decision.outgoing = nullptr;
    if (step.peer != kNoRank) {
      const DeviceLink& link = arguments_.incoming[static_cast<size_t>(step.peer) * arguments_.channels + blockIdx.x];
      decision.received = slot_of(link, *link.position);
      decision.received_flag = packet_flag(*link.position);
      trouble.peer = step.peer;
      trouble.is_sending = false;
      if (!has_arrived(link, decision, trouble)) return false;
      decision.incoming = &link;
    }
    if (step.to != kNoRank) {
      const DeviceLink& link = arguments_.outgoing[static_cast<size_t>(step.to) * arguments_.channels + blockIdx.x];
      trouble.peer = step.to;
      trouble.is_sending = true;
      if (!has_room(link)) return false;
      decision.slot = slot_of(link, *link.position);
      decision.sent_flag = packet_flag(*link.position);
      decision.outgoing = &link;
    }
    return true;
  }

  // kPackets: the sender writes the tag first, when it has all that the message will hold; the rest is on its way.
  __device__ bool has_arrived(const DeviceLink& link, const Decision& decision, Trouble& trouble) {
    if (arguments_.protocol == Protocol::kSimple) return has_message(link);
    uint64_t tag = 0;
    if (!load_packet(reinterpret_cast<Packet*>(decision.received), decision.received_flag, &tag)) return false;
    trouble.received_tag = tag;
    return true;
  }

  __device__ bool is_expected(const Decision& decision, Trouble& trouble) {
    if (decision.incoming == nullptr) return true;
    bool expected = true;
    if (arguments_.protocol == Protocol::kSimple) {
      const SlotHeader header = header_of(*decision.incoming);
      trouble.received_tag = header.tag;
      expected = header.bytes == bytes(decision.slice.step->received_form, decision.slice.count);
    }
    expected &= trouble.received_tag == arguments_.tag;
    if (expected) return true;
    trouble.error = DeviceError::kMismatch;
    trouble.peer = decision.slice.step->peer;
    trouble.is_sending = false;
    return false;
  }

  const InterpreterArguments& arguments_;
  PlanWalk walk_;
  uint32_t cursor_ = 1;
};

struct alignas(16) Payload {
  uint64_t words[kMaxPacketPayload / kPacketPayload];
};

// Payload of a message between packets and the block's shared memory. The memory's last 8 bytes may be more than the payload.
__device__ inline bool unpack(std::byte* slot, uint32_t flag, size_t bytes, uint64_t* to, const Watch& watch, Rank peer) {
  auto* const packets = reinterpret_cast<Packet*>(slot) + 1;
  bool arrived = true;
  for (size_t i = threadIdx.x; i * kPacketPayload < bytes; i += blockDim.x)
    arrived &= receive_packet(packets + i, flag, watch, peer, to + i);
  return arrived;
}

__device__ inline void pack(std::byte* slot, uint32_t flag, size_t bytes, const uint64_t* from) {
  auto* const packets = reinterpret_cast<Packet*>(slot) + 1;
  for (size_t i = threadIdx.x; i * kPacketPayload < bytes; i += blockDim.x) store_packet(packets + i, from[i], flag);
}

// The step's arithmetic on one slice: what cpu_executor.cc's write_results does, by all threads.
template <class A>
__device__ void carry_out(const InterpreterArguments& arguments, const Slice& slice, const std::byte* received,
                          std::byte* slot) {
  const PlanStep& step = *slice.step;
  const auto bytes = [&](Form form, size_t count) { return count * arguments.form_bytes[static_cast<size_t>(form)]; };
  ReduceOperand sources[2];
  uint32_t source_count = 0;
  if (received != nullptr) {
    sources[source_count++] = {received, 1, step.received_form};
  } else if (step.op == Op::kReduce) {
    const std::byte* const scratch = arguments.buffers[static_cast<size_t>(BufferId::kScratch)];
    sources[source_count++] = {scratch + step.left_offset + bytes(Form::kPartial, slice.first), 1, Form::kPartial};
  }
  if (step.src != BufferId::kNone) {
    const std::byte* const src = arguments.buffers[static_cast<size_t>(step.src)] + step.src_offset;
    sources[source_count++] = {src + bytes(step.src_form, slice.first), step.src == BufferId::kInput ? arguments.weight : 1,
                               step.src_form};
  }
  void* destinations[2] = {slot, nullptr};
  if (step.dst != BufferId::kNone) {
    destinations[1] = arguments.buffers[static_cast<size_t>(step.dst)] + step.dst_offset + bytes(step.stored.form, slice.first);
  }
  // The slot first, by all threads: in place, dst may be the memory of src. One place that reduces, for the size of the code.
  const uint32_t first = step.same_targets || slot != nullptr ? 0 : 1;
  const uint32_t end = step.same_targets || destinations[1] == nullptr ? 1 : 2;
  for (uint32_t i = first; i < end; ++i) {
    if (i > first) __syncthreads();
    const PlanTarget& target = i == 0 ? step.sent : step.stored;
    const uint32_t destination_count = step.same_targets ? 2 : 1;
    if (!target.is_copy) {
      const Reducer<A> reducer{A(arguments.op, target.divides ? arguments.divisor : 1),
                               {sources, destinations + i, source_count, destination_count, target.form}};
      reducer.run(slice.count, block_team());
      continue;
    }
    for (uint32_t k = i; k < i + destination_count; ++k) {
      if (destinations[k] == sources[0].data) continue;
      copy_range(destinations[k], sources[0].data, bytes(target.form, slice.count), block_team());
    }
  }
}

template <class A>
__device__ void carry_out_message(const InterpreterArguments& arguments, const Decision& decision) {
  if (arguments.protocol == Protocol::kSimple) {
    carry_out<A>(arguments, decision.slice, decision.incoming != nullptr ? decision.received : nullptr,
                 decision.outgoing != nullptr ? decision.slot : nullptr);
  } else {
    __shared__ Payload received;
    __shared__ Payload sent;
    const Slice& slice = decision.slice;
    const auto bytes = [&](Form form) { return slice.count * arguments.form_bytes[static_cast<size_t>(form)]; };
    if (decision.outgoing != nullptr && threadIdx.x == 0) {
      store_packet(reinterpret_cast<Packet*>(decision.slot), arguments.tag, decision.sent_flag);
    }
    if (decision.incoming != nullptr) {
      // Who did not get a packet has reported; the others must not be left at a barrier, and the step's result does not matter.
      unpack(decision.received, decision.received_flag, bytes(slice.step->received_form), received.words, arguments.watch,
             slice.step->peer);
      __syncthreads();
    }
    carry_out<A>(arguments, slice, decision.incoming != nullptr ? reinterpret_cast<const std::byte*>(received.words) : nullptr,
                 decision.outgoing != nullptr ? reinterpret_cast<std::byte*>(sent.words) : nullptr);
    if (decision.outgoing == nullptr) return;
    __syncthreads();
    pack(decision.slot, decision.sent_flag, bytes(slice.step->sent.form), sent.words);
  }
}

template <class A>
__global__ void __launch_bounds__(kMaxThreads, 1) interpreter_kernel(const __grid_constant__ InterpreterArguments arguments) {
  __shared__ Decision decision;
  Finder finder(arguments);
  if (__syncthreads_or(has_failed(arguments.watch) ? 1 : 0) != 0) return;
  while (true) {
    if (threadIdx.x == 0) finder.find(decision);
    __syncthreads();
    if (decision.turn != Turn::kSlice) return;
    carry_out_message<A>(arguments, decision);
    __syncthreads();
    if (threadIdx.x == 0) finder.pass(decision);
  }
}

}  // namespace gimbal::device
