#include "transport/store.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "transport/hello.h"
#include "transport/interfaces.h"
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

// One part of a rendezvous that is served by rank 0.
struct Place {
  std::vector<SocketAddress> addresses;
  bool is_name = false;  // of a host, which it may know by an address that others do not, such as 127.0.1.1
};

Result<Place> find_unix_place(const std::string& name, const std::string& text) {
  // Users do not meet by accident; against intent there is the job key.
  const std::string full_name = "gimbal-" + std::to_string(getuid()) + "-" + name;
  if (full_name.size() > kMaxAbstractNameBytes) {
    return Status(Code::kInvalidArgument,
                  "rendezvous name \"" + name + "\" has " + std::to_string(name.size()) + " bytes: at most " +
                      std::to_string(kMaxAbstractNameBytes - (full_name.size() - name.size())) + " are allowed");
  }
  SocketAddress address = abstract_address(full_name);
  address.text = text;
  return Place{.addresses = {address}};
}

Result<Place> find_place(const std::string& text) {
  const size_t separator = text.find("://");
  const std::string scheme = text.substr(0, separator);
  const std::string rest = separator == std::string::npos ? "" : text.substr(separator + 3);
  if (!rest.empty() && scheme == "unix") return find_unix_place(rest, text);
  if (!rest.empty() && scheme == "tcp") {
    Place place;
    ASSIGN_OR_RETURN(place.addresses, resolve_tcp(rest));
    place.is_name = is_host_name(rest);
    return place;
  }
  return Status(Code::kInvalidArgument,
                "rendezvous \"" + text + "\" is not tcp://host:port, unix://name, file:///path or memory://name");
}

// A place that is given by name is served at all addresses of this host, if one of them is meant.
Result<FileDescriptor> listen_at(const Place& place) {
  if (!place.is_name) return listen_on(place.addresses.front());
  Status failure;
  for (const SocketAddress& address : place.addresses) {
    Result<FileDescriptor> socket = listen_on(address);
    if (socket.ok()) {
      socket->reset();
      return listen_on_port(port_of(address));
    }
    if (failure.ok()) failure = socket.status();
  }
  return failure;
}

// When rank 0 finds its address in use, it may be by a rank 0 of the same job: then both are to be told, by the rank that
// counts.
Result<std::unique_ptr<Store>> join_other_rank_0(const std::vector<SocketAddress>& addresses, const std::string& rendezvous,
                                                 const JobKey& key, const Status& in_use) {
  // A store answers within a round trip; silent programs must not keep rank 0 from saying that its address is taken.
  constexpr int64_t kAnswersWithinMs = 1000;
  for (const SocketAddress& address : addresses) {
    HelloClient hello(address, key, {.purpose = Purpose::kStore});
    if (!run_hello(hello, Deadline::after_ms(kAnswersWithinMs)).ok()) continue;
    return std::unique_ptr<Store>(StoreClient::adopt(hello.take(), rendezvous));
  }
  return in_use;
}

Result<std::unique_ptr<Store>> serve(const std::vector<Place>& places, const std::vector<SocketAddress>& addresses,
                                     const std::string& rendezvous, const JobKey& key) {
  Status failure;
  for (const Place& place : places) {
    Result<FileDescriptor> socket = listen_at(place);
    if (!socket.ok()) {
      if (failure.ok()) failure = socket.status();
      continue;
    }
    std::vector<FileDescriptor> sockets;
    sockets.push_back(std::move(socket).value());
    ASSIGN_OR_RETURN(std::unique_ptr<StoreServer> server, StoreServer::start(std::move(sockets), key));
    return std::unique_ptr<Store>(new ServedStore(std::move(server)));
  }
  return join_other_rank_0(addresses, rendezvous, key, failure);
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(const std::string& rendezvous, Rank rank, const std::string& job_key,
                                          Deadline deadline) {
  for (const std::string_view scheme : {"memory://", "file://"}) {
    if (!rendezvous.starts_with(scheme) || rendezvous.size() == scheme.size()) continue;
    const std::string rest = rendezvous.substr(scheme.size());
    return scheme == "memory://" ? open_memory_store(rest, job_key) : open_file_store(rest, rank, job_key, deadline);
  }
  std::vector<Place> places;
  std::vector<SocketAddress> addresses;
  for (size_t begin = 0; begin <= rendezvous.size();) {
    const size_t end = std::min(rendezvous.find(',', begin), rendezvous.size());
    ASSIGN_OR_RETURN(Place place, find_place(rendezvous.substr(begin, end - begin)));
    addresses.insert(addresses.end(), place.addresses.begin(), place.addresses.end());
    places.push_back(std::move(place));
    begin = end + 1;
  }
  const JobKey key(job_key);
  if (rank == 0) return serve(places, addresses, rendezvous, key);
  ASSIGN_OR_RETURN(std::unique_ptr<Store> client, StoreClient::connect(addresses, rendezvous, key, rank, deadline));
  return client;
}

Result<PublishedStore> serve_store_anywhere(const std::string& interfaces, const std::string& job_key) {
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> available, list_interfaces());
  Result<std::vector<InterfaceAddress>> admitted = admit_interfaces(available, interfaces);
  if (!admitted.ok()) return Status(admitted.status().code(), "GIMBAL_SOCKET_IFNAME: " + admitted.status().message());

  PublishedStore published;
  published.rendezvous = "unix://" + to_hex(random_nonce());
  ASSIGN_OR_RETURN(const Place here, find_place(published.rendezvous));
  std::vector<FileDescriptor> sockets(1);
  ASSIGN_OR_RETURN(sockets[0], listen_at(here));
  const std::vector<TcpCandidate> candidates = offer(*admitted);
  if (!candidates.empty()) {
    ASSIGN_OR_RETURN(PortListener listener, listen_on_any_port());
    sockets.push_back(std::move(listener.fd));
    for (const TcpCandidate& candidate : candidates) {
      if (is_link_local(candidate.ip)) continue;  // its scope means nothing on another host
      const std::string address = ",tcp://" + make_tcp_address(candidate.ip, listener.port, 0).text;
      if (published.rendezvous.size() + address.size() > kMaxPublishedBytes) break;
      published.rendezvous += address;
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<StoreServer> server, StoreServer::start(std::move(sockets), JobKey(job_key)));
  published.store = std::make_unique<ServedStore>(std::move(server));
  return published;
}

}  // namespace gimbal
