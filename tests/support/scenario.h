// The ways in which one all-reduce case is run: kind of rank x algorithm x kind of memory.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/buffer.h"
#include "tests/support/communicator.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"

namespace gimbal::test {

struct Scenario {
  RankKind ranks;
  MemoryKind memory;
  std::string algorithm;
};

inline std::string scenario_name(const Scenario& scenario) {
  return rank_kind_name(scenario.ranks) + "_" + scenario.algorithm +
         (scenario.memory == MemoryKind::kOrdinary ? "_ordinary" : "_registered");
}

inline void PrintTo(const Scenario& scenario, std::ostream* stream) { *stream << scenario_name(scenario); }

inline std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> scenarios;
  for (const RankKind ranks : rank_kinds()) {
    for (const char* algorithm : kAllReduceAlgorithms) {
      for (const MemoryKind memory : {MemoryKind::kOrdinary, MemoryKind::kRegistered}) {
        scenarios.push_back({ranks, memory, algorithm});
      }
    }
  }
  return scenarios;
}

inline std::string kind_test_name(const testing::TestParamInfo<RankKind>& info) { return rank_kind_name(info.param); }

// A fixture per case derives from this one; GetParam() is the Scenario.
class ScenarioTest : public RanksTest, public testing::WithParamInterface<Scenario> {};

inline std::string scenario_test_name(const testing::TestParamInfo<Scenario>& info) { return scenario_name(info.param); }

}  // namespace gimbal::test
