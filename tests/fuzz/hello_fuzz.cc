// Hostile bytes in the keyed handshake: the parsers, and both sides' state machines over real sockets.
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>

#include "tests/fuzz/round_trip.h"
#include "transport/hello.h"

namespace gimbal {
namespace {

const JobKey& key() {
  static const JobKey kKey("fuzz");
  return kKey;
}

void feed_server(std::span<const std::byte> bytes, bool after_hello) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  HelloServer server{FileDescriptor(ends[0])};
  const FileDescriptor client(ends[1]);
  if (after_hello) {
    static_cast<void>(write_some(client.get(), encode(ClientHello{.job = key().id(), .claim = {}, .nonce = {}})));
    if (server.step(key()) != HelloServer::Step::kAgain) std::abort();
  }
  static_cast<void>(write_some(client.get(), bytes));
  if (server.step(key()) == HelloServer::Step::kProven) std::abort();  // it has guessed a proof
}

void feed_client(std::span<const std::byte> bytes, bool after_hello) {
  static const SocketAddress kAddress = abstract_address("gimbal-fuzz-" + to_hex(random_nonce()));
  static const FileDescriptor kListener = listen_on(kAddress).value();
  HelloClient client(kAddress, key(), {});
  const FileDescriptor server = accept_from(kListener.get()).fd;
  if (!server.valid()) std::abort();
  if (after_hello) {
    static_cast<void>(write_some(server.get(), encode(ServerHello{.job = key().id(), .nonce = {}})));
    if (client.step() != HelloClient::Step::kAgain) std::abort();
  }
  static_cast<void>(write_some(server.get(), bytes));
  if (client.step() == HelloClient::Step::kDone) std::abort();
}

}  // namespace
}  // namespace gimbal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  gimbal::expect_round_trip(gimbal::parse_client_hello(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_server_hello(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_verdict(bytes), bytes);
  for (const bool after_hello : {false, true}) {
    gimbal::feed_server(bytes, after_hello);
    gimbal::feed_client(bytes, after_hello);
  }
  return 0;
}
