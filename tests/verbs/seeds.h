// The seeds of tests/support/hostile_verbs that this run of the program takes: VERBS_TEST_SEEDS, as "0-30"; without it none,
// for an adapter that has no malice.
#pragma once

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace gimbal::testing {

inline std::vector<int> test_seeds() {
  const char* const range = std::getenv("VERBS_TEST_SEEDS");
  if (range == nullptr) return {};
  const std::string_view text = range;
  int first = 0;
  int last = 0;
  const char* const end = text.data() + text.size();
  const auto begin = std::from_chars(text.data(), end, first);
  if (begin.ptr == end || std::from_chars(begin.ptr + 1, end, last).ptr != end || last < first) {
    throw std::runtime_error("VERBS_TEST_SEEDS is no range such as 0-30");
  }
  std::vector<int> seeds;
  for (int seed = first; seed <= last; ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace gimbal::testing
