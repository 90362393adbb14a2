#include "bench/predict/report.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/gimbal_topo/words.h"

namespace gimbal::predict {

std::string report_text(const Machine& machine, std::span<const Comparison> comparisons) {
  std::string text = machine.name + ": all-reduce of float32, us; the model learned the lines marked *\n\n";
  char line[160];
  std::snprintf(line, sizeof(line), "%-18s %5s %10s %12s %12s %12s %8s\n", "algorithm", "ranks", "bytes", "measured",
                "predicted", "model alone", "error");
  text += line;
  size_t predicted = 0;
  double worst = 0;
  for (const Comparison& comparison : comparisons) {
    std::snprintf(line, sizeof(line), "%-18s %5d %10s %12.1f %12.1f %12.1f %+7.1f%%%s\n", comparison.algorithm.c_str(),
                  comparison.ranks, binary_size(comparison.bytes).c_str(), comparison.measured_us, comparison.predicted_us,
                  comparison.model_us, 100 * comparison.error(),
                  comparison.learned        ? " *"
                  : comparison.is_in_goal() ? ""
                                            : " MISSED");
    text += line;
    if (comparison.learned) continue;
    ++predicted;
    worst = std::max(worst, std::abs(comparison.error()));
  }
  std::snprintf(line, sizeof(line), "\n%zu of %zu predictions within %.0f %%; the worst is %.1f %% off\n",
                predicted - missed(comparisons).size(), predicted, 100 * kGoal, 100 * worst);
  return text + line;
}

std::string report_json(const Machine& machine, std::span<const Comparison> comparisons) {
  nlohmann::ordered_json json = {{"machine", machine.name}, {"goal", kGoal}, {"comparisons", nlohmann::ordered_json::array()}};
  for (const Comparison& comparison : comparisons) {
    json["comparisons"].push_back({{"algorithm", comparison.algorithm},
                                   {"ranks", comparison.ranks},
                                   {"bytes", comparison.bytes},
                                   {"measured_us", comparison.measured_us},
                                   {"predicted_us", comparison.predicted_us},
                                   {"model_us", comparison.model_us},
                                   {"learned", comparison.learned},
                                   {"in_goal", comparison.is_in_goal()}});
  }
  return json.dump(2) + "\n";
}

}  // namespace gimbal::predict
