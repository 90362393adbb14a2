#include "runtime/explanation.h"

#include <algorithm>
#include <cstdio>

namespace gimbal {
namespace {

// Three digits that matter: "0.12", "8.10", "123".
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
  return text;
}

// Where the time goes, of both; or that both were measured.
std::string reason(const Option& chosen, const Option* next) {
  if (next != nullptr && chosen.is_measured && next->is_measured) return "gimbal-topo tune has measured both here";
  std::string text = number(chosen.estimate.path_us) + " us waiting for messages and " + number(chosen.estimate.work_us) +
                     " us copying and adding";
  if (next != nullptr) text += " against " + number(next->estimate.path_us) + " and " + number(next->estimate.work_us);
  return text;
}

}  // namespace

Explanation explain_call(const Choice& choice, const Tuner& tuner, const Call& call) {
  const Rank ranks = tuner.model().nranks();
  Explanation explanation;
  explanation.how = choice.explain(call, ranks);
  if (is_message(call.collective)) return explanation;
  explanation.way = choice.way(call, ranks);
  Result<Option> chosen = tuner.estimate(explanation.way, call.collective, call.bytes(), call.dtype);
  if (!chosen.ok()) return explanation;
  explanation.chosen = std::move(chosen).value();
  explanation.bus_gbps = bus_bandwidth_gbps(call.collective, ranks, call.bytes(), explanation.chosen->time_us);
  for (const Option& option : tuner.options(call.collective, call.bytes(), call.dtype).options) {
    const bool is_chosen = option.way.algorithm == explanation.way.algorithm && option.way.protocol == explanation.way.protocol;
    if (is_chosen) continue;
    explanation.runner_up = option;
    break;
  }
  explanation.why = reason(*explanation.chosen, explanation.runner_up ? &*explanation.runner_up : nullptr);
  return explanation;
}

std::string to_text(const Explanation& explanation) {
  std::string text = explanation.how;
  if (!explanation.chosen) return text;
  const Option& chosen = *explanation.chosen;
  text += "; predicted " + number(chosen.time_us) + " us";
  if (explanation.bus_gbps > 0) text += ", " + number(explanation.bus_gbps) + " GB/s bus bandwidth";
  text += chosen.is_measured ? " (as tuned)" : " (by the model)";
  if (explanation.runner_up) {
    const double ratio = explanation.runner_up->time_us / std::max(chosen.time_us, 1e-9);
    text += "; next is " + describe(explanation.runner_up->way) + " at " + number(ratio) + " times that";
  }
  return text + "; " + explanation.why;
}

}  // namespace gimbal
