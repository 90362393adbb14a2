// Two verbs endpoints within the process, each on a poller of its own, over the devices that GIMBAL_IBV_SO (or libibverbs) has.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/transport/endpoint_exchange.h"
#include "transport/verbs/endpoint.h"

namespace gimbal::testing {

struct VerbsPairOptions {
  size_t rails = 1;
  uint32_t queue_pairs = 1;
  bool crosses = true;   // a rail leads from one port to another; else from each to itself
  uint8_t timeout = 12;  // 17 ms until a packet is sent again
  Log log = Log(LogLevel::kError);
};

struct VerbsPairPollers {
  std::shared_ptr<const VerbsLibrary> library;
  std::unique_ptr<VerbsPoller> a;
  std::unique_ptr<VerbsPoller> b;
};

inline std::vector<VerbsPort> usable_ports() {
  const auto library = VerbsLibrary::load();
  if (!library.ok()) return {};
  const auto ports = find_verbs_ports(**library, {});
  return ports.ok() ? *ports : std::vector<VerbsPort>();
}

struct VerbsPair {
  std::shared_ptr<VerbsPairPollers> pollers;
  std::unique_ptr<VerbsEndpoint> a;
  std::unique_ptr<VerbsEndpoint> b;
};

inline VerbsPair make_verbs_pair(const VerbsPairOptions& options, Channel channels, size_t slot_bytes, size_t window) {
  VerbsPair pair;
  pair.pollers = std::make_shared<VerbsPairPollers>();
  pair.pollers->library = VerbsLibrary::load().value();
  const std::vector<VerbsPort> ports = usable_ports();
  VerbsEndpointOptions common;
  common.slots = {.channels = channels, .slot_bytes = slot_bytes, .window = window};
  common.settings.queue_pairs = options.queue_pairs;
  common.settings.timeout = options.timeout;
  common.expected_pairs = options.queue_pairs;
  common.log = options.log;
  const size_t bytes = VerbsEndpoint::memory_bytes(common.slots, options.rails * options.queue_pairs);
  const auto side = [&](Rank peer, size_t first, std::unique_ptr<VerbsPoller>& poller) {
    VerbsEndpointOptions side_options = common;
    side_options.peer = peer;
    side_options.peer_name = "rank " + std::to_string(peer) + " (pid 7 on host b)";
    std::vector<VerbsPort> mine;
    for (size_t rail = 0; rail < options.rails; ++rail) {
      const VerbsPort& local = ports[(rail + (options.crosses ? first : 0)) % ports.size()];
      const VerbsPort& remote = ports[(rail + (options.crosses ? 1 - first : 0)) % ports.size()];
      mine.push_back(local);
      VerbsWay way = {.rail = rail, .route = find_route(local, remote, common.settings).value(), .name = ""};
      way.name = describe(local) + " (GID " + describe(way.route.local) + ") to " + describe(remote) + " (GID " +
                 describe(way.route.remote) + ")";
      side_options.ways.push_back(std::move(way));
    }
    poller = VerbsPoller::create(pair.pollers->library, mine, bytes).value();
    return VerbsEndpoint::create(*poller, side_options).value();
  };
  pair.a = side(1, 0, pair.pollers->a);
  pair.b = side(0, 1, pair.pollers->b);
  const Status there = pair.a->connect(pair.b->address());
  const Status back = pair.b->connect(pair.a->address());
  if (!there.ok() || !back.ok()) throw std::runtime_error(there.message() + back.message());
  return pair;
}

}  // namespace gimbal::testing
