#include "runtime/choice.h"

#include <algorithm>

#include "base/cpu.h"
#include "collectives/algorithm.h"
#include "collectives/chunk_space.h"
#include "collectives/tuner.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

// From here up an all_reduce of more than two ranks is cheaper in two shots: its p-1 additions per element are divided among
// ranks.
constexpr size_t kTwoShotBytes = size_t{16} << 10;
// A small message goes in two chunks, so that one is read while the other is copied; smaller ones cost more than they hide.
constexpr size_t kLeastPairChunkBytes = size_t{8} << 10;
// Two ranks that are far from each other: from here on the second synchronisation of two shots costs less than the second half.
constexpr size_t kFarTwoShotBytes = size_t{1} << 20;

bool serves_directly(Collective collective) { return collective == Collective::kBarrier || StagedExchange::serves(collective); }

std::string names_for(Collective collective) {
  std::string names = serves_directly(collective) ? std::string(kDirectAlgorithm) : "";
  for (const Algorithm* algorithm : algorithms_for(schedule_collective(collective))) {
    names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  }
  return names.empty() ? "none" : names;
}

// What a v-form uses when nothing is forced.
std::string_view default_schedule(Collective collective) {
  return collective == Collective::kAllGatherV ? "ring" : "all_pairs";
}

Status check_forced(Collective collective, const std::string& name, const Settings& settings, Rank size) {
  if (name == kDirectAlgorithm && serves_directly(collective)) return {};
  const Algorithm* algorithm = find_algorithm(schedule_collective(collective), name);
  const std::string subject = "algorithm \"" + name + "\" for " + std::string(collective_name(collective));
  if (algorithm == nullptr) return {Code::kUnsupported, subject + " does not exist; there is " + names_for(collective)};
  CollectiveSpec spec;
  spec.collective = algorithm->collective;
  spec.nranks = size;
  if (const std::string reason = admits(*algorithm, spec); !reason.empty())
    return {Code::kUnsupported, subject + ": " + reason};
  if (settings.deterministic && reduces(algorithm->collective)) {
    ASSIGN_OR_RETURN(const OrderClass order, order_class(*algorithm, size));
    if (order != OrderClass::kTree) {
      return {Code::kUnsupported, subject + " is not deterministic over " + std::to_string(size) +
                                      " ranks: its order of additions is not the fixed binary tree"};
    }
  }
  return {};
}

}  // namespace

Status Choice::configure(const Settings& settings, Rank size) {
  forced_chunk_bytes_ = settings.chunk_bytes.value_or(0);
  slot_bytes_ = settings.slot_bytes;
  stage_slot_bytes_ = std::max(stage_slot_bytes_, forced_chunk_bytes_);
  cache_bytes_ = last_level_cache_bytes();
  // A bare name ("ring") stands for every collective that has it; at least one must.
  std::map<std::string, int> found;
  for (const auto& [collective, name] : settings.algorithms) {
    const Status status = check_forced(collective, name, settings, size);
    if (status.ok()) {
      forced_[collective] = name;
      ++found[name];
      continue;
    }
    const bool bare = settings.algorithms.size() == static_cast<size_t>(kCollectiveCount);
    if (!bare || (settings.deterministic && status.message().find("deterministic") != std::string::npos)) return status;
    found[name] += 0;
  }
  for (const auto& [name, times] : found) {
    if (times == 0) {
      return {Code::kUnsupported,
              "algorithm \"" + name + "\" does not exist; for all_reduce there is " + names_for(Collective::kAllReduce)};
    }
  }
  return {};
}

Status Choice::place(const NodeShape& nodes, const Settings& settings) {
  nodes_ = nodes.nodes();
  ranks_ = nodes.nranks();
  slot_bytes_ = settings.slot_bytes;
  if (nodes_ == 1) return {};
  for (const auto& [collective, name] : forced_) {
    if (name != kDirectAlgorithm) continue;
    return {Code::kUnsupported, "algorithm \"direct\" for " + std::string(collective_name(collective)) +
                                    " is for the ranks of one node; these are on " + std::to_string(nodes_) + " nodes"};
  }
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
    for (const Algorithm* algorithm : algorithms_for(collective)) {
      if (!settings.deterministic || deterministic_.count(collective) != 0) continue;
      ASSIGN_OR_RETURN(const OrderClass order, order_class(*algorithm, nodes.nranks(), &nodes));
      if (order == OrderClass::kTree) deterministic_[collective] = algorithm->name;
    }
  }
  return {};
}

// One hop while what each rank sends costs less than a second hop would. All-reduce over TCP, two hosts of one rank, against
// hier_halving_doubling, us: 4 KiB 20 and 28, 64 KiB 26 and 45, 128 KiB 44 and 60; four hosts on two CPUs: 4 KiB 144 and 312,
// 64 KiB 209 and 245, 128 KiB 397 and 266.
bool Choice::is_exchanged(const Call& call) const {
  constexpr Rank kMostRanks = 4;
  constexpr size_t kMostSentBytes = size_t{128} << 10;
  return ranks_ <= kMostRanks && call.bytes() * static_cast<size_t>(ranks_ - 1) <= kMostSentBytes;
}

// Until costs decide: few hops for few bytes, few bytes for many.
std::string_view Choice::default_across_nodes(const Call& call) const {
  if (const auto entry = deterministic_.find(call.collective); entry != deterministic_.end()) return entry->second;
  constexpr size_t kFewBytes = size_t{64} << 10;
  const bool few = call.bytes() <= kFewBytes;
  switch (call.collective) {
    case Collective::kAllReduce:
      if (is_exchanged(call)) return "exchange";
      return few ? "hier_halving_doubling" : "hier_ring";
    case Collective::kReduceScatter:
      return few ? "halving" : "ring";
    case Collective::kAllGather:
      return few ? "bruck" : "ring";
    case Collective::kBroadcast:
    case Collective::kReduce:
      return few ? "tree" : "chain";
    case Collective::kGather:
    case Collective::kScatter:
      return "linear";
    case Collective::kAllGatherV:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
      return default_schedule(call.collective);
  }
  return default_schedule(call.collective);
}

bool Choice::forced_to_schedule(Collective collective) const {
  const auto entry = forced_.find(collective);
  return entry != forced_.end() && entry->second != kDirectAlgorithm;
}

const Way* Choice::preset(const Call& call) const {
  if (override_) return &*override_;
  return is_forced(call.collective) ? nullptr : tuned_.find(call);
}

bool Choice::is_small(const Call& call) const {
  if (nodes_ > 1 || !SmallExchange::serves(call)) return false;
  if (call.count == 0) return true;
  if (const Way* given = preset(call)) return given->protocol == Protocol::kFlag;
  if (forced_to_schedule(call.collective)) return false;
  return call.bytes() <= kFlagBytes;
}

std::string_view Choice::algorithm(const Call& call) const {
  if (const Way* given = preset(call)) return given->algorithm;
  if (const auto entry = forced_.find(call.collective); entry != forced_.end()) return entry->second;
  if (nodes_ > 1) return default_across_nodes(call);
  return serves_directly(call.collective) ? kDirectAlgorithm : default_schedule(call.collective);
}

bool Choice::wants_calibration(Rank size, bool oversubscribed) const {
  return size == 2 && !oversubscribed && forced_chunk_bytes_ == 0 && !forced_to_schedule(Collective::kAllReduce);
}

StagedChoice Choice::staged(const Call& call, Rank size) const {
  StagedChoice choice;
  const bool pair = size == 2;
  // A pair's shots depend on how near its CPUs happen to be, which calibrate() has just looked at and tune has not.
  if (const Way* given = preset(call); given != nullptr && (override_ || !pair)) {
    choice.two_shot = given->protocol == Protocol::kTwoShots;
  } else if (call.collective == Collective::kAllReduce) {
    const bool pair_in_two_shots = measured_.near ? call.bytes() > kPairChunkBytes : call.bytes() >= kFarTwoShotBytes;
    choice.two_shot = pair ? pair_in_two_shots : call.bytes() > kTwoShotBytes;
  }
  choice.chunk_bytes = stage_slot_bytes_;
  if (pair && !choice.two_shot) {
    constexpr size_t kPage = 4096;
    choice.chunk_bytes = std::clamp((call.bytes() / 2 + kPage - 1) / kPage * kPage, kLeastPairChunkBytes, kPairChunkBytes);
  }
  if (forced_chunk_bytes_ != 0) choice.chunk_bytes = forced_chunk_bytes_;
  // Between far CPUs a line that the peer has read is slow to write again through the cache, and no slower to read from memory
  // (docs/decisions/0004). Stages take memcpy's own way around that, until memory's bandwidth decides.
  const bool far_pair = pair && !measured_.near;
  if (far_pair) choice.result_store = StoreMode::kStreaming;
  // Each rank reads its own input and writes its own output. From this size memory's bandwidth decides.
  if (call.bytes() >= cache_bytes_ / static_cast<size_t>(size)) {
    choice.output_store = StoreMode::kStreaming;
    if (far_pair) choice.stage_store = StoreMode::kStreaming;
  }
  return choice;
}

DirectChoice Choice::direct(const Call& call, Rank size) const {
  DirectChoice choice;
  // All inputs and all outputs pass through every cache.
  const bool exceeds_cache = call.bytes() > cache_bytes_ / 2 / static_cast<size_t>(size);
  choice.two_shot = size > 2 || exceeds_cache || measured_.direct_two_shot;
  choice.store = exceeds_cache || (size == 2 && measured_.direct_streaming) ? StoreMode::kStreaming : StoreMode::kCached;
  return choice;
}

Way Choice::way(const Call& call, Rank size) const {
  if (is_small(call)) return {kDirectAlgorithm, Protocol::kFlag, 1, kFlagBytes};
  Way way;
  way.algorithm = algorithm(call);
  if (way.algorithm != kDirectAlgorithm) return {way.algorithm, Protocol::kSlots, kScheduleChannels, slot_bytes_};
  const StagedChoice choice = staged(call, size);
  way.protocol = choice.two_shot ? Protocol::kTwoShots : Protocol::kOneShot;
  way.chunk_bytes = choice.chunk_bytes;
  return way;
}

std::string Choice::explain(const Call& call, Rank size) const {
  const std::string subject = std::string(collective_name(call.collective)) + " of " + std::to_string(call.bytes()) +
                              " bytes over " + std::to_string(size) + " ranks of " +
                              (nodes_ == 1 ? "one node: " : std::to_string(nodes_) + " nodes: ");
  if (is_message(call.collective)) return subject + "the pair's link, in slots that the receiver copies out of";
  if (nodes_ > 1 && (call.collective == Collective::kBarrier || call.count == 0))
    return subject + "a synchronisation of all ranks";
  if (is_small(call)) return subject + "direct, one flag: every rank reads every rank's few bytes";
  const std::string_view name = algorithm(call);
  const std::string why = is_forced(call.collective) ? " (forced)" : preset(call) != nullptr ? " (as measured)" : "";
  if (name != kDirectAlgorithm) {
    const Algorithm* schedule = find_algorithm(schedule_collective(call.collective), name);
    return subject + std::string(name) + why + ", " + std::string(schedule->description);
  }
  const StagedChoice choice = staged(call, size);
  return subject + "direct" + why + ", " + (choice.two_shot ? "two shots" : "one shot") + " in chunks of " +
         std::to_string(choice.chunk_bytes) + " bytes, " +
         (choice.output_store == StoreMode::kStreaming ? "streaming" : "cached") + " stores to the output";
}

}  // namespace gimbal
