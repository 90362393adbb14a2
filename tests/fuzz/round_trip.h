// For fuzz targets of messages that have an encoder and a parser.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>

#include "transport/wire.h"

namespace gimbal {

// What a parser accepts must be what its encoder writes.
template <typename Message>
void expect_round_trip(const std::optional<Message>& message, std::span<const std::byte> bytes) {
  if (!message) return;
  const Bytes again = encode(*message);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace gimbal
