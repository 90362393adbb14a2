// Which algorithm carries out a call, and how: forced names, size thresholds, and what was measured at the start.
//
// Everything here is equal on all ranks: it depends on settings that were compared, on the call, and on measurements that rank
// 0 made and shared.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "collectives/node_shape.h"
#include "collectives/way.h"
#include "runtime/call.h"
#include "runtime/direct_exchange.h"
#include "runtime/settings.h"
#include "runtime/small_exchange.h"
#include "runtime/staged_exchange.h"
#include "runtime/tuned_tables.h"

namespace gimbal {

// What calibrate() finds out.
struct MeasuredChoice {
  // The CPUs are near each other in cache: a line that the peer has read is quickly written again.
  bool near = false;
  bool direct_two_shot = true;
  bool direct_streaming = false;  // when the CPUs are far, lines that peers will read are better not left in this CPU's cache
};

class Choice {
 public:
  // Checks the forced names: UNSUPPORTED says which names a collective has, and why a schedule cannot be deterministic.
  Status configure(const Settings& settings, Rank size);
  // Where the ranks stand. UNSUPPORTED when a forced algorithm serves one node only and there are more.
  Status place(const NodeShape& nodes, const Settings& settings);
  // Measuring pays where both ways of a pair of ranks are near each other: two ranks with a CPU each, nothing forced.
  [[nodiscard]] bool wants_calibration(Rank size, bool oversubscribed) const;
  void set_measured(const MeasuredChoice& measured) { measured_ = measured; }
  // What tune has measured takes the place of the thresholds, but not of what is forced.
  void use_tables(TunedTables tables) { tuned_ = std::move(tables); }
  // For measuring: every call that the way serves is carried out so, whatever else is set.
  void override_way(std::optional<Way> way) { override_ = way; }

  // Whether the call is one small exchange: few bytes, or none at all.
  [[nodiscard]] bool is_small(const Call& call) const;
  // kDirectAlgorithm or a schedule's name.
  [[nodiscard]] std::string_view algorithm(const Call& call) const;
  [[nodiscard]] StagedChoice staged(const Call& call, Rank size) const;
  [[nodiscard]] DirectChoice direct(const Call& call, Rank size) const;

  // Bytes of a stage slot, which bounds every chunk.
  [[nodiscard]] size_t stage_slot_bytes() const { return stage_slot_bytes_; }

  // The answers above in one.
  [[nodiscard]] Way way(const Call& call, Rank size) const;
  [[nodiscard]] bool is_forced(Collective collective) const { return forced_.count(collective) != 0; }
  [[nodiscard]] std::string explain(const Call& call, Rank size) const;

 private:
  // What was measured or is being measured; null: the rules decide.
  [[nodiscard]] const Way* preset(const Call& call) const;
  [[nodiscard]] bool forced_to_schedule(Collective collective) const;
  [[nodiscard]] bool is_exchanged(const Call& call) const;
  [[nodiscard]] std::string_view default_across_nodes(const Call& call) const;

  std::map<Collective, std::string> forced_;
  size_t forced_chunk_bytes_ = 0;  // 0: chosen by size
  size_t slot_bytes_ = 0;          // of an endpoint
  size_t stage_slot_bytes_ = size_t{256} << 10;
  size_t cache_bytes_ = 0;  // the last level
  MeasuredChoice measured_;
  TunedTables tuned_;
  std::optional<Way> override_;
  Rank nodes_ = 1;
  Rank ranks_ = 1;                                        // once placed
  std::map<Collective, std::string_view> deterministic_;  // of collectives that add, across nodes; empty: not asked for
};

}  // namespace gimbal
