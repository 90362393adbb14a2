// The data streams between ranks of different nodes: several connections to each peer, behind the keyed handshake.
//
// Every rank listens on a port of its own and dials the ranks below it, at the address where the mesh found them. What each
// connection is for stands in its claim, so a peer that is ahead may dial for the next call already.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/bootstrap.h"
#include "transport/keyed_listener.h"
#include "transport/tcp_endpoint.h"

namespace gimbal {

inline constexpr uint32_t kMaxTcpStreams = 64;

// How many connections fill an interface of this rate; 0: an unknown rate.
uint32_t streams_for(int64_t speed_mbps);

class TcpConnector {
 public:
  // Collective among the mesh's ranks, which say where they listen. `streams`: GIMBAL_TCP_STREAMS, or 0: what the slowest
  // interface towards a peer wants. MISMATCH when ranks were given different numbers. The mesh must outlive the
  // connector.
  static Result<std::unique_ptr<TcpConnector>> create(Bootstrap& mesh, Rank rank, uint32_t streams, Deadline deadline);

  // The number that all ranks agreed on.
  [[nodiscard]] uint32_t streams() const { return streams_; }

  // Sockets to these peers, `streams` to each, in the order of `peers`. Collective among every two ranks that name each other:
  // both name the same lane and number, and a lane is connected once.
  Result<std::vector<std::vector<FileDescriptor>>> connect(std::span<const Rank> peers, uint32_t lane, uint32_t streams,
                                                           Deadline deadline);

  // What the endpoint to a peer is called, and what its interface promises.
  [[nodiscard]] TcpEndpointOptions describe(Rank peer) const;

 private:
  class Attempt;
  using Place = std::pair<Rank, uint32_t>;  // of a connection that a peer made: it, and its claim's stream

  TcpConnector(Bootstrap& mesh, Rank rank, std::unique_ptr<KeyedListener> listener);
  Status agree(uint16_t port, uint32_t streams, Deadline deadline);
  void accept();
  [[nodiscard]] const PeerIdentity& identity(Rank peer) const { return mesh_.peers()[static_cast<size_t>(peer)]; }
  [[nodiscard]] int64_t speed_towards(Rank peer) const;

  Bootstrap& mesh_;
  const Rank rank_;
  const JobKey key_;
  const std::unique_ptr<KeyedListener> listener_;
  std::map<std::string, int64_t> speeds_mbps_;  // by interface
  uint32_t streams_ = 1;
  std::vector<uint16_t> ports_;              // by rank
  std::map<Place, FileDescriptor> arrived_;  // for this call of connect(), or for a later one
};

}  // namespace gimbal
