// The verbs endpoint under the conformance tests, with one queue pair, several, and several rails; and again with seeds, one
// shape after the other.
#include "tests/unit/transport/endpoint_conformance.h"
#include "tests/verbs/seeds.h"
#include "tests/verbs/verbs_pair.h"

namespace gimbal::testing {
namespace {

std::vector<EndpointKind> shapes() {
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

std::vector<EndpointKind> verbs_kinds() {
  const std::vector<EndpointKind> all = shapes();
  const std::vector<int> seeds = test_seeds();
  if (seeds.empty()) return all;
  std::vector<EndpointKind> kinds;
  for (const int seed : seeds) {
    const EndpointKind& shape = all[static_cast<size_t>(seed) % all.size()];
    const auto make = [seed, shape](Channel channels, size_t slot_bytes, size_t window) {
      setenv("HOSTILE_VERBS_SEED", std::to_string(seed).c_str(), 1);  // read as the devices are opened
      return shape.make(channels, slot_bytes, window);
    };
    kinds.push_back({shape.name + "Seed" + std::to_string(seed), make});
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Verbs, EndpointConformance, ::testing::ValuesIn(verbs_kinds()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace gimbal::testing
