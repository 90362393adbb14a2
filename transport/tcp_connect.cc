#include "transport/tcp_connect.h"

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <string>

#include "transport/bytes.h"
#include "transport/interfaces.h"
#include "transport/peer_dial.h"

namespace gimbal {
namespace {

// One core moves 4 to 6 GB/s through one connection, copies on both sides included; less than half of it is left to one
// connection of several. So 100 Gb/s take four, and 10 Gb/s one.
constexpr int64_t kMbpsPerStream = 25'000;
constexpr uint32_t kMostByRate = 8;
constexpr uint32_t kByUnknownRate = 2;
// Between two looks at whether the peers still live.
constexpr int kLookForDeadMs = 100;

std::string name_of(const PeerIdentity& peer) {
  return "rank " + std::to_string(peer.rank) + " (pid " + std::to_string(peer.pid) + " on host " + peer.host + ")";
}

void set_port(SocketAddress& address, uint16_t port) {
  if (address.storage.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
    address.text += ":" + std::to_string(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);
    address.text = "[" + address.text + "]:" + std::to_string(port);
  }
}

uint32_t stream_id(uint32_t lane, uint32_t stream) { return lane * kMaxTcpStreams + stream; }

}  // namespace

uint32_t streams_for(int64_t speed_mbps) {
  if (speed_mbps <= 0) return kByUnknownRate;
  return static_cast<uint32_t>(std::clamp<int64_t>((speed_mbps + kMbpsPerStream - 1) / kMbpsPerStream, 1, kMostByRate));
}

TcpConnector::TcpConnector(Bootstrap& mesh, Rank rank, std::unique_ptr<KeyedListener> listener)
    : mesh_(mesh), rank_(rank), key_(mesh.key()), listener_(std::move(listener)) {}

Result<std::unique_ptr<TcpConnector>> TcpConnector::create(Bootstrap& mesh, Rank rank, uint32_t streams, Deadline deadline) {
  GIMBAL_DCHECK(streams <= kMaxTcpStreams);
  ASSIGN_OR_RETURN(PortListener port, listen_on_any_port());
  std::vector<FileDescriptor> listeners;
  listeners.push_back(std::move(port.fd));
  ASSIGN_OR_RETURN(std::unique_ptr<KeyedListener> listener, KeyedListener::create(std::move(listeners)));
  std::unique_ptr<TcpConnector> connector(new TcpConnector(mesh, rank, std::move(listener)));
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> interfaces, list_interfaces());
  for (const InterfaceAddress& one : interfaces) connector->speeds_mbps_[one.interface] = one.speed_mbps;
  RETURN_IF_ERROR(connector->agree(port.port, streams, deadline));
  return connector;
}

int64_t TcpConnector::speed_towards(Rank peer) const {
  const auto found = speeds_mbps_.find(identity(peer).interface);
  return found == speeds_mbps_.end() ? 0 : found->second;
}

Status TcpConnector::agree(uint16_t port, uint32_t streams, Deadline deadline) {
  uint32_t wanted = kMostByRate;
  for (const PeerIdentity& peer : mesh_.peers()) {
    if (peer.rank != rank_) wanted = std::min(wanted, streams_for(speed_towards(peer.rank)));
  }
  const Bytes mine = ByteWriter().u32(port).u32(streams).u32(wanted).take();
  ASSIGN_OR_RETURN(const std::vector<Bytes> all, mesh_.all_gather(mine, deadline));
  uint32_t first = 0;
  streams_ = kMostByRate;
  for (size_t peer = 0; peer < all.size(); ++peer) {
    ByteReader reader(all[peer]);
    ports_.push_back(static_cast<uint16_t>(reader.u32()));
    const uint32_t given = reader.u32();
    streams_ = std::min(streams_, std::max<uint32_t>(1, reader.u32()));
    if (!reader.finished() || given > kMaxTcpStreams) {
      return {Code::kInternal, name_of(identity(static_cast<Rank>(peer))) + " sent no port of data streams"};
    }
    if (peer == 0) first = given;
    if (given != first) {
      const auto text = [](uint32_t count) { return count == 0 ? "not set" : std::to_string(count); };
      return {Code::kMismatch, "GIMBAL_TCP_STREAMS is " + text(first) + " on rank 0, " + text(given) + " on rank " +
                                   std::to_string(peer) + "; it must be equal on all ranks"};
    }
  }
  if (first > 0) streams_ = first;
  return {};
}

TcpEndpointOptions TcpConnector::describe(Rank peer) const {
  TcpEndpointOptions options;
  options.peer = peer;
  options.peer_name = name_of(identity(peer));
  // Of a local network; what a measurement says comes before it.
  constexpr double kLatencyUs = 30;
  constexpr double kOverheadUs = 5;
  constexpr double kUnknownGbps = 1.25;
  const int64_t mbps = speed_towards(peer);
  options.cost = {.latency_us = kLatencyUs,
                  .bandwidth_gbps = mbps > 0 ? static_cast<double>(mbps) / 8000 : kUnknownGbps,
                  .overhead_us = kOverheadUs};
  return options;
}

void TcpConnector::accept() {
  const auto expects = [this](const Claim& claim) {
    return claim.purpose == Purpose::kData && claim.to == rank_ && claim.from > rank_ &&
           static_cast<size_t>(claim.from) < ports_.size() && !arrived_.contains({claim.from, claim.stream});
  };
  for (AcceptedConnection& accepted : listener_->progress(key_, expects)) {
    const Place place = {accepted.claim.from, accepted.claim.stream};
    arrived_.try_emplace(place, std::move(accepted.socket));  // of two for one place the first stays
  }
}

// One call of connect().
class TcpConnector::Attempt {
 public:
  Attempt(TcpConnector& connector, std::span<const Rank> peers, uint32_t lane, uint32_t streams)
      : connector_(connector), peers_(peers), lane_(lane), streams_(streams), sockets_(peers.size()) {}

  Result<std::vector<std::vector<FileDescriptor>>> run(Deadline deadline) {
    for (size_t i = 0; i < peers_.size(); ++i) {
      sockets_[i].resize(streams_);
      missing_ += streams_;
      if (peers_[i] < connector_.rank_) RETURN_IF_ERROR(dial(i));
    }
    while (true) {
      RETURN_IF_ERROR(step_dials());
      connector_.accept();
      take_arrived();
      if (missing_ == 0) return std::move(sockets_);
      if (deadline.passed()) return late();
      wait(deadline);
      RETURN_IF_ERROR(connector_.mesh_.check_peers());
    }
  }

 private:
  struct Dial {
    size_t index;  // of the peer
    PeerDial dial;
  };

  Status dial(size_t index) {
    const PeerIdentity& peer = connector_.identity(peers_[index]);
    if (!peer.address) return {Code::kUnsupported, name_of(peer) + " has no TCP address that this host can reach"};
    SocketAddress address = *peer.address;
    set_port(address, connector_.ports_[static_cast<size_t>(peer.rank)]);
    for (uint32_t stream = 0; stream < streams_; ++stream) {
      const Claim claim = {
          .purpose = Purpose::kData, .from = connector_.rank_, .to = peer.rank, .stream = stream_id(lane_, stream)};
      dials_.push_back({index, PeerDial({address}, connector_.key_, claim)});
    }
    return {};
  }

  Status step_dials() {
    for (Dial& one : dials_) {
      switch (one.dial.step()) {
        case HelloClient::Step::kAgain:
          break;
        case HelloClient::Step::kDone:
          keep(one.index, one.dial.claim().stream % kMaxTcpStreams, one.dial.take());
          break;
        case HelloClient::Step::kFailed:
          return {Code::kRemote,
                  name_of(connector_.identity(peers_[one.index])) + " does not take data streams: " + one.dial.failures()};
      }
    }
    std::erase_if(dials_,
                  [this](const Dial& one) { return sockets_[one.index][one.dial.claim().stream % kMaxTcpStreams].valid(); });
    return {};
  }

  void take_arrived() {
    for (size_t i = 0; i < peers_.size(); ++i) {
      for (uint32_t stream = 0; stream < streams_; ++stream) {
        const auto found = connector_.arrived_.find({peers_[i], stream_id(lane_, stream)});
        if (found == connector_.arrived_.end()) continue;
        keep(i, stream, std::move(found->second));
        connector_.arrived_.erase(found);
      }
    }
  }

  void keep(size_t index, uint32_t stream, FileDescriptor socket) {
    FileDescriptor& place = sockets_[index][stream];
    if (place.valid() || !socket.valid()) return;
    place = std::move(socket);
    --missing_;
  }

  void wait(Deadline deadline) {
    std::vector<pollfd> polled = {{.fd = connector_.listener_->fd(), .events = POLLIN, .revents = 0}};
    int64_t next_ns = deadline.at_ns();
    for (const Dial& one : dials_) {
      one.dial.add_polled(polled);
      next_ns = std::min(next_ns, one.dial.next_start_ns());
    }
    const int64_t left_ms = std::max<int64_t>(0, (next_ns - monotonic_ns() + 999'999) / 1'000'000);
    poll(polled.data(), polled.size(), static_cast<int>(std::min<int64_t>(left_ms, kLookForDeadMs)));
  }

  Status late() const {
    std::string ranks;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const bool complete =
          std::all_of(sockets_[i].begin(), sockets_[i].end(), [](const FileDescriptor& one) { return one.valid(); });
      if (!complete) ranks += (ranks.empty() ? "" : ", ") + name_of(connector_.identity(peers_[i]));
    }
    return {Code::kTimeout,
            "no data streams at the deadline between rank " + std::to_string(connector_.rank_) + " and " + ranks};
  }

  TcpConnector& connector_;
  const std::span<const Rank> peers_;
  const uint32_t lane_;
  const uint32_t streams_;
  std::vector<std::vector<FileDescriptor>> sockets_;
  size_t missing_ = 0;
  std::vector<Dial> dials_;
};

Result<std::vector<std::vector<FileDescriptor>>> TcpConnector::connect(std::span<const Rank> peers, uint32_t lane,
                                                                       uint32_t streams, Deadline deadline) {
  GIMBAL_DCHECK(streams >= 1 && streams <= kMaxTcpStreams);
  return Attempt(*this, peers, lane, streams).run(deadline);
}

}  // namespace gimbal
