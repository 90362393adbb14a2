// First contact: a small key-value store that all ranks of a job can reach.
//
// Values are at most kMaxStoreValueBytes; keys at most kMaxStoreKeyBytes. Each wait takes a Deadline. A store is used by one
// thread at a time (the server inside TcpStore and UnixStore serves many clients).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "base/types.h"

namespace gimbal {

inline constexpr size_t kMaxStoreKeyBytes = 256;
inline constexpr size_t kMaxStoreValueBytes = size_t{16} << 20;

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Status set(const std::string& key, std::span<const std::byte> value) = 0;
  // Waits for the key. TIMEOUT names the key.
  virtual Result<std::vector<std::byte>> get(const std::string& key, Deadline deadline) = 0;
  virtual Status wait(const std::string& key, Deadline deadline) = 0;
  // Adds to a counter that begins at 0 and returns its new value.
  virtual Result<int64_t> add(const std::string& key, int64_t amount) = 0;
};

// The store that `rendezvous` names (see gimbal_config_t::rendezvous): tcp://host:port and unix://name are served by rank 0 for
// as long as its Store object lives; memory://name joins threads of one process; file:///path joins processes by a file system.
// A server's address in use, a stranger behind it and an address that does not answer are errors that name the address.
// job_key separates jobs: a client with another key is refused.
Result<std::unique_ptr<Store>> open_store(const std::string& rendezvous, Rank rank, const std::string& job_key,
                                          Deadline deadline);

}  // namespace gimbal
