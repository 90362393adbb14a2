// Why an operation is carried out as it is: the choice, what it is predicted to cost, what comes next and why. One source of
// text for gimbal_explain and gimbal-topo explain.
#pragma once

#include <optional>
#include <string>

#include "collectives/tuner.h"
#include "runtime/choice.h"

namespace gimbal {

struct Explanation {
  std::string how;  // the choice in a sentence
  Way way;
  // Nothing where the model cannot judge: messages, and schedules over very many ranks.
  std::optional<Option> chosen;
  std::optional<Option> runner_up;  // the cheapest other way
  double bus_gbps = 0;              // as benchmarks print it
  std::string why;                  // one sentence; empty without a prediction
};

// The tuner's ranks are the communicator's.
Explanation explain_call(const Choice& choice, const Tuner& tuner, const Call& call);

// "...; predicted 8.1 us, ...; next ring at 2.1 times; ..."
std::string to_text(const Explanation& explanation);

}  // namespace gimbal
