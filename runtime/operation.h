// An operation under way: a state machine that does what it can and returns. Nothing in it waits; Communicator's outer loop
// does.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/types.h"

namespace gimbal {

enum class Progress : uint8_t { kDone, kAgain };

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // Does all that is possible now. After kDone or an error it is not called again.
  virtual Result<Progress> progress() = 0;
  // Changes whenever progress() did something; tells waiting in vain from waiting between pieces of work.
  [[nodiscard]] virtual uint64_t moves() const = 0;
  // A rank that the last kAgain was due to; -1 when it is not one rank's doing; this rank itself when its own stream is late.
  [[nodiscard]] virtual Rank waiting_for() const = 0;
};

}  // namespace gimbal
