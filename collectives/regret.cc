#include "collectives/regret.h"

#include <algorithm>

namespace gimbal {
namespace {

// Adds a timing to its subject.
void add(std::vector<SubjectRegret>& subjects, const Timing& timing) {
  auto found = std::find_if(subjects.begin(), subjects.end(),
                            [&](const SubjectRegret& subject) { return subject.subject == timing.subject; });
  if (found == subjects.end()) {
    subjects.push_back({timing.subject, "", "", 0, 0});
    found = std::prev(subjects.end());
  }
  if (timing.time_us <= 0) return;
  if (found->best.empty() || timing.time_us < found->best_us) {
    found->best = timing.way;
    found->best_us = timing.time_us;
  }
  if (timing.is_chosen) {
    found->chosen = timing.way;
    found->chosen_us = timing.time_us;
  }
}

}  // namespace

Regret find_regret(const std::vector<Timing>& timings) {
  Regret regret;
  for (const Timing& timing : timings) add(regret.subjects, timing);
  std::erase_if(regret.subjects, [](const SubjectRegret& subject) { return subject.chosen.empty(); });
  if (regret.subjects.empty()) return regret;
  std::vector<double> ratios;
  for (const SubjectRegret& subject : regret.subjects) ratios.push_back(subject.ratio());
  std::sort(ratios.begin(), ratios.end());
  regret.median = ratios[ratios.size() / 2];
  regret.worst = ratios.back();
  return regret;
}

}  // namespace gimbal
