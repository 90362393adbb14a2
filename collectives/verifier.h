// Runs the schedules of all ranks on symbols instead of numbers, under the rules that executors keep: two cursors per channel,
// messages in order, a bounded number of slots. No data, no I/O, no luck: what passes here is right for every size and type.
//
// Checked:
//   each schedule alone     check_schedule(): fields, one channel per chunk, every conflict ordered by `after`
//   messages                both ends of a message name the same run and the same payload; none is left over
//   completeness            every output is the sum (or the block) that the collective asks for: inputs have random 64-bit
//                           weights, adding adds them; a lost or doubled input shows but for one chance in 2^64
//   rounding                final values are not added again, and nothing is read before it is written
//   deadlock                at the given number of slots per ordered pair and channel
//   order of additions      as a hash (order_hash.h)
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "collectives/algorithm.h"
#include "collectives/schedule.h"

namespace gimbal {

struct VerifyOptions {
  uint32_t slot_depth = 1;  // slots in flight per ordered pair and channel
  // Slots that one step's run needs. More than slot_depth: a run longer than the window, where a send ends only when the
  // receiver has come to it.
  uint32_t slices = 1;
};

// From strongest to weakest; a lower one includes the higher.
enum class OrderClass : uint8_t {
  kTree,       // every chunk on every rank is added along the left-complete tree: fit for the deterministic mode
  kRankOrder,  // every chunk on every rank is added in rank order
  kAgreed,     // all ranks have the same bits, but the order depends on the chunk
  kDisagreed,  // ranks may differ in the last bits
};

struct Verification {
  OrderClass order = OrderClass::kTree;  // of a collective that adds nothing: kTree
  uint64_t steps = 0;
};

// One schedule per rank. INTERNAL with one sentence that names rank, step and chunk when a check fails.
Result<Verification> verify(const CollectiveSpec& spec, std::span<const Schedule> schedules, const VerifyOptions& options = {});

// The order of additions of an algorithm with this many ranks, placed like this (schedule.h), by verifying it once (any root,
// channels and pieces give the same). Takes about 0.2 us a step: keep the answer.
Result<OrderClass> order_class(const Algorithm& algorithm, Rank nranks, const NodeShape* nodes = nullptr);

}  // namespace gimbal
