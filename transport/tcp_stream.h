// One stream of a TCP endpoint: cuts what arrives into chunks, and sends one chunk at a time.
//
// Payload is received straight into the memory of its message. A stream always holds one free slot, and what a system call
// brings behind a header lands there: when a new message begins, which is the rule, that slot becomes the message's, and header
// and message have taken one call and no copy. What lands there otherwise (messages behind a credit or behind a small message)
// is copied out.
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

// A free slot.
struct Landing {
  uint32_t slot = 0;  // the owner's
  std::byte* memory = nullptr;
  size_t bytes = 0;  // at most a chunk
};

class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  // Where the chunk's bytes go; null when the header cannot be believed: then the stream throws away all that follows. The
  // owner may take the landing for the chunk's message, and gives another one for it.
  virtual std::byte* begin_chunk(const ChunkHeader& header, Landing& landing) = 0;
  virtual void end_chunk(const ChunkHeader& header) = 0;
  virtual void chunk_sent(const OutgoingChunk& chunk) = 0;
  virtual void stream_closed(const TcpStream& stream, int error_number) = 0;
};

class TcpStream final : public SocketUser {
 public:
  TcpStream(FileDescriptor socket, StreamOwner& owner, const Landing& landing);

  [[nodiscard]] bool idle() const { return !sends_ && !closed_; }
  // A chunk is on its way into the socket; a chunk of a message.
  [[nodiscard]] bool sends() const { return sends_; }
  [[nodiscard]] bool sends_data() const { return sends_ && outgoing_.header.kind == ChunkKind::kData; }
  [[nodiscard]] uint64_t received_bytes() const { return received_bytes_; }
  // "10.0.0.1:4021 to 10.0.0.7:33012 over eth0"
  [[nodiscard]] const std::string& route() const { return route_; }

  // Only when idle; the poller is told by the caller.
  void take(const OutgoingChunk& chunk);

  Pieces space() override;
  void received(size_t bytes) override;
  Pieces unsent() override;
  void sent(size_t bytes) override;
  void closed(int error_number) override;

 private:
  // False when a header or its payload is not complete yet: nothing is left of `rest`.
  bool take_header(std::span<const std::byte>& rest);
  bool take_payload(std::span<const std::byte>& rest);

  FileDescriptor socket_;
  StreamOwner& owner_;
  const std::string route_;
  bool closed_ = false;
  uint64_t received_bytes_ = 0;

  // Receiving: part of a header, then `missing_` bytes of its payload.
  bool broken_ = false;
  Landing landing_;
  std::array<std::byte, kChunkHeaderBytes> header_bytes_;
  size_t header_size_ = 0;
  bool receives_ = false;
  ChunkHeader incoming_;
  std::byte* destination_ = nullptr;
  size_t missing_ = 0;

  // Sending.
  bool sends_ = false;
  OutgoingChunk outgoing_;
  size_t sent_ = 0;  // of header and payload
};

// What sockets of data streams are set to. Each setting is a wish: a socket that is not TCP keeps its own.
void tune_data_socket(int socket);

}  // namespace gimbal
