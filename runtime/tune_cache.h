// What `gimbal-topo tune` has measured of a machine, as a file: read at every gimbal_comm_create, written by tune.
//
// The file is hostile until checked: parse_tuning() returns sound data or a sentence, whatever the text is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "collectives/tuner.h"

namespace gimbal {

// One job size.
struct TunedRun {
  CostInputs inputs;  // of inputs.ranks_per_node ranks on inputs.cpus CPUs
  Corrections corrections;
  // By collective and table_type().
  std::map<std::pair<Collective, DType>, std::vector<TableRow>> tables;

  [[nodiscard]] Rank ranks() const { return inputs.ranks_per_node; }
};

struct Tuning {
  std::string version;       // of the library that measured
  uint64_t fingerprint = 0;  // topology/fingerprint.h
  std::vector<TunedRun> runs;
};

inline constexpr size_t kMostTuningBytes = size_t{1} << 20;

std::string format_tuning(const Tuning& tuning);
// INVALID_ARGUMENT names the place and what is allowed there.
Result<Tuning> parse_tuning(std::string_view text);

// The run for so many ranks on so many CPUs: both as measured, or the nearest number of ranks (at most twice or half) where
// ranks have a CPU each, or share CPUs, as they do here. Null without one.
const TunedRun* find_run(const Tuning& tuning, Rank ranks, double cpus);

// Where the file of a machine is: `setting` (GIMBAL_TUNE_CACHE) when it is not empty, else gimbal/tune-<fingerprint>.json below
// $XDG_CACHE_HOME or ~/.cache. Empty for "off", and where neither folder is known.
std::string tuning_path(const std::string& setting, uint64_t fingerprint);
// Whether a file can be there at all, without asking for the fingerprint.
bool may_have_tuning(const std::string& setting);

// The whole file; an empty text when there is none. INVALID_ARGUMENT for what is no regular file or is too large.
Result<std::string> read_tuning_file(const std::string& path);
// Makes the folders, and replaces the file in one step.
Status write_tuning_file(const std::string& path, const std::string& text);

}  // namespace gimbal
