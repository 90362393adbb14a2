// Hostile bytes while joining and on control connections: records, rosters, verdicts, frames.
#include <sys/socket.h>

#include <cstdlib>

#include "tests/fuzz/round_trip.h"
#include "transport/control_connection.h"
#include "transport/socket.h"
#include "transport/wire.h"

namespace gimbal {
namespace {

void feed_control_connection(std::span<const std::byte> bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  ControlConnection connection(FileDescriptor(ends[0]), "rank 1");
  const FileDescriptor peer(ends[1]);
  static_cast<void>(write_some(peer.get(), bytes));
  if (!connection.fill().ok()) return;
  while (connection.take_message() || connection.take_descriptor() || connection.take_survivor_message()) continue;
}

}  // namespace
}  // namespace gimbal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  // A record of a later wire version is read without its tail, so only its reading is tried.
  static_cast<void>(gimbal::parse_join_record(bytes));
  gimbal::expect_round_trip(gimbal::parse_roster(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_join_verdict(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_frame_header(bytes), bytes);
  gimbal::expect_round_trip(gimbal::parse_survivor_message(bytes), bytes);
  static_cast<void>(gimbal::parse_fault(bytes));
  gimbal::feed_control_connection(bytes);
  return 0;
}
