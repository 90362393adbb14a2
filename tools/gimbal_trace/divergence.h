// Where the ranks of one communicator first did different things.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/gimbal_trace/dump.h"

namespace gimbal {

struct Divergence {
  enum class Kind : uint8_t {
    kMismatch,  // different operations under one number
    kAbsent,    // some have not called what others are in
    kUnended,   // the same operation has ended on some only
  };
  struct Group {  // of ranks that did the same
    std::vector<Rank> ranks;
    std::string did;
  };
  Kind kind = Kind::kMismatch;
  uint64_t sequence = 0;
  std::string what;  // one sentence
  std::vector<Group> groups;
};

// Nothing when all recorded the same, all of it ended. What a recorder has forgotten, it is not asked for.
std::optional<Divergence> find_divergence(const std::vector<Dump>& dumps);

// For people: the divergence, each rank's error, and whose dump is missing.
std::string trace_report(const std::vector<Dump>& dumps);
std::string trace_json(const std::vector<Dump>& dumps);

}  // namespace gimbal
