// Reaching one peer: its addresses are tried in their order, and the first behind which it proves itself is taken.
//
// The next address is tried as soon as one has failed, and after 250 ms (RFC 8305) when the tried ones keep silent, so that an
// address that leads nowhere, or to somebody else, costs a moment and no more. Never waits: an owner polls many dials at once.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "transport/hello.h"

namespace gimbal {

class PeerDial {
 public:
  // An address that is a Unix socket is tried alone while it answers: what shares memory is never reached by another way.
  PeerDial(std::vector<SocketAddress> addresses, const JobKey& key, const Claim& claim);

  // kFailed: every address has; failures() has the reasons.
  HelloClient::Step step();
  FileDescriptor take() { return std::move(connection_); }
  [[nodiscard]] const SocketAddress& address() const { return reached_; }  // of take()
  [[nodiscard]] const Claim& claim() const { return claim_; }

  void add_polled(std::vector<pollfd>& polled) const;
  // When step() has something to do though no event has come.
  [[nodiscard]] int64_t next_start_ns() const;

  // "10.9.0.2:4021 could not be reached (Connection refused); ...": what became of every address so far.
  [[nodiscard]] std::string failures() const;

 private:
  struct Try {
    SocketAddress address;
    std::optional<HelloClient> client = std::nullopt;
    int64_t start_ns = 0;
    bool failed = false;
    std::string failure = {};
  };
  void start_due(int64_t now_ns);
  bool step_one(Try& one);

  JobKey key_;
  Claim claim_;
  std::vector<Try> tries_;
  FileDescriptor connection_;
  SocketAddress reached_;
};

}  // namespace gimbal
