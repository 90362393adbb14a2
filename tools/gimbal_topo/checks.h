// What in this environment would fail or be slow: facts first, judged apart, so that every judgement can be tested.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "topology/graph.h"

namespace gimbal {

inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct NamedAddress {
  std::string interface;
  std::string address;
};

struct CheckFacts {
  TopologyGraph graph;
  int64_t ranks = 1;  // to be started here
  uint64_t locked_memory_limit = kNoLimit;
  uint64_t descriptor_limit = kNoLimit;  // the hard one: Gimbal raises the soft one itself
  std::string shared_memory_error;       // of making a memfd; empty: it works
  std::string huge_pages;                // the chosen word of transparent_hugepage/enabled; empty: unknown
  bool has_gpudirect_module = false;     // nvidia_peermem
  std::vector<std::string> verbs_ports;  // that ranks here could use, as list_verbs_ports() describes them
  std::string verbs_error;               // why there is none
  std::vector<NamedAddress> addresses;
  std::vector<std::string> environment_errors;  // settings that are refused
  std::vector<std::string> unknown_variables;   // misspelt ones
  int64_t timeout_ms = 600'000;
};

// root: "/" but in tests. ranks 0: one per allowed PU.
CheckFacts gather_facts(TopologyGraph graph, int64_t ranks, const std::string& root);

// The exit statuses of `gimbal-topo check`.
enum class CheckState : uint8_t { kFine = 0, kSlow = 1, kFails = 2 };

struct CheckLine {
  std::string name;
  CheckState state = CheckState::kFine;
  std::string sentence;
  std::string remedy;  // empty when all is fine
};

std::vector<CheckLine> judge(const CheckFacts& facts);

// One line each, a remedy below what is not fine.
std::string check_report(const std::vector<CheckLine>& lines);

CheckState worst_of(const std::vector<CheckLine>& lines);

}  // namespace gimbal
