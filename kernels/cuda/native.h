// Native all-reduces of one kernel: nothing but data with flags goes from rank to rank, and nobody waits at the end.
//
//   one-shot   every rank sends its whole input to all, and adds what it gets: n - 1 messages, one hop
//   two-shot   rank d adds slice d of all and sends the sum to all: two hops, 2 (n - 1) / n of the input
//
// Packet memory has two halves, used in turn. In each: one packet for each rank with the operation's tag, then the areas that
// the ranks write. A rank returns only when it has every rank's tag packet of this operation, so all have begun it, so all have
// read what the operation before had sent; two operations later the half may be written again without asking.
//
// The flag is the number of the operation (DeviceState::epoch), which lives in device memory: a captured launch is replayed.
#pragma once

#include "kernels/cuda/reduce_range.h"
#include "kernels/cuda/watch.h"

namespace gimbal::device {

// One launch's view of the packet memory.
class NativeMemory {
 public:
  __device__ explicit NativeMemory(const NativeArguments& arguments)
      : arguments_(arguments),
        epoch_(SharedWord<uint32_t>(arguments.watch.state->epoch).load(memory_order_relaxed) + 1),
        flag_(epoch_ == 0 ? 1 : epoch_) {}

  [[nodiscard]] __device__ uint32_t flag() const { return flag_; }
  // Where `from` leaves packets for `at`.
  [[nodiscard]] __device__ Packet* tag(Rank at, Rank from) const { return half(at) + from; }
  [[nodiscard]] __device__ Packet* area(Rank at, size_t packets_before) const {
    return half(at) + arguments_.nranks + packets_before;
  }

  // The rank's tag to all others, and theirs. By one block; false when one differs or does not come.
  __device__ bool exchange_tags() const {
    const auto first = static_cast<Rank>(threadIdx.x);
    const auto step = static_cast<Rank>(blockDim.x);
    for (Rank peer = first; peer < arguments_.nranks; peer += step) {
      if (peer != arguments_.rank) store_packet(tag(peer, arguments_.rank), arguments_.tag, flag_);
    }
    bool right = true;
    for (Rank peer = first; peer < arguments_.nranks; peer += step) {
      if (peer != arguments_.rank) right &= receive_tag(peer);
    }
    return right;
  }

  // The last block to leave ends the operation: the next launch of the stream reads the new number.
  __device__ void leave() const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    DeviceState& state = *arguments_.watch.state;
    const uint32_t left = SharedWord<uint32_t>(state.left).fetch_add(1, memory_order_acq_rel) + 1;
    if (left != gridDim.x) return;
    SharedWord<uint32_t>(state.left).store(0, memory_order_relaxed);
    SharedWord<uint32_t>(state.epoch).store(epoch_, memory_order_release);
  }

 private:
  __device__ bool receive_tag(Rank peer) const {
    uint64_t received = 0;
    if (!receive_packet(tag(arguments_.rank, peer), flag_, arguments_.watch, peer, &received)) return false;
    if (received == arguments_.tag) return true;
    Trouble trouble;
    trouble.error = DeviceError::kMismatch;
    trouble.peer = peer;
    trouble.expected_tag = arguments_.tag;
    trouble.received_tag = received;
    report(arguments_.watch, trouble);
    return false;
  }

  [[nodiscard]] __device__ Packet* half(Rank at) const {
    std::byte* const packets = arguments_.packets[static_cast<size_t>(at)];
    return reinterpret_cast<Packet*>(packets + epoch_ % 2 * arguments_.half_bytes);
  }

  const NativeArguments& arguments_;
  uint32_t epoch_;
  uint32_t flag_;
};

// Elements of one packet.
template <class A>
struct PacketLanes {
  using Element = typename A::Element;
  using Value = typename A::Value;
  static constexpr size_t kLanes = kPacketPayload / sizeof(Element);

  // The end of an array may be within a packet: the rest is 0, and is not stored.
  static __device__ __forceinline__ uint64_t load(const void* array, size_t packet, size_t count) {
    const auto* const elements = static_cast<const Element*>(array) + packet * kLanes;
    const size_t left = count - packet * kLanes;
    if (left >= kLanes && reinterpret_cast<uintptr_t>(elements) % kPacketPayload == 0) {
      return *reinterpret_cast<const uint64_t*>(elements);
    }
    Element lanes[kLanes]{};
#pragma unroll
    for (size_t i = 0; i < kLanes; ++i) {
      if (i < left) lanes[i] = elements[i];
    }
    uint64_t data;
    memcpy(&data, lanes, sizeof(data));
    return data;
  }

  static __device__ __forceinline__ void store(void* array, size_t packet, size_t count, uint64_t data) {
    auto* const elements = static_cast<Element*>(array) + packet * kLanes;
    const size_t left = count - packet * kLanes;
    if (left >= kLanes && reinterpret_cast<uintptr_t>(elements) % kPacketPayload == 0) {
      *reinterpret_cast<uint64_t*>(elements) = data;
      return;
    }
    Element lanes[kLanes];
    memcpy(lanes, &data, sizeof(data));
#pragma unroll
    for (size_t i = 0; i < kLanes; ++i) {
      if (i < left) elements[i] = lanes[i];
    }
  }

  __device__ __forceinline__ void add(const A& arithmetic, uint64_t data, bool is_first) {
    Element lanes[kLanes];
    memcpy(lanes, &data, sizeof(data));
#pragma unroll
    for (size_t i = 0; i < kLanes; ++i) {
      const Value operand = arithmetic.load(lanes[i]);
      sums[i] = is_first ? operand : arithmetic.combine(sums[i], operand);
    }
  }

  __device__ __forceinline__ uint64_t round(const A& arithmetic) const {
    Element lanes[kLanes];
#pragma unroll
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = arithmetic.store(sums[i]);
    uint64_t data;
    memcpy(&data, lanes, sizeof(data));
    return data;
  }

  Value sums[kLanes]{};
};

// The sum over all ranks, in rank order, of what they left for this rank at area(rank, r * stride + place).
template <class A>
__device__ __forceinline__ bool add_all(const NativeArguments& arguments, const NativeMemory& memory, const A& arithmetic,
                                        size_t stride, size_t place, uint64_t own, uint64_t* sum) {
  PacketLanes<A> lanes;
  for (Rank r = 0; r < arguments.nranks; ++r) {
    uint64_t data = own;
    Packet* const packet = memory.area(arguments.rank, static_cast<size_t>(r) * stride + place);
    if (r != arguments.rank && !receive_packet(packet, memory.flag(), arguments.watch, r, &data)) return false;
    lanes.add(arithmetic, data, r == 0);
  }
  *sum = lanes.round(arithmetic);
  return true;
}

template <class A>
__global__ void __launch_bounds__(kMaxThreads, 1) one_shot_kernel(const __grid_constant__ NativeArguments arguments) {
  if (__syncthreads_or(has_failed(arguments.watch) ? 1 : 0) != 0) return;
  const NativeMemory memory(arguments);
  const A arithmetic(arguments.op, arguments.divisor);
  const Team team = grid_team();
  const size_t packets = packet_count(arguments.count * sizeof(typename A::Element));
  const auto area_before = static_cast<size_t>(arguments.rank) * packets;
  for (size_t i = team.rank; i < packets; i += team.size) {
    const uint64_t own = PacketLanes<A>::load(arguments.input, i, arguments.count);
    // Each rank begins with its successor, so that not all write to one at a time.
    for (Rank hop = 1; hop < arguments.nranks; ++hop) {
      const Rank peer = (arguments.rank + hop) % arguments.nranks;
      store_packet(memory.area(peer, area_before + i), own, memory.flag());
    }
  }
  bool arrived = blockIdx.x != 0 || memory.exchange_tags();
  for (size_t i = team.rank; arrived && i < packets; i += team.size) {
    // In place, the output's packet is the input's: it is read before it is written, by the same thread.
    const uint64_t own = PacketLanes<A>::load(arguments.input, i, arguments.count);
    uint64_t sum = 0;
    arrived = add_all(arguments, memory, arithmetic, packets, i, own, &sum);
    if (arrived) PacketLanes<A>::store(arguments.output, i, arguments.count, sum);
  }
  memory.leave();
}

// Slice d is packets [d * per_rank, ...) of the vector. Areas: n slices of raw packets, then n of sums.
template <class A>
__global__ void __launch_bounds__(kMaxThreads, 1) two_shot_kernel(const __grid_constant__ NativeArguments arguments) {
  if (__syncthreads_or(has_failed(arguments.watch) ? 1 : 0) != 0) return;
  const NativeMemory memory(arguments);
  const A arithmetic(arguments.op, arguments.divisor);
  const Team team = grid_team();
  const auto nranks = static_cast<size_t>(arguments.nranks);
  const auto rank = static_cast<size_t>(arguments.rank);
  const size_t packets = packet_count(arguments.count * sizeof(typename A::Element));
  const size_t per_rank = (packets + nranks - 1) / nranks;
  const auto size_of = [&](size_t owner) {
    const size_t first = owner * per_rank;
    return first >= packets ? 0 : packets - first < per_rank ? packets - first : per_rank;
  };
  for (size_t hop = 1; hop < nranks; ++hop) {
    const size_t owner = (rank + hop) % nranks;
    for (size_t i = team.rank; i < size_of(owner); i += team.size) {
      const uint64_t raw = PacketLanes<A>::load(arguments.input, owner * per_rank + i, arguments.count);
      store_packet(memory.area(static_cast<Rank>(owner), rank * per_rank + i), raw, memory.flag());
    }
  }
  bool arrived = blockIdx.x != 0 || memory.exchange_tags();
  for (size_t i = team.rank; arrived && i < size_of(rank); i += team.size) {
    const size_t place = rank * per_rank + i;
    uint64_t sum = 0;
    arrived = add_all(arguments, memory, arithmetic, per_rank, i, PacketLanes<A>::load(arguments.input, place, arguments.count),
                      &sum);
    if (!arrived) break;
    for (size_t hop = 1; hop < nranks; ++hop) {
      const auto peer = static_cast<Rank>((rank + hop) % nranks);
      store_packet(memory.area(peer, nranks * per_rank + place), sum, memory.flag());
    }
    PacketLanes<A>::store(arguments.output, place, arguments.count, sum);
  }
  for (size_t hop = 1; arrived && hop < nranks; ++hop) {
    const size_t owner = (rank + hop) % nranks;
    for (size_t i = team.rank; arrived && i < size_of(owner); i += team.size) {
      const size_t place = owner * per_rank + i;
      uint64_t sum = 0;
      arrived = receive_packet(memory.area(arguments.rank, nranks * per_rank + place), memory.flag(), arguments.watch,
                               static_cast<Rank>(owner), &sum);
      if (arrived) PacketLanes<A>::store(arguments.output, place, arguments.count, sum);
    }
  }
  memory.leave();
}

}  // namespace gimbal::device
