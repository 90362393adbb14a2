// The two sides of a keyed handshake, with which every connection begins: store, control and data alike.
//
// Client and server each prove that they have the job's key over the other's fresh nonce, and over what the connection is for;
// the key itself never travels. Both are state machines that never wait: step() does what the socket allows, so that one thread
// serves any number of silent and slow strangers. A side reads no byte past the handshake, and every message of it has a fixed
// size, so a stranger costs a descriptor and less than 100 bytes.
//
// Used by one thread at a time.
#pragma once

#include <optional>
#include <string>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "transport/job_key.h"
#include "transport/socket.h"
#include "transport/wire.h"

namespace gimbal {

// Bytes of one message of the handshake as they arrive.
class PartialMessage {
 public:
  explicit PartialMessage(size_t bytes) : wanted_(bytes) {}
  // What the socket has of what is missing. False when it has ended or failed.
  bool read(int fd);
  [[nodiscard]] bool complete() const { return bytes_.size() == wanted_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Whether they can be the beginning of a hello, and of which version it is, as soon as that is known.
  [[nodiscard]] bool may_be_hello() const;
  [[nodiscard]] std::optional<uint32_t> version() const;

 private:
  size_t wanted_;
  Bytes bytes_;
};

class HelloServer {
 public:
  explicit HelloServer(FileDescriptor socket) : socket_(std::move(socket)) {}

  enum class Step : uint8_t {
    kAgain,     // the client has to say more: step() again when the socket can be read
    kProven,    // it has the key: accept() or refuse() it
    kStranger,  // drop it: it is none of ours, or has another key, version or job and has been told so
  };
  Step step(const JobKey& key);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // What the proven client is for.
  [[nodiscard]] const Claim& claim() const { return client_.claim; }
  // The connection, on which the client may speak now; nothing when it has gone.
  std::optional<FileDescriptor> accept(const JobKey& key);
  // Tells the client that it is not expected here.
  void refuse(const JobKey& key);

 private:
  enum class State : uint8_t { kHello, kProof, kProven };
  Step take_hello(const JobKey& key);
  Step take_proof(const JobKey& key);
  bool say(const Verdict& verdict);

  FileDescriptor socket_;
  State state_ = State::kHello;
  PartialMessage incoming_{kClientHelloBytes};
  ClientHello client_;
  ServerHello mine_;
};

class HelloClient {
 public:
  // Begins to connect to `address`, whose text begins the sentences.
  HelloClient(const SocketAddress& address, const JobKey& key, const Claim& claim);

  enum class Step : uint8_t {
    kAgain,   // step() again when events() come
    kDone,    // take() the connection: both sides have proven themselves
    kFailed,  // failure() says why
  };
  Step step();

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] short events() const;
  [[nodiscard]] const SocketAddress& address() const { return address_; }
  FileDescriptor take() { return std::move(socket_); }

  // REMOTE: "... answered, but is not a Gimbal store"; MISMATCH: another version, job or key, or not expected there; SYSTEM: it
  // cannot be reached, with errno in error_number().
  [[nodiscard]] const Status& failure() const { return failure_; }
  [[nodiscard]] int error_number() const { return error_number_; }
  // Nobody was there, or the connection ended in the middle, as that of a job that has just ended: the next try may fare
  // better.
  [[nodiscard]] bool worth_another_try() const { return worth_another_try_; }
  // What a step() that still says kAgain at the deadline means.
  [[nodiscard]] Status late() const;

 private:
  enum class State : uint8_t { kConnecting, kHello, kVerdict, kDone, kFailed };
  Step unreachable(int error_number);
  Step fail(Code code, const std::string& what);
  Step closed();
  Step send_hello();
  Step take_hello();
  Step take_verdict();
  [[nodiscard]] std::string role() const;

  SocketAddress address_;
  JobKey key_;
  ClientHello mine_;
  ServerHello server_;
  State state_ = State::kConnecting;
  FileDescriptor socket_;
  PartialMessage incoming_{kServerHelloBytes};
  Status failure_;
  int error_number_ = 0;
  bool worth_another_try_ = false;
};

// Steps until the end or the deadline.
Status run_hello(HelloClient& client, Deadline deadline);

}  // namespace gimbal
