// What kernels and the host side share: links, reports and the arguments of launches. Plain structs, no CUDA header.
//
// Who may write what is said with each; all of it is read and written through cuda::atomic_ref but slots' and packets' payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/plan_step.h"
#include "base/types.h"

namespace gimbal::device {

inline constexpr size_t kMaxSources = 16;
inline constexpr size_t kMaxDestinations = 8;
inline constexpr Rank kMaxNativeRanks = 8;
inline constexpr unsigned kMaxThreads = 512;  // of a block

// Payload of one message with data-and-flag packets: the block keeps it in its shared memory.
inline constexpr size_t kMaxPacketPayload = 8192;

// kSimple: slots of plain bytes, published by a counter. kPackets: 8 bytes of data and two flags in every 16, so that nothing
// but the data itself has to arrive; half the bandwidth, the least latency.
enum class Protocol : uint8_t { kSimple, kPackets };

// kClaimed: somebody writes the rest of the report.
enum class DeviceError : uint32_t { kNone = 0, kClaimed = 1, kAborted = 2, kTimeout = 3, kMismatch = 4, kUnsupported = 5 };

// In host memory that the device reaches, one for each communicator: `abort` is the host's word, the rest are the kernels'.
// The first error stays, and every later kernel of the communicator returns at once.
struct DeviceReport {
  uint32_t abort = 0;
  uint32_t error = 0;       // a DeviceError; what follows is valid when it is read (acquire) above kClaimed
  Rank peer = kNoRank;      // who was waited for, or sent another operation's message
  uint32_t channel = 0;     // the block
  uint32_t step = 0;        // of the schedule
  uint32_t is_sending = 0;  // waited for room, not for a message
  uint64_t expected_tag = 0;
  uint64_t received_tag = 0;
};

// In device memory, one for each communicator, zeroed by the host when it is made.
struct DeviceState {
  uint32_t epoch;    // native operations done: names the half of the packet memory and is the packets' flag
  uint32_t left;     // blocks of the running native operation that have returned
  uint32_t claimed;  // whether a report has been begun: what blocks look at while they wait
  uint32_t reserved;
};

// Of a message in a slot. kPackets: the tag is the first packet, and the bytes are not told.
struct SlotHeader {
  uint64_t tag;
  uint64_t bytes;
};

// One direction between two ranks on one channel, seen from one end. The memory that the other end writes is this end's own, so
// that nobody polls across a link; each end is used by one block (or by the proxy's thread) at a time.
//
//   slot memory, headers, tail   the receiver's; written by the sender
//   head                         the sender's; written by the receiver
//   position                     of each end its own: messages passed so far. It lives here and not in arguments, since a
//                                captured launch is replayed
struct DeviceLink {
  std::byte* slots;     // slot_count of slot_stride bytes; kPackets: 16 for the tag and 16 for every 8 of payload
  SlotHeader* headers;  // kSimple: one for each slot
  uint64_t* tail;       // kSimple: messages written
  uint64_t* head;       // messages read
  uint64_t* position;
  uint64_t slot_stride;
  uint32_t slot_count;
  uint32_t reserved;
};

inline constexpr size_t kPacketBytes = 16;
inline constexpr size_t kPacketPayload = 8;
constexpr size_t packet_count(size_t payload) { return (payload + kPacketPayload - 1) / kPacketPayload; }
// A slot of kPackets.
constexpr size_t packet_slot_bytes(size_t payload) { return (1 + packet_count(payload)) * kPacketBytes; }

// A run of the steps that were uploaded.
struct PlanRun {
  uint32_t first;
  uint32_t count;
};

// What every kernel that waits is given.
struct Watch {
  DeviceState* state;
  DeviceReport* report;
  uint64_t timeout_ns;  // of one wait
};

// A plan on a device: its steps' bytes as runtime/plan.h has them, one block for each channel.
struct InterpreterArguments {
  const PlanStep* steps;
  const PlanRun* runs;         // by channel, then by Cursor
  const DeviceLink* outgoing;  // by peer, then by channel
  const DeviceLink* incoming;
  std::array<std::byte*, 3> buffers;  // by BufferId
  std::array<size_t, 2> form_bytes;   // by Form
  size_t slice_elements;
  size_t segment_elements;
  uint32_t segments;
  uint32_t channels;
  uint64_t tag;
  double weight;   // of kInput
  double divisor;  // 1 when nothing is divided
  ReduceOp op;
  Protocol protocol;
  Watch watch;
};

// An all-reduce of one kernel, for up to kMaxNativeRanks ranks that reach each other's memory.
struct NativeArguments {
  const void* input;
  void* output;
  size_t count;
  // Every rank's packet memory, native_bytes() of it, zeroed once.
  std::array<std::byte*, kMaxNativeRanks> packets;
  size_t half_bytes;  // native_bytes() / 2
  Rank rank;
  Rank nranks;
  uint64_t tag;
  double divisor;
  ReduceOp op;
  Watch watch;
};

struct ReduceOperand {
  const void* data;
  double weight;
  Form form;
};

// kernels/reduce.h's arguments, by value: rank order, up to kMaxSources operands.
struct DeviceReduceArguments {
  std::array<ReduceOperand, kMaxSources> sources;
  std::array<void*, kMaxDestinations> destinations;
  uint32_t source_count;
  uint32_t destination_count;
  Form destination_form;
  ReduceOp op;
  size_t count;
  double divisor;
};

}  // namespace gimbal::device
