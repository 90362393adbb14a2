// What every subcommand is asked about: a collective, one algorithm or all of them, and how many ranks lie how on nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/link_cost.h"
#include "base/status.h"
#include "collectives/algorithm.h"
#include "collectives/node_shape.h"

namespace gimbal {

// As the command line has it; what is empty was not given.
struct RequestText {
  std::string collective = "all_reduce";
  std::string algorithm = {};
  std::string ranks = {};
  std::string nodes = {};
  std::string ranks_per_node = {};
  std::string node_sizes = {};  // "8,8,6"
  std::string root = {};
  std::string channels = {};
  std::string pieces = {};
  bool unfused = false;
};

struct Request {
  Collective collective = Collective::kAllReduce;
  std::vector<const Algorithm*> algorithms = {};  // the named one, or all that the collective has
  NodeShape shape = NodeShape::uniform(1, 1);
  Rank root = 0;
  uint8_t channels = 1;
  std::optional<uint32_t> pieces = {};
  Fusion fusion = Fusion::kFused;

  // Points into the request.
  [[nodiscard]] CollectiveSpec spec() const;
};

// The sentence names the option. Without ranks or nodes: `default_ranks` on one node.
Result<Request> parse_request(const RequestText& text, Rank default_ranks);

// "1048576" of "1M"; at least 1.
Result<uint64_t> parse_message_bytes(const std::string& text);

// "50GB/s,2us,0.5us": a rail's bandwidth, latency and CPU time per message at either end. The last two may be left away: those
// of InfiniBand.
Result<LinkCost> parse_rail(const std::string& text);

}  // namespace gimbal
