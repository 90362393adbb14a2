// Hostile bytes on a store's connection: the parsers, and the server's state machine over a real socket pair.
#include <sys/socket.h>

#include <cstdlib>

#include "tests/fuzz/round_trip.h"
#include "transport/socket.h"
#include "transport/store_connection.h"

namespace gimbal {
namespace {

void feed_connection(std::span<const std::byte> bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  StoreConnection connection{FileDescriptor(ends[0])};
  const FileDescriptor client(ends[1]);
  StoreTable table;
  static_cast<void>(write_some(client.get(), bytes));
  if (connection.read(table)) static_cast<void>(connection.answer_waiter(table));
}

}  // namespace
}  // namespace gimbal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  gimbal::expect_round_trip(gimbal::parse_store_request(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_store_answer(bytes), bytes);
  gimbal::feed_connection(bytes);
  return 0;
}
