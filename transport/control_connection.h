// The control connection to one peer: whole frames in both directions over a non-blocking Unix or TCP socket.
//
// It never waits: the mesh polls and calls flush() and fill(). A frame that was begun is finished by a later flush(), whatever
// became of the call that queued it, so that one deadline does not spoil the stream for the next call.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "transport/wire.h"

namespace gimbal {

using SharedBytes = std::shared_ptr<const Bytes>;

class ControlConnection {
 public:
  ControlConnection() = default;
  // peer: for messages, "rank 2 (pid 77 on host a)".
  ControlConnection(FileDescriptor socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  // The peer's end is closed and everything that it had sent has arrived here.
  [[nodiscard]] bool closed() const { return closed_; }
  // It was not the peer that closed it: its host, or the way there, no longer answers.
  [[nodiscard]] bool host_is_silent() const { return host_is_silent_; }
  [[nodiscard]] bool has_unsent() const { return !outbox_.empty(); }

  void queue(FrameKind kind, uint64_t tag, SharedBytes payload);
  void queue_descriptor(FileDescriptor fd);
  Status flush();
  Status fill();

  std::optional<Bytes> take_message();
  std::optional<Bytes> take_gathered(uint64_t tag);
  std::optional<FileDescriptor> take_descriptor();
  std::optional<Bytes> take_news();
  std::optional<Bytes> take_survivor_message();
  // What the peer gave the mesh up for, if it did.
  [[nodiscard]] const Status& fault() const { return fault_; }

 private:
  struct OutFrame {
    Bytes header;
    SharedBytes payload;
    FileDescriptor descriptor;
    size_t sent = 0;
  };
  // Returns how many bytes the socket took; 0 for "not now".
  Result<size_t> send_part(const OutFrame& frame);
  Status take_frames();
  Status deliver(const FrameHeader& header, Bytes payload);
  std::optional<Bytes> take_front(std::deque<Bytes>& queue);
  [[nodiscard]] Status malformed(const std::string& what) const;

  FileDescriptor socket_;
  std::string peer_;
  bool closed_ = false;
  bool host_is_silent_ = false;
  bool broken_ = false;  // the peer takes no more; what it sent before may still be there to read
  std::deque<OutFrame> outbox_;
  Bytes inbox_;
  size_t held_bytes_ = 0;  // in the queues below
  std::deque<FileDescriptor> arrived_descriptors_;
  std::deque<FileDescriptor> descriptors_;
  std::deque<Bytes> messages_;
  std::deque<Bytes> news_;
  std::deque<Bytes> survivor_messages_;
  Status fault_;
  std::map<uint64_t, std::deque<Bytes>> gathered_;
};

}  // namespace gimbal
