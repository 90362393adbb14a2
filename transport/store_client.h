// A store over one connection to rank 0's server (transport/store_server.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/job_key.h"
#include "transport/socket.h"
#include "transport/store.h"
#include "transport/store_table.h"
#include "transport/wire.h"

namespace gimbal {

class StoreClient : public Store {
 public:
  // Tries all addresses at once, again and again until somebody listens. A stranger is an error that names the address, at once
  // when it says something that no store says and at the deadline when it says nothing; so is a server of a job with another
  // key. With several addresses an error waits until it is that of all of them.
  static Result<std::unique_ptr<StoreClient>> connect(const std::vector<SocketAddress>& addresses,
                                                      const std::string& rendezvous, const JobKey& key, Rank rank,
                                                      Deadline deadline);

  // Over a connection whose handshake has ended.
  static std::unique_ptr<StoreClient> adopt(FileDescriptor socket, const std::string& rendezvous);

  Status set(const std::string& key, std::span<const std::byte> value) override;
  Result<Bytes> get(const std::string& key, Deadline deadline) override;
  Status wait(const std::string& key, Deadline deadline) override;
  Result<int64_t> add(const std::string& key, int64_t amount) override;

 private:
  struct Answer {
    StoreAnswer header;
    Bytes value;
  };
  StoreClient(FileDescriptor socket, std::string server) : socket_(std::move(socket)), server_(std::move(server)) {}
  Result<Answer> ask(StoreRequest request, const std::string& key, std::span<const std::byte> value, Deadline deadline);
  Result<Answer> read_answer(uint32_t id, const std::string& key, Deadline deadline);
  [[nodiscard]] Status server_is_gone() const;
  Result<Bytes> look(StoreOp op, const std::string& key, Deadline deadline);

  FileDescriptor socket_;
  std::string server_;  // for messages
  uint32_t last_id_ = 0;
  Bytes inbox_;  // what has arrived of an answer; it survives a deadline
};

}  // namespace gimbal
