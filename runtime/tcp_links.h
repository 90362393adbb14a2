// RemoteLinks over TCP.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "runtime/node_memory.h"
#include "runtime/remote_links.h"
#include "transport/socket_poller.h"
#include "transport/tcp_connect.h"

namespace gimbal {

class TcpLinks final : public RemoteLinks {
 public:
  // Collective.
  static Result<std::unique_ptr<RemoteLinks>> connect(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                      const EndpointShape& shape, Deadline deadline);

  Result<std::unique_ptr<Endpoint>> make_endpoint(Rank peer, size_t lane_set) override;
  void drain(Deadline deadline) override;
  [[nodiscard]] bool may_sleep(size_t lane_set) override { return sets_[lane_set].poller->may_sleep(); }
  [[nodiscard]] int descriptor(size_t lane_set) const override { return sets_[lane_set].poller->fd(); }
  [[nodiscard]] std::string describe() const override;

 private:
  struct LaneSet {
    std::unique_ptr<SocketPoller> poller;
    std::vector<std::vector<FileDescriptor>> streams;  // by rank, until its endpoint is made
    std::vector<int> in_use;                           // of the endpoints, which own them
  };

  EndpointShape shape_;
  std::unique_ptr<TcpConnector> connector_;
  std::array<LaneSet, NodeLayout::kLaneSets> sets_;
};

}  // namespace gimbal
