// Ways to move bytes between two processes over the same number of TCP connections: plain sockets, and a TcpEndpoint.
//
// Errors end the process with a sentence: a benchmark has nobody to return them to.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "transport/socket_poller.h"

namespace bench {

class Link {
 public:
  virtual ~Link() = default;
  // Blocks until the peer has all of them, as far as this side can know.
  virtual void send(size_t bytes) = 0;
  virtual void receive(size_t bytes) = 0;
  // Both directions at once.
  virtual void exchange(size_t bytes) = 0;
};

enum class Waiting { kSpinning, kBlocking };

// send() and recv() as a careful program does them: large pieces, every socket non-blocking, one loop for both directions.
std::unique_ptr<Link> make_plain_link(std::vector<gimbal::FileDescriptor> sockets, Waiting waiting);

std::unique_ptr<Link> make_endpoint_link(std::vector<gimbal::FileDescriptor> sockets, gimbal::SocketIo io, size_t slot_bytes);

[[noreturn]] void give_up(const std::string& sentence);

}  // namespace bench
