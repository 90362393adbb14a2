// How much a chooser loses: the time of what it took over the time of the best, from timings that somebody has recorded.
#pragma once

#include <string>
#include <vector>

namespace gimbal {

// One way at one size of one job; `subject` tells sizes and jobs apart ("8 ranks all_reduce 65536").
struct Timing {
  std::string subject;
  std::string way;
  double time_us = 0;
  bool is_chosen = false;
};

struct SubjectRegret {
  std::string subject;
  std::string chosen;
  std::string best;
  double chosen_us = 0;
  double best_us = 0;
  [[nodiscard]] double ratio() const { return chosen_us / best_us; }
};

struct Regret {
  std::vector<SubjectRegret> subjects;  // in the order of their first timings
  double median = 1;
  double worst = 1;
};

// Subjects without a chosen way, or with no time above 0, are left out.
Regret find_regret(const std::vector<Timing>& timings);

}  // namespace gimbal
