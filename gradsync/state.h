// What a synchronizer carries from step to step, as bytes for a checkpoint: sections by parameter name, so that other buckets,
// or parameters in another order, can take it up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace gimbal::gradsync {

enum class StateKind : uint32_t { kError = 0, kCodec = 1 };

struct StateSection {
  std::string parameter;
  StateKind kind;
  std::span<std::byte> bytes;  // where it lives
};

// Which rank's it is: another's state is not this one's.
struct StateOwner {
  int32_t rank;
  int32_t size;
};

size_t state_bytes(std::span<const StateSection> sections);
// out has state_bytes.
void save_state(std::span<const StateSection> sections, const StateOwner& owner, std::span<std::byte> out);
// Overwrites every section, or none: INVALID_ARGUMENT says what does not fit.
Status load_state(std::span<const std::byte> in, const StateOwner& owner, std::span<const StateSection> sections);

}  // namespace gimbal::gradsync
