// Gimbal's JSON of a machine: any text is a sound graph or a sentence.
#include <cstdint>
#include <string_view>

#include "tests/fuzz/topology_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gimbal::expect_sound_graph(gimbal::graph_from_json({reinterpret_cast<const char*>(data), bytes}));
  return 0;
}
