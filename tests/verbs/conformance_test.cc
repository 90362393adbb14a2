// The verbs endpoint under the conformance tests, with one queue pair, several, and several rails.
#include "tests/unit/transport/endpoint_conformance.h"
#include "tests/verbs/verbs_pair.h"

namespace gimbal::testing {
namespace {

std::vector<EndpointKind> verbs_kinds() {
  std::vector<EndpointKind> kinds;
  const size_t ports = usable_ports().size();
  const auto add = [&](std::string name, const VerbsPairOptions& options) {
    if (options.rails > ports) return;
    kinds.push_back({std::move(name), [options](Channel channels, size_t slot_bytes, size_t window) -> EndpointPair {
                       VerbsPair pair = make_verbs_pair(options, channels, slot_bytes, window);
                       return {.memory = pair.pollers, .a = std::move(pair.a), .b = std::move(pair.b)};
                     }});
  };
  add("OneQueuePair", {});
  add("ThreeQueuePairs", {.queue_pairs = 3});
  add("TwoRails", {.rails = 2, .queue_pairs = 2});
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Verbs, EndpointConformance, ::testing::ValuesIn(verbs_kinds()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace gimbal::testing
