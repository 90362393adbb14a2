// Hostile bytes on the data streams of an endpoint: cut in two at the first byte's place, one part for each of its two streams.
#include <sys/socket.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "transport/socket.h"
#include "transport/socket_poller.h"
#include "transport/tcp_endpoint.h"

namespace gimbal {
namespace {

// What an endpoint does with them until nothing moves any more; every message that it shows is read.
void feed(std::span<const std::byte> first, std::span<const std::byte> second) {
  static const std::unique_ptr<SocketPoller> kPoller = SocketPoller::create(SocketIo::kEpoll).value();
  std::vector<FileDescriptor> mine;
  std::vector<FileDescriptor> theirs;
  for (const std::span<const std::byte> bytes : {first, second}) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
    mine.emplace_back(ends[0]);
    theirs.emplace_back(ends[1]);
    static_cast<void>(write_some(ends[1], bytes));
  }
  TcpEndpointOptions options;
  options.channels = 2;
  options.slot_bytes = size_t{300} << 10;  // three chunks
  options.window = 3;
  const auto endpoint = TcpEndpoint::create(options, std::move(mine), *kPoller).value();
  for (int looks = 0; looks < 8; ++looks) {
    if (!endpoint->progress().ok()) return;
    for (Channel channel = 0; channel < 2; ++channel) {
      const auto message = endpoint->front(channel);
      if (!message.ok() || !message->has_value()) continue;
      unsigned sum = 0;
      for (const std::byte byte : (*message)->bytes) sum += std::to_integer<unsigned>(byte);
      if (sum == UINT32_MAX) std::abort();  // never: it makes the bytes be read
      endpoint->release(channel);
      looks = 0;
    }
  }
}

}  // namespace
}  // namespace gimbal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const size_t cut = bytes.size() * data[0] / 255;
  gimbal::feed(bytes.first(cut), bytes.subspan(cut));
  return 0;
}
