// A schedule step by step, as people think of it: at each moment every rank takes the next step on each of its cursors, if what
// it waits for was complete a moment ago. For drawings: what every chunk holds then, and which messages are on their way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gimbal {

struct ChunkState {
  uint16_t inputs = 0;    // how many ranks' inputs the rank holds of the chunk, added up
  bool is_final = false;  // in the output
};

struct MessageInFlight {
  Rank from;
  Rank to;
  Payload payload;
  uint32_t chunk;
  uint32_t count;
};

struct Moment {
  std::vector<std::vector<ChunkState>> chunks;  // by rank, by chunk: after the moment
  std::vector<MessageInFlight> messages;        // that leave at this moment
};

// At most this many cells (moments x ranks x chunks) are followed: more is no picture.
inline constexpr uint64_t kMostCells = 200'000;

// The first moment is the beginning: inputs and no messages. UNSUPPORTED when it becomes too large, INTERNAL when it never
// ends.
Result<std::vector<Moment>> moments_of(const CollectiveSpec& spec, std::span<const Schedule> schedules);

}  // namespace gimbal
