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
// A list "tcp://host:4021,tcp://host:4022" of the first two kinds is served at the first that is free and looked for at all; a
// host's name, unlike an address, at every address of the host. A second rank 0 of a job gets a client's store, so that joining
// finds out that rank 0 joined twice.
// job_key separates jobs: a client with another key is refused.
Result<std::unique_ptr<Store>> open_store(const std::string& rendezvous, Rank rank, const std::string& job_key,
                                          Deadline deadline);

// A store at addresses that nobody has to know beforehand, for launchers that pass a word from rank 0 to the others.
struct PublishedStore {
  std::unique_ptr<Store> store;
  std::string rendezvous;  // for the others' open_store(); at most kMaxPublishedBytes
};
inline constexpr size_t kMaxPublishedBytes = 512;  // what every PMI carries in one value, and a key with it
Result<PublishedStore> serve_store_anywhere(const std::string& interfaces, const std::string& job_key);

}  // namespace gimbal
