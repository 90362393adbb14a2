// How a collective is carried out: what the tuner chooses, the executors are told and people are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/types.h"

namespace gimbal {

// The node-direct native algorithms (runtime's SmallExchange, StagedExchange, DirectExchange) under one name for the user.
inline constexpr std::string_view kDirectAlgorithm = "direct";

// kSlots is how schedules travel, the others are direct's.
enum class Protocol : uint8_t {
  kSlots,     // through the slots of endpoints, slice by slice
  kFlag,      // payload beside a flag, one synchronisation
  kOneShot,   // staged in chunks; every rank reads what it needs, all of it for a sum
  kTwoShots,  // staged in chunks; every rank adds one slice, then reads the other slices' results
};
inline constexpr int kProtocolCount = 4;

std::string_view protocol_name(Protocol protocol);  // "slots", "flag", "one_shot", "two_shots"

// The largest message whose whole exchange is one flag: beyond it, copying overlaps with reading in chunks.
inline constexpr size_t kFlagBytes = 4096;

struct Way {
  std::string_view algorithm = kDirectAlgorithm;  // or the name of a schedule of the registry
  Protocol protocol = Protocol::kOneShot;
  uint8_t channels = 1;
  size_t chunk_bytes = 0;  // of a stage or a slot

  bool operator==(const Way&) const = default;
};

// "direct, two shots", "ring": in sentences.
std::string describe(const Way& way);

// Whether direct has this protocol for the collective and so many bytes per rank.
bool direct_serves(Collective collective, Protocol protocol, size_t bytes);

}  // namespace gimbal
