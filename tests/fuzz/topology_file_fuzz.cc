// A topology file of any kind, hwloc's XML above all. hwloc's own reader is not held to be sound: the child that runs it may
// die, the caller gets a sentence.
#include <cstdint>
#include <string>

#include "tests/fuzz/topology_graph.h"
#include "topology/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gimbal::expect_sound_graph(gimbal::graph_from_hostile_text(std::string(reinterpret_cast<const char*>(data), bytes)));
  return 0;
}
