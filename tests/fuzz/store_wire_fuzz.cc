// Hostile bytes on a store's connection: the parsers, and the server's state machine over a real socket pair.
#include <sys/socket.h>

#include <cstdlib>

#include "tests/fuzz/round_trip.h"
#include "transport/socket.h"
#include "transport/store_connection.h"

namespace gimbal {
namespace {

void feed_connection(std::span<const std::byte> bytes, bool after_hello) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  StoreConnection connection(FileDescriptor(ends[0]), 0);
  const FileDescriptor client(ends[1]);
  const JobKey key("fuzz");
  StoreTable table;
  if (after_hello) {
    const StoreHello mine;
    Bytes answer(kStoreHelloBytes);
    static_cast<void>(write_some(client.get(), encode(mine)));
    if (!connection.read(key, table) || read_some(client.get(), answer).bytes != answer.size()) std::abort();
    const Nonce theirs = parse_store_hello(answer)->nonce;
    static_cast<void>(write_some(client.get(), key.prove(store_proof_context("client", mine.nonce, theirs))));
    if (!connection.read(key, table) || connection.is_stranger()) std::abort();
  }
  static_cast<void>(write_some(client.get(), bytes));
  if (connection.read(key, table)) static_cast<void>(connection.answer_waiter(table));
}

}  // namespace
}  // namespace gimbal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  gimbal::expect_round_trip(gimbal::parse_store_hello(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_store_verdict(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_store_request(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_store_answer(bytes), bytes);
  gimbal::feed_connection(bytes, false);
  gimbal::feed_connection(bytes, true);
  return 0;
}
