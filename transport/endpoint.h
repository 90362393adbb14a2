// A link to one peer: in-order messages of at most slot_bytes() on each of a fixed number of channels.
//
// An endpoint moves bytes and never adds them: it lends the sender a slot to fill and the receiver the span that arrived, so
// that the executor reduces straight out of the transport's memory. Nothing here waits: an empty optional means "again", and
// the executor's outer loop decides how to wait. Every executor, test and simulator-side model relies on exactly this contract,
// and tests/unit/transport/endpoint_conformance.h checks it for each implementation.
//
// Contract
// 1. Per channel, messages arrive in the order of their commits, each with its tag and exactly its bytes.
// 2. acquire() gives a span of at least the bytes asked for (<= slot_bytes()), or nothing when the window is full. A second
//    acquire() without commit() returns the same slot.
// 3. commit() publishes the slot acquired last on that channel. At least window() messages can be committed before the
//    peer releases one.
// 4. front() lends the oldest message not yet released; the span stays valid until release().
// 5. An error is REMOTE, ABORTED or INTERNAL, names the peer, and is final for the endpoint.
//
// Thread safety: one thread at a time per endpoint. The two sides of a pair are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/link_cost.h"
#include "base/status.h"
#include "base/types.h"

namespace gimbal {

using Channel = uint8_t;

struct LinkProperties {
  LinkCost cost;
  bool shares_memory = false;  // peers can map each other's registered memory
};

struct ReceivedMessage {
  std::span<const std::byte> bytes;
  uint64_t tag = 0;
};

class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  virtual ~Endpoint() = default;

  [[nodiscard]] virtual Rank peer() const = 0;
  [[nodiscard]] virtual const LinkProperties& properties() const = 0;
  [[nodiscard]] virtual size_t slot_bytes() const = 0;
  [[nodiscard]] virtual size_t window() const = 0;  // messages
  [[nodiscard]] virtual Channel channels() const = 0;

  virtual Result<std::optional<std::span<std::byte>>> acquire(Channel channel, size_t bytes) = 0;
  virtual Status commit(Channel channel, size_t bytes, uint64_t tag) = 0;
  virtual Result<std::optional<ReceivedMessage>> front(Channel channel) = 0;
  virtual void release(Channel channel) = 0;

  // Moves what needs moving (sockets, completions); a no-op where memory does it. An endpoint that overrides it says so by
  // needs_progress(), so that the others are not called.
  virtual Status progress() { return {}; }
  [[nodiscard]] virtual bool needs_progress() const { return false; }
  // Committed bytes that only further calls of progress() give to the link. An operation has not ended before they are gone:
  // the peer waits for them, and nobody may call progress() afterwards.
  [[nodiscard]] virtual bool has_unsent() const { return false; }
};

}  // namespace gimbal
