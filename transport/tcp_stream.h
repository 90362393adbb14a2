// One stream of a TCP endpoint: cuts what arrives into chunks, and sends one chunk at a time.
//
// Payload is received straight into the memory that the owner gives for it. Only what a system call brings beyond the chunk
// under way goes through a small buffer: headers, and small messages, which thus take one system call each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file_descriptor.h"
#include "transport/chunk_wire.h"
#include "transport/socket_poller.h"

namespace gimbal {

class TcpStream;

// A chunk to be sent; the payload stays where it is until chunk_sent().
struct OutgoingChunk {
  ChunkHeader header;
  const std::byte* payload = nullptr;
  uint32_t slot = 0;  // the owner's
};

class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  // Where the chunk's bytes go; null when the header cannot be believed: then the stream throws away all that follows.
  virtual std::byte* begin_chunk(const ChunkHeader& header) = 0;
  virtual void end_chunk(const ChunkHeader& header) = 0;
  virtual void chunk_sent(const OutgoingChunk& chunk) = 0;
  virtual void stream_closed(const TcpStream& stream, int error_number) = 0;
};

class TcpStream final : public SocketUser {
 public:
  TcpStream(FileDescriptor socket, StreamOwner& owner);

  [[nodiscard]] bool idle() const { return !sends_ && !closed_; }
  // A chunk is on its way into the socket; a chunk of a message.
  [[nodiscard]] bool sends() const { return sends_; }
  [[nodiscard]] bool sends_data() const { return sends_ && outgoing_.header.kind == ChunkKind::kData; }
  [[nodiscard]] uint64_t received_bytes() const { return received_bytes_; }
  // "10.0.0.1:4021 to 10.0.0.7:33012 over eth0"
  [[nodiscard]] const std::string& route() const { return route_; }

  // Only when idle; the poller is told by the caller.
  void take(const OutgoingChunk& chunk);

  size_t space(Pieces& pieces) override;
  void received(size_t bytes) override;
  size_t unsent(Pieces& pieces) override;
  void sent(size_t bytes) override;
  void closed(int error_number) override;

 private:
  // Smaller messages arrive by one system call and are copied out of the buffer, which costs less than another call.
  static constexpr size_t kBufferBytes = size_t{16} << 10;

  void take_chunks();

  FileDescriptor socket_;
  StreamOwner& owner_;
  const std::string route_;
  bool closed_ = false;
  uint64_t received_bytes_ = 0;

  // Receiving. Of the buffer's bytes only a part of a header is kept between calls, and nothing while a chunk is under way.
  bool receives_ = false;
  bool broken_ = false;
  ChunkHeader incoming_;
  std::byte* destination_ = nullptr;
  size_t missing_ = 0;
  size_t buffered_ = 0;
  std::array<std::byte, kBufferBytes> buffer_;

  // Sending.
  bool sends_ = false;
  OutgoingChunk outgoing_;
  size_t sent_ = 0;  // of header and payload
};

// What sockets of data streams are set to. Each setting is a wish: a socket that is not TCP keeps its own.
void tune_data_socket(int socket);

}  // namespace gimbal
