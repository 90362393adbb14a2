// Runs a plan on host memory over endpoints: a state machine that moves what can be moved and never waits.
//
// bind() may allocate; progress() does not, takes no lock and makes no system call of its own. Received bytes are reduced or
// copied straight out of the transport's memory, and results go straight into its slots. A bound executor borrows the plan, the
// buffers and the endpoints until progress() has returned kDone or an error, or bind() is called again.
//
// Every message carries the operation's tag; both a foreign tag and a foreign length are errors before a byte is used, so that
// ranks that called different things cannot get a wrong result. After an error the buffers' contents are undefined.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "runtime/operation.h"
#include "runtime/plan.h"
#include "transport/endpoint.h"

namespace gimbal {

struct Binding {
  const Plan* plan = nullptr;
  const std::byte* input = nullptr;  // equal to output where both hold a chunk: in place
  std::byte* output = nullptr;
  std::span<std::byte> scratch;          // at least plan->scratch_bytes; aligned to a cache line for speed
  std::span<Endpoint* const> endpoints;  // by rank; null where the plan has no message
  uint64_t tag = 0;                      // of the operation, equal on all ranks
  double weight = 1;                     // weighted plans: of this rank's input
  double divisor = 1;                    // weighted plans: the sum of the weights, or 1
};

// A message of another operation: what progress() returned MISMATCH for.
struct TagMismatch {
  Rank peer = kNoRank;
  uint64_t expected = 0;
  uint64_t received = 0;
};

// The first step that could begin and did not move.
struct BlockedStep {
  Rank peer = kNoRank;  // who must send or take a message
  bool sending = false;
  Channel channel = 0;
  uint32_t schedule_step = 0;
};

class CpuExecutor {
 public:
  // INTERNAL when an endpoint is missing or smaller than the plan needs.
  Status bind(const Binding& binding);

  // kAgain: nothing more can move now, or enough has moved for one call (slices() tells which).
  Result<Progress> progress();

  // Slices carried out since bind(): unchanged by a progress() that moved nothing.
  [[nodiscard]] uint64_t slices() const { return slices_; }
  [[nodiscard]] const std::optional<TagMismatch>& mismatch() const { return mismatch_; }
  // For messages about a wait; nothing when all steps are done.
  [[nodiscard]] std::optional<BlockedStep> blocked() const;

 private:
  enum class Outcome : uint8_t { kMoved, kBlocked, kFailed };

  struct CursorState {
    const PlanStep* steps = nullptr;
    uint64_t size = 0;
    uint64_t next = 0;
    uint64_t segment_start = 0;  // steps of all segments before this one
    size_t position = 0;         // elements done of the step's part in this segment
    uint32_t segment = 0;
    bool waits_for_slot = false;
    bool finished = true;

    [[nodiscard]] uint64_t completed() const { return segment_start + next; }
  };
  struct ChannelState {
    std::array<CursorState, kCursorCount> cursors;
  };

  Outcome advance(Channel channel, ChannelState& state, Cursor cursor);
  Outcome carry_out_slice(Channel channel, CursorState& cursor, const PlanStep& step, size_t first, size_t count);
  void write_results(const PlanStep& step, const std::byte* received, std::byte* slot, size_t first, size_t count) const;
  void finish_step(CursorState& cursor);
  [[nodiscard]] bool may_begin(const ChannelState& state, Cursor cursor) const;
  [[nodiscard]] bool is_expected(const ReceivedMessage& message, const PlanStep& step, Channel channel, size_t bytes);
  Outcome fail(Status status);

  const Plan* plan_ = nullptr;
  std::array<std::byte*, 3> buffers_{};  // by BufferId
  std::span<Endpoint* const> endpoints_;
  uint64_t tag_ = 0;
  double weight_ = 1;
  double divisor_ = 1;
  size_t unfinished_ = 0;  // cursors
  uint64_t slices_ = 0;
  std::vector<ChannelState> channels_;
  std::vector<Endpoint*> driven_;  // endpoints whose progress() must be called
  std::optional<TagMismatch> mismatch_;
  Status failure_;
};

}  // namespace gimbal
