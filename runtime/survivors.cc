#include "runtime/survivors.h"

#include <algorithm>

namespace gimbal {

std::string describe_ranks(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

Survivors::Survivors(Rank rank, Rank size)
    : rank_(rank),
      states_(static_cast<size_t>(size), RankState::kPresent),
      heard_(static_cast<size_t>(size)),
      early_(static_cast<size_t>(size)) {}

SurvivorMessage Survivors::begin_round() {
  ++round_;
  told_ = states_;
  heard_.assign(heard_.size(), false);
  same_ = true;
  for (size_t peer = 0; peer < early_.size(); ++peer) {
    if (early_[peer].empty() || early_[peer].front().round != round_) continue;
    take(static_cast<Rank>(peer), early_[peer].front());
    early_[peer].pop_front();
  }
  return {.round = round_, .decided = false, .states = told_};
}

void Survivors::mark(Rank peer, RankState now) { state(peer) = std::max(state(peer), now); }

void Survivors::hear(Rank from, const SurvivorMessage& message) {
  if (message.states.size() != states_.size()) return;
  if (message.states[static_cast<size_t>(from)] != RankState::kPresent) {
    mark(from, RankState::kGone);  // it resigned: what it thinks of others no longer matters
  } else if (message.states[static_cast<size_t>(rank_)] != RankState::kPresent) {
    excluded_by_ = from;
  } else if (message.decided) {
    decided_ = message.round;  // a member of that round has its part of it
  } else if (message.round == round_) {
    take(from, message);
  } else if (message.round > round_) {
    early_[static_cast<size_t>(from)].push_back(message);
    grow(message.states);  // nobody waits for a silent rank longer than the first who gives it up
  }
}

void Survivors::grow(const std::vector<RankState>& states) {
  for (size_t peer = 0; peer < states_.size(); ++peer) states_[peer] = std::max(states_[peer], states[peer]);
}

void Survivors::take(Rank from, const SurvivorMessage& message) {
  heard_[static_cast<size_t>(from)] = true;
  same_ = same_ && message.states == told_;
  grow(message.states);
}

std::vector<Rank> Survivors::awaited() const {
  std::vector<Rank> ranks;
  for (const Rank rank : members()) {
    if (rank != rank_ && !heard_[static_cast<size_t>(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

bool Survivors::agreed() const { return same_ && states_ == told_; }

bool Survivors::attempt_stands() const {
  const bool left_behind = std::any_of(early_.begin(), early_.end(), [](const auto& messages) { return !messages.empty(); });
  return agreed() && !left_behind && !decided_ && excluded_by_ < 0;
}

Status Survivors::check_included() const {
  if (excluded_by_ < 0) return {};
  return {Code::kRemote, "rank " + std::to_string(excluded_by_) + " went on without rank " + std::to_string(rank_) +
                             ", which did not answer in time or was taken for dead"};
}

Status Survivors::check_quorum() const {
  const std::vector<Rank> left = members();
  const std::vector<Rank> silent = in_state(RankState::kSilent);
  if (left.size() > silent.size()) return {};
  if (left.size() == silent.size() && left.front() < silent.front()) return {};
  return {Code::kTimeout, describe_ranks(silent) + " live but do not answer; " + describe_ranks(left) +
                              " are too few to go on without them: more than half of the living ranks must answer"};
}

SurvivorMessage Survivors::resignation() const {
  SurvivorMessage message{.round = round_, .decided = false, .states = states_};
  message.states[static_cast<size_t>(rank_)] = RankState::kGone;
  return message;
}

std::vector<Rank> Survivors::in_state(RankState wanted) const {
  std::vector<Rank> ranks;
  for (size_t rank = 0; rank < states_.size(); ++rank) {
    if (states_[rank] == wanted) ranks.push_back(static_cast<Rank>(rank));
  }
  return ranks;
}

}  // namespace gimbal
