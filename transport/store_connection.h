// One client of a store's server, after the handshake: a state machine over the bytes that have arrived.
//
// Used by the server's thread only. Memory is taken for bytes that have arrived, never for what a header announces, and a
// client that does not read its answers is not read from.
#pragma once

#include <cstdint>
#include <optional>

#include "base/file_descriptor.h"
#include "transport/store_table.h"
#include "transport/wire.h"

namespace gimbal {

class StoreConnection {
 public:
  explicit StoreConnection(FileDescriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool has_unsent() const { return sent_ < outbox_.size(); }
  // The events that epoll should watch now, and did when set_watched was last called.
  [[nodiscard]] uint32_t wanted_events() const;
  [[nodiscard]] uint32_t watched_events() const { return watched_; }
  void set_watched(uint32_t events) { watched_ = events; }

  // Each returns false when the connection is to be closed.
  bool read(StoreTable& table);
  bool write();
  bool answer_waiter(const StoreTable& table);

 private:
  bool consume(StoreTable& table);
  enum class Taken : uint8_t { kRequest, kNeedsMore, kMalformed };
  Taken take_request(StoreTable& table);
  void serve(const StoreRequest& request, const std::string& key, std::span<const std::byte> value, StoreTable& table);
  void answer(const StoreAnswer& answer, std::span<const std::byte> value);
  void discard(size_t bytes) { inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(bytes)); }

  FileDescriptor socket_;
  uint32_t watched_ = 0;
  Bytes inbox_;
  Bytes outbox_;
  size_t sent_ = 0;
  // The request that waits for a key. A client has one request at a time, so the next one means that it gave this one up.
  struct Waiter {
    StoreRequest request;
    std::string key;
  };
  std::optional<Waiter> waiter_;
};

}  // namespace gimbal
