#include "runtime/tcp_links.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "transport/descriptor_limit.h"
#include "transport/tcp_endpoint.h"

namespace gimbal {
namespace {

// Between ranks of one host, where tcp is forced or nodes are emulated, memory is the wire: a second stream only adds system
// calls.
constexpr uint32_t kStreamsOnOneHost = 1;

uint32_t wanted_streams(const Bootstrap& mesh, const Settings& settings) {
  if (settings.tcp_streams > 0) return settings.tcp_streams;
  const std::vector<PeerIdentity>& peers = mesh.peers();
  const bool one_host = std::ranges::all_of(peers, [&](const PeerIdentity& peer) { return peer.node == peers[0].node; });
  return one_host ? kStreamsOnOneHost : 0;
}

}  // namespace

Result<std::unique_ptr<RemoteLinks>> TcpLinks::connect(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                       const EndpointShape& shape, Deadline deadline) {
  std::vector<Rank> peers;
  for (Rank peer = 0; peer < nodes.nranks(); ++peer) {
    if (nodes.node_of(peer) != nodes.node_of(settings.rank)) peers.push_back(peer);
  }
  auto links = std::make_unique<TcpLinks>();
  links->shape_ = shape;
  ASSIGN_OR_RETURN(links->connector_, TcpConnector::create(mesh, settings.rank, wanted_streams(mesh, settings), deadline));
  const uint32_t streams = links->connector_->streams();
  RETURN_IF_ERROR(reserve_descriptors(peers.size() * streams * links->sets_.size()));
  for (size_t lane_set = 0; lane_set < links->sets_.size(); ++lane_set) {
    LaneSet& set = links->sets_[lane_set];
    ASSIGN_OR_RETURN(set.poller, SocketPoller::create(settings.tcp_io));
    ASSIGN_OR_RETURN(std::vector<std::vector<FileDescriptor>> sockets,
                     links->connector_->connect(peers, static_cast<uint32_t>(lane_set), streams, deadline));
    set.streams.resize(static_cast<size_t>(nodes.nranks()));
    for (size_t i = 0; i < peers.size(); ++i) set.streams[static_cast<size_t>(peers[i])] = std::move(sockets[i]);
  }
  // Nobody leaves, or fails in its first operation, while others still connect.
  RETURN_IF_ERROR(mesh.all_gather({}, deadline).status());
  return std::unique_ptr<RemoteLinks>(std::move(links));
}

std::string TcpLinks::describe() const {
  const uint32_t streams = connector_->streams();
  return "TCP, " + std::to_string(streams) + (streams == 1 ? " stream a peer" : " streams a peer");
}

Result<std::unique_ptr<Endpoint>> TcpLinks::make_endpoint(Rank peer, size_t lane_set) {
  LaneSet& set = sets_[lane_set];
  std::vector<FileDescriptor> streams = std::move(set.streams[static_cast<size_t>(peer)]);
  for (const FileDescriptor& stream : streams) set.in_use.push_back(stream.get());
  TcpEndpointOptions options = connector_->describe(peer);
  options.channels = shape_.channels;
  options.slot_bytes = shape_.slot_bytes;
  options.window = shape_.window;
  ASSIGN_OR_RETURN(std::unique_ptr<TcpEndpoint> endpoint, TcpEndpoint::create(options, std::move(streams), *set.poller));
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

void TcpLinks::drain(Deadline deadline) {
  const auto is_taken = [](int socket) {
    int bytes = 0;
    return ioctl(socket, SIOCOUTQ, &bytes) != 0 || bytes == 0;
  };
  // Nothing can be polled for this; a link takes about as long to deliver what its socket holds.
  constexpr int kLookAgainMs = 1;
  for (const LaneSet& set : sets_) {
    while (!std::ranges::all_of(set.in_use, is_taken) && !deadline.passed()) poll(nullptr, 0, kLookAgainMs);
  }
}

}  // namespace gimbal
