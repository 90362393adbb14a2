// VerbsNetwork over libibverbs: offers, routes, queue pairs, and a trial of each.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "transport/verbs/endpoint.h"
#include "transport/verbs_network.h"

namespace gimbal {
namespace {

// Of a verbs message on hardware; what a measurement says comes before it.
constexpr double kLatencyUs = 2;
constexpr double kOverheadUs = 0.5;
constexpr double kBitsPerByte = 8;
// Between two looks at whether the peers still live.
constexpr int64_t kLookForDeadMs = 100;

std::string describe_link(const VerbsPort& port) {
  const std::string rate = port.gbits > 0 ? ", " + std::to_string(std::lround(port.gbits)) + " Gb/s" : "";
  return describe(port) + " (" + (port.is_infiniband ? "InfiniBand" : "RoCE v2") + rate + ")";
}

// What a rank tells the others: its rails.
Bytes encode(const std::vector<VerbsPort>& ports) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(ports.size()));
  for (const VerbsPort& port : ports) port.write(writer);
  return writer.take();
}
// Empty when the bytes are none.
std::vector<VerbsPort> decode(const Bytes& bytes) {
  ByteReader reader(bytes);
  std::vector<VerbsPort> ports(reader.count(kMaxVerbsRails));
  for (VerbsPort& port : ports) port = VerbsPort::read(reader);
  if (!reader.finished()) ports.clear();
  return ports;
}

// The ranks of a host share its ports: each takes what is nearest to it and, of what is equally near, a part.
std::vector<VerbsPort> choose_rails(std::vector<VerbsPort> ports, const Bootstrap& mesh, const VerbsNetworkOptions& options) {
  if (ports.size() == 1) return ports;
  const std::vector<std::string> nearest = options.nearest();
  const auto is_near = [&](const VerbsPort& port) { return std::ranges::count(nearest, port.device) > 0; };
  if (std::ranges::any_of(ports, is_near)) {
    if (options.settings.rails == 0) std::erase_if(ports, [&](const VerbsPort& port) { return !is_near(port); });
    std::stable_partition(ports.begin(), ports.end(), is_near);
  }
  const auto own = static_cast<size_t>(options.rank);
  const auto is_neighbour = [&](const PeerIdentity& peer) { return peer.node == mesh.peers()[own].node; };
  const auto begin = mesh.peers().begin();
  const auto neighbours = static_cast<size_t>(std::ranges::count_if(mesh.peers(), is_neighbour));
  const auto place = static_cast<size_t>(std::count_if(begin, begin + options.rank, is_neighbour));
  const size_t share = std::max<size_t>(1, ports.size() / neighbours);
  const size_t rails = options.settings.rails != 0 ? options.settings.rails : share;
  std::vector<VerbsPort> rails_of_rank;
  for (size_t i = 0; i < std::min({rails, ports.size(), size_t{kMaxVerbsRails}}); ++i) {
    rails_of_rank.push_back(ports[(place * rails + i) % ports.size()]);
  }
  return rails_of_rank;
}

class Network final : public VerbsNetwork {
 public:
  Network(Bootstrap& mesh, const VerbsNetworkOptions& options) : mesh_(mesh), options_(options), sets_(options.lane_sets) {}

  Status run(Deadline deadline) {
    ASSIGN_OR_RETURN(const std::vector<Bytes> offers, exchange_offers(mesh_, make_offer(), deadline));
    RETURN_IF_ERROR(read_offers(offers));
    RETURN_IF_ERROR(agree(mesh_, find_ways(), deadline));
    RETURN_IF_ERROR(agree(mesh_, make_endpoints(), deadline));
    RETURN_IF_ERROR(exchange_addresses(deadline));
    // Packets to a queue pair that is not connected yet would be sent again only after their time-out.
    RETURN_IF_ERROR(agree(mesh_, connect_endpoints(), deadline));
    return agree(mesh_, try_endpoints(deadline), deadline);
  }

  std::unique_ptr<Endpoint> take_endpoint(Rank peer, size_t lane_set) override {
    std::unique_ptr<VerbsEndpoint> endpoint = std::move(sets_[lane_set].untaken.at(peer));
    return endpoint;
  }
  [[nodiscard]] int fd(size_t lane_set) const override { return sets_[lane_set].poller->fd(); }
  bool may_sleep(size_t lane_set) override { return sets_[lane_set].poller->may_sleep(); }

  void drain(Deadline deadline) override {
    for (LaneSet& set : sets_) {
      const auto has_arrived = [](const VerbsEndpoint* endpoint) { return endpoint->has_arrived(); };
      while (!std::ranges::all_of(set.endpoints, has_arrived) && !deadline.passed()) {
        // A peer that has left, or an error, is nothing that waiting would mend.
        for (VerbsEndpoint* const endpoint : set.endpoints) static_cast<void>(endpoint->progress());
        sched_yield();
      }
    }
  }

  [[nodiscard]] std::string describe() const override {
    std::string text;
    for (const VerbsPort& port : own_) text += (text.empty() ? "" : ", ") + describe_link(port);
    return text;
  }

 private:
  struct LaneSet {
    std::unique_ptr<VerbsPoller> poller;
    std::map<Rank, std::unique_ptr<VerbsEndpoint>> untaken;
    std::vector<VerbsEndpoint*> endpoints;  // in the order of the peers; taken ones belong to who took them
    std::vector<Bytes> addresses;           // of the peers', until they are connected
  };

  [[nodiscard]] const PeerIdentity& identity(Rank rank) const { return mesh_.peers()[static_cast<size_t>(rank)]; }

  Result<Bytes> make_offer() {
    ASSIGN_OR_RETURN(library_, VerbsLibrary::load());
    ASSIGN_OR_RETURN(std::vector<VerbsPort> ports, find_verbs_ports(*library_, options_.settings));
    own_ = choose_rails(std::move(ports), mesh_, options_);
    return encode(own_);
  }

  Status read_offers(const std::vector<Bytes>& offers) {
    for (size_t rank = 0; rank < offers.size(); ++rank) {
      offers_.push_back(decode(offers[rank]));
      if (!offers_.back().empty()) continue;
      return {Code::kInternal, gimbal::describe(mesh_.peers()[rank]) + " sent no list of RDMA ports"};
    }
    return {};
  }

  // The first ports of both sides belong together, the second ones, and so on: one rail each.
  Status find_ways() {
    for (const Rank peer : options_.peers) {
      const std::vector<VerbsPort>& theirs = offers_[static_cast<size_t>(peer)];
      const size_t most = VerbsEndpoint::kMaxPairs / options_.settings.queue_pairs;
      for (size_t rail = 0; rail < std::min({own_.size(), theirs.size(), most}); ++rail) {
        Result<VerbsRoute> route = find_route(own_[rail], theirs[rail], options_.settings);
        if (!route.ok()) {
          return {route.status().code(), "cannot reach " + gimbal::describe(identity(peer)) + ": " + route.status().message()};
        }
        VerbsWay way = {.rail = rail, .route = *route, .name = ""};
        way.name = gimbal::describe(own_[rail]) + " (GID " + gimbal::describe(way.route.local) + ") to " +
                   gimbal::describe(theirs[rail]) + " (GID " + gimbal::describe(way.route.remote) + ")";
        ways_[peer].push_back(std::move(way));
      }
    }
    return {};
  }

  [[nodiscard]] VerbsEndpointOptions endpoint_options(Rank peer) const {
    VerbsEndpointOptions options;
    options.peer = peer;
    options.peer_name = gimbal::describe(identity(peer));
    options.slots = {.channels = options_.channels, .slot_bytes = options_.slot_bytes, .window = options_.window};
    options.ways = ways_.at(peer);
    options.settings = options_.settings;
    options.expected_pairs = options_.peers.size() * options_.settings.queue_pairs;
    options.log = options_.log;
    double gbits = 0;
    for (const VerbsWay& way : options.ways) {
      gbits += std::min(own_[way.rail].gbits, offers_[static_cast<size_t>(peer)][way.rail].gbits);
    }
    options.cost = {
        .latency_us = kLatencyUs, .bandwidth_gbps = std::max(1.0, gbits / kBitsPerByte), .overhead_us = kOverheadUs};
    return options;
  }

  Status make_endpoints() {
    size_t bytes = 0;
    for (const Rank peer : options_.peers) {
      const VerbsEndpointOptions options = endpoint_options(peer);
      bytes += VerbsEndpoint::memory_bytes(options.slots, options.ways.size() * options.settings.queue_pairs);
    }
    for (LaneSet& set : sets_) {
      ASSIGN_OR_RETURN(set.poller, VerbsPoller::create(library_, own_, bytes));
      for (const Rank peer : options_.peers) {
        ASSIGN_OR_RETURN(set.untaken[peer], VerbsEndpoint::create(*set.poller, endpoint_options(peer)));
        set.endpoints.push_back(set.untaken[peer].get());
      }
    }
    return {};
  }

  Status exchange_addresses(Deadline deadline) {
    for (LaneSet& set : sets_) {
      for (const Rank peer : options_.peers) RETURN_IF_ERROR(mesh_.send(peer, set.untaken[peer]->address(), deadline));
    }
    for (LaneSet& set : sets_) {
      for (const Rank peer : options_.peers) {
        ASSIGN_OR_RETURN(Bytes address, mesh_.receive(peer, deadline));
        set.addresses.push_back(std::move(address));
      }
    }
    return {};
  }

  Status connect_endpoints() {
    for (LaneSet& set : sets_) {
      for (size_t i = 0; i < set.endpoints.size(); ++i) RETURN_IF_ERROR(set.endpoints[i]->connect(set.addresses[i]));
      set.addresses.clear();
    }
    return {};
  }

  // After which a peer's packets have arrived or will not: devices take up to four times their time-out.
  [[nodiscard]] int64_t patience_ms() const {
    constexpr double kTimeoutUnitMs = 0.004096;
    constexpr double kDeviceFactor = 4;
    constexpr int64_t kLeastMs = 5000;
    const double tries = options_.settings.retry_count + 1;
    return kLeastMs + static_cast<int64_t>(tries * kDeviceFactor * std::ldexp(kTimeoutUnitMs, options_.settings.timeout));
  }

  // Only a packet that was answered shows that the way is one: GIDs, routes and packet sizes are checked by nobody before.
  Status try_endpoints(Deadline deadline) {
    for (LaneSet& set : sets_) {
      for (VerbsEndpoint* const endpoint : set.endpoints) endpoint->start_trial();
    }
    const Deadline answered = std::min(deadline, Deadline::after_ms(patience_ms()),
                                       [](const Deadline& a, const Deadline& b) { return a.at_ns() < b.at_ns(); });
    Deadline next_look = Deadline::after_ms(kLookForDeadMs);
    for (LaneSet& set : sets_) {
      for (VerbsEndpoint* const endpoint : set.endpoints) {
        while (true) {
          ASSIGN_OR_RETURN(const bool passed, endpoint->trial_passed());
          if (passed) break;
          if (answered.passed()) {
            return {Code::kTimeout, "no packet from " + gimbal::describe(identity(endpoint->peer())) + " over " +
                                        ways_.at(endpoint->peer()).front().name};
          }
          if (next_look.passed()) {
            RETURN_IF_ERROR(mesh_.check_peers());
            next_look = Deadline::after_ms(kLookForDeadMs);
          }
          sched_yield();
        }
      }
    }
    return {};
  }

  Bootstrap& mesh_;
  const VerbsNetworkOptions options_;
  std::shared_ptr<const VerbsLibrary> library_;
  std::vector<VerbsPort> own_;                  // this rank's rails
  std::vector<std::vector<VerbsPort>> offers_;  // by rank
  std::map<Rank, std::vector<VerbsWay>> ways_;
  std::vector<LaneSet> sets_;
};

}  // namespace

Result<std::unique_ptr<VerbsNetwork>> VerbsNetwork::connect(Bootstrap& mesh, const VerbsNetworkOptions& options,
                                                            Deadline deadline) {
  auto network = std::make_unique<Network>(mesh, options);
  RETURN_IF_ERROR(network->run(deadline));
  return std::unique_ptr<VerbsNetwork>(std::move(network));
}

Result<std::vector<std::string>> list_verbs_ports(const VerbsSettings& settings) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const VerbsLibrary> library, VerbsLibrary::load());
  ASSIGN_OR_RETURN(const std::vector<VerbsPort> ports, find_verbs_ports(*library, settings));
  std::vector<std::string> lines;
  for (const VerbsPort& port : ports) {
    ASSIGN_OR_RETURN(const std::unique_ptr<VerbsRail> rail, VerbsRail::open(library, port));
    ASSIGN_OR_RETURN(const bool has_dmabuf, probe_dmabuf(*rail));
    lines.push_back(describe_link(port) + (has_dmabuf ? ", takes GPU memory by dmabuf" : ", no dmabuf"));
  }
  return lines;
}

}  // namespace gimbal
