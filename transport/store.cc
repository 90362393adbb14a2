#include "transport/store.h"

#include <unistd.h>

#include "transport/store_client.h"
#include "transport/store_server.h"
#include "transport/stores.h"

namespace gimbal {
namespace {

// Rank 0's own view of the table that it serves.
class ServedStore : public Store {
 public:
  explicit ServedStore(std::unique_ptr<StoreServer> server) : server_(std::move(server)) {}

  Status set(const std::string& key, std::span<const std::byte> value) override {
    RETURN_IF_ERROR(check_store_value(key, value));
    server_->table().set(key, value);
    return {};
  }
  Result<Bytes> get(const std::string& key, Deadline deadline) override {
    RETURN_IF_ERROR(check_store_key(key));
    return server_->table().get(key, deadline);
  }
  Status wait(const std::string& key, Deadline deadline) override { return get(key, deadline).status(); }
  Result<int64_t> add(const std::string& key, int64_t amount) override {
    RETURN_IF_ERROR(check_store_key(key));
    return server_->table().add(key, amount);
  }

 private:
  std::unique_ptr<StoreServer> server_;
};

Result<std::unique_ptr<Store>> serve_or_connect(const std::vector<SocketAddress>& addresses, const std::string& rendezvous,
                                                Rank rank, const std::string& job_key, Deadline deadline) {
  const JobKey key(job_key);
  if (rank == 0) {
    ASSIGN_OR_RETURN(std::unique_ptr<StoreServer> server, StoreServer::start(addresses.front(), key));
    return std::unique_ptr<Store>(new ServedStore(std::move(server)));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Store> client, StoreClient::connect(addresses, rendezvous, key, rank, deadline));
  return client;
}

Result<std::unique_ptr<Store>> open_unix_store(const std::string& name, const std::string& rendezvous, Rank rank,
                                               const std::string& job_key, Deadline deadline) {
  // Users do not meet by accident; against intent there is the job key.
  const std::string full_name = "gimbal-" + std::to_string(getuid()) + "-" + name;
  if (full_name.size() > kMaxAbstractNameBytes) {
    return Status(Code::kInvalidArgument,
                  "rendezvous name \"" + name + "\" has " + std::to_string(name.size()) + " bytes: at most " +
                      std::to_string(kMaxAbstractNameBytes - (full_name.size() - name.size())) + " are allowed");
  }
  SocketAddress address = abstract_address(full_name);
  address.text = rendezvous;
  return serve_or_connect({address}, rendezvous, rank, job_key, deadline);
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(const std::string& rendezvous, Rank rank, const std::string& job_key,
                                          Deadline deadline) {
  const size_t separator = rendezvous.find("://");
  const std::string scheme = rendezvous.substr(0, separator);
  const std::string rest = separator == std::string::npos ? "" : rendezvous.substr(separator + 3);
  if (!rest.empty()) {
    if (scheme == "memory") return open_memory_store(rest, job_key);
    if (scheme == "file") return open_file_store(rest, rank, job_key, deadline);

    if (scheme == "unix") return open_unix_store(rest, rendezvous, rank, job_key, deadline);
    if (scheme == "tcp") {
      ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, resolve_tcp(rest));
      return serve_or_connect(addresses, rendezvous, rank, job_key, deadline);
    }
  }
  return Status(Code::kInvalidArgument,
                "rendezvous \"" + rendezvous + "\" is not tcp://host:port, unix://name, file:///path or memory://name");
}

}  // namespace gimbal
