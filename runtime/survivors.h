// Who is left after a failure, as those who are left agree: the state machine of gimbal_comm_shrink. It computes; Shrink
// (runtime/shrink.h) sends, hears and waits.
//
// Rounds: each rank tells all others whom it takes for gone, and hears the same from everybody whom it does not. What one takes
// for gone, all do: views only grow. When everybody has said the same in one round, that is the agreement, and the ranks try to
// make their new communicator; another death during that begins the next round.
//
//   4 ranks, rank 3 is dead, rank 0 does not know it yet (. present, x gone):
//     round 1   0: ....   1: ...x   2: ...x     not the same; rank 0 learns of it
//     round 2   0: ...x   1: ...x   2: ...x     the same: ranks 0, 1, 2 make a communicator
//
// Whoever has it whole tells all that the round is *decided* before it uses it. A rank whose own attempt failed at the very end
// (a peer died after it had said its last word to some) hears that, and takes its communicator too, dead peer and all: its next
// operation names the dead, as everybody's does. A communicator is whole when each member has said so after it had made its
// own, so nobody can decide a round in which a member had given up: whatever dies when, those who live go on together
// (tests/unit/runtime/survivors_test.cc tries this with deaths at every moment).
//
// A rank that lives but says nothing is *silent*: the others go on without it, and it learns so from what they told it. To keep
// two halves of a broken network from going on separately, those who go on must be more than half of the ranks not known to be
// dead, or half of them with the lowest. A rank that was taken for silent in the moment of a decision may hold a communicator
// that its peers are not in; it fails at its first operation.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "transport/wire.h"

namespace gimbal {

class Survivors {
 public:
  Survivors(Rank rank, Rank size);

  // What to tell every peer at the beginning of the next round.
  SurvivorMessage begin_round();
  // A peer is gone or stays silent.
  void mark(Rank peer, RankState state);
  void hear(Rank from, const SurvivorMessage& message);

  // Whose word of this round is still missing.
  [[nodiscard]] std::vector<Rank> awaited() const;
  // Once nobody is awaited: whether this round is the agreement.
  [[nodiscard]] bool agreed() const;
  // Once agreed: whether the attempt to make this round's communicator may still succeed. Not when a peer has given it up.
  [[nodiscard]] bool attempt_stands() const;
  // The round whose communicator exists, once a peer has told so.
  [[nodiscard]] std::optional<uint32_t> decided() const { return decided_; }
  // REMOTE when the others go on without this rank, unless it has a part in what was decided.
  [[nodiscard]] Status check_included() const;
  // TIMEOUT when those who are left are too few to go on without the silent ones.
  [[nodiscard]] Status check_quorum() const;

  [[nodiscard]] uint32_t round() const { return round_; }
  [[nodiscard]] std::vector<Rank> members() const { return in_state(RankState::kPresent); }
  // What to tell when a round's communicator exists, and when this rank gives up.
  [[nodiscard]] SurvivorMessage decision(uint32_t round) const { return {.round = round, .decided = true, .states = states_}; }
  [[nodiscard]] SurvivorMessage resignation() const;

 private:
  [[nodiscard]] std::vector<Rank> in_state(RankState state) const;
  [[nodiscard]] RankState& state(Rank rank) { return states_[static_cast<size_t>(rank)]; }
  void take(Rank from, const SurvivorMessage& message);
  void grow(const std::vector<RankState>& states);

  const Rank rank_;
  uint32_t round_ = 0;
  std::vector<RankState> states_;
  std::vector<RankState> told_;                     // in this round
  std::vector<bool> heard_;                         // in this round
  bool same_ = true;                                // all of them said what this rank told
  std::vector<std::deque<SurvivorMessage>> early_;  // of later rounds, by rank
  std::optional<uint32_t> decided_;
  Rank excluded_by_ = -1;
};

// "ranks 0, 2 and 5"; "no rank" for none.
std::string describe_ranks(const std::vector<Rank>& ranks);

}  // namespace gimbal
