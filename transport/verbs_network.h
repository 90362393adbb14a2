// The verbs links of one rank to ranks of other nodes: how ranks find out whether all of them can use InfiniBand or RoCE with
// each other, and the connections when they can.
//
// Every step ends with an exchange over the mesh, so that all ranks come to the same end: connections that have carried a
// packet each way, or one sentence why there are none.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/bootstrap.h"
#include "transport/bytes.h"
#include "transport/endpoint.h"
#include "transport/verbs_settings.h"

namespace gimbal {

struct VerbsNetworkOptions {
  Rank rank = 0;
  std::vector<Rank> peers;  // on other nodes; each names this rank too
  size_t lane_sets = 1;     // of endpoints to each peer; each may be driven by a thread of its own
  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t window = 0;
  VerbsSettings settings;
  // The devices nearest to this process, all equally near; none when it is not known. Asked when there is a choice.
  std::function<std::vector<std::string>()> nearest = [] { return std::vector<std::string>(); };
  Log log;
};

class VerbsNetwork {
 public:
  VerbsNetwork() = default;
  VerbsNetwork(const VerbsNetwork&) = delete;
  VerbsNetwork& operator=(const VerbsNetwork&) = delete;
  virtual ~VerbsNetwork() = default;

  // Collective; the queue pairs and the MTU of the settings are equal on all ranks. An error is the same on all ranks and names
  // those that it is about: UNSUPPORTED when no rank has a device, MISMATCH when only some have, or what went wrong on one.
  static Result<std::unique_ptr<VerbsNetwork>> connect(Bootstrap& mesh, const VerbsNetworkOptions& options, Deadline deadline);

  // Once for each peer and lane set; the network must outlive the endpoint.
  virtual std::unique_ptr<Endpoint> take_endpoint(Rank peer, size_t lane_set) = 0;
  // See VerbsPoller.
  [[nodiscard]] virtual int fd(size_t lane_set) const = 0;
  virtual bool may_sleep(size_t lane_set) = 0;
  // Until the peers' devices have taken all that was sent, or the deadline.
  virtual void drain(Deadline deadline) = 0;
  // "mlx5_0:1 (RoCE v2, 400 Gb/s)", for people.
  [[nodiscard]] virtual std::string describe() const = 0;
};

// "rank 2 (pid 77 on host b)"
std::string describe(const PeerIdentity& peer);

// What every rank has to offer, by rank; or, of the first that has nothing, why.
Result<std::vector<Bytes>> exchange_offers(Bootstrap& mesh, const Result<Bytes>& mine, Deadline deadline);
// OK when it is on all ranks; else the first rank's failure, with its name before it.
Status agree(Bootstrap& mesh, const Status& mine, Deadline deadline);

// The ports of this host that could be used, one per line ("rxe0:1 (RoCE v2, 1 Gb/s), dmabuf no"); an error says why there are
// none. For gimbal-topo.
Result<std::vector<std::string>> list_verbs_ports(const VerbsSettings& settings);

}  // namespace gimbal
