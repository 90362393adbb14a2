#include "transport/hello.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace gimbal {
namespace {

// A fresh socket takes a message of the handshake whole; one that does not belongs to a stranger.
bool write_whole(int fd, std::span<const std::byte> bytes) { return write_some(fd, bytes).bytes == bytes.size(); }

}  // namespace

bool PartialMessage::read(int fd) {
  std::array<std::byte, std::max({kClientHelloBytes, kServerHelloBytes, kVerdictBytes})> buffer;
  while (!complete()) {
    const Transfer transfer = read_some(fd, std::span(buffer).first(wanted_ - bytes_.size()));
    if (transfer.closed || transfer.error_number != 0) return false;
    if (transfer.bytes == 0) return true;
    bytes_.insert(bytes_.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(transfer.bytes));
  }
  return true;
}

bool PartialMessage::may_be_hello() const {
  const size_t known = std::min(bytes_.size(), kMagicBytes);
  return std::ranges::equal(hello_magic().first(known), std::span(bytes_).first(known));
}

std::optional<uint32_t> PartialMessage::version() const {
  if (bytes_.size() < kVersionedBytes) return std::nullopt;
  return ByteReader(std::span(bytes_).subspan(kMagicBytes)).u32();
}

HelloServer::Step HelloServer::step(const JobKey& key) {
  if (state_ == State::kHello) {
    const Step step = take_hello(key);
    if (state_ == State::kHello || step == Step::kStranger) return step;
  }
  return state_ == State::kProof ? take_proof(key) : Step::kProven;
}

HelloServer::Step HelloServer::take_hello(const JobKey& key) {
  const bool open = incoming_.read(fd());
  if (!incoming_.may_be_hello()) return Step::kStranger;
  mine_ = {.job = key.id(), .nonce = random_nonce()};
  const std::optional<uint32_t> version = incoming_.version();
  if (version && *version != kWireVersion) {
    write_whole(fd(), encode(mine_));  // so that the client can name both versions
    return Step::kStranger;
  }
  if (!incoming_.complete()) return open ? Step::kAgain : Step::kStranger;
  const std::optional<ClientHello> hello = parse_client_hello(incoming_.bytes());
  if (!hello || !write_whole(fd(), encode(mine_)) || hello->job != mine_.job) return Step::kStranger;
  client_ = *hello;
  incoming_ = PartialMessage(sizeof(Proof));
  state_ = State::kProof;
  return Step::kAgain;
}

HelloServer::Step HelloServer::take_proof(const JobKey& key) {
  const bool open = incoming_.read(fd());
  if (!incoming_.complete()) return open ? Step::kAgain : Step::kStranger;
  Proof proof;
  std::ranges::copy(incoming_.bytes(), proof.begin());
  if (!key.verify(proof_context("client", client_, mine_), proof)) {
    say({});
    return Step::kStranger;
  }
  state_ = State::kProven;
  return Step::kProven;
}

bool HelloServer::say(const Verdict& verdict) { return write_whole(fd(), encode(verdict)); }

std::optional<FileDescriptor> HelloServer::accept(const JobKey& key) {
  if (!say({.acceptance = Acceptance::kAccepted, .proof = key.prove(proof_context("server", client_, mine_))})) {
    return std::nullopt;
  }
  return std::move(socket_);
}

void HelloServer::refuse(const JobKey& key) {
  say({.acceptance = Acceptance::kNotExpected, .proof = key.prove(proof_context("server", client_, mine_))});
  socket_.reset();
}

HelloClient::HelloClient(const SocketAddress& address, const JobKey& key, const Claim& claim)
    : address_(address), key_(key), mine_{.job = key.id(), .claim = claim, .nonce = random_nonce()} {
  ConnectAttempt attempt = start_connect(address);
  if (!attempt.fd.valid()) {
    unreachable(attempt.error_number);
    return;
  }
  socket_ = std::move(attempt.fd);
  if (attempt.error_number == 0) send_hello();
}

short HelloClient::events() const { return state_ == State::kConnecting ? POLLOUT : POLLIN; }

std::string HelloClient::role() const { return mine_.claim.purpose == Purpose::kStore ? "a Gimbal store" : "a Gimbal rank"; }

HelloClient::Step HelloClient::step() {
  if (state_ == State::kConnecting) {
    pollfd entry = {.fd = fd(), .events = POLLOUT, .revents = 0};
    if (poll(&entry, 1, 0) <= 0) return Step::kAgain;
    const int error_number = finish_connect(fd(), address_);
    if (error_number != 0) return unreachable(error_number);
    if (send_hello() == Step::kFailed) return Step::kFailed;
  }
  if (state_ == State::kHello) {
    const Step step = take_hello();
    if (state_ == State::kHello || step == Step::kFailed) return step;
  }
  if (state_ == State::kVerdict) return take_verdict();
  return state_ == State::kDone ? Step::kDone : Step::kFailed;
}

HelloClient::Step HelloClient::send_hello() {
  state_ = State::kHello;
  return write_whole(fd(), encode(mine_)) ? Step::kAgain : closed();
}

HelloClient::Step HelloClient::take_hello() {
  const bool open = incoming_.read(fd());
  if (!incoming_.may_be_hello()) return fail(Code::kRemote, "answered, but is not " + role());
  const std::optional<uint32_t> version = incoming_.version();
  if (version && *version != kWireVersion) {
    return fail(Code::kMismatch, "speaks version " + std::to_string(*version) + " of the protocol, this rank speaks version " +
                                     std::to_string(kWireVersion));
  }
  if (!incoming_.complete()) return open ? Step::kAgain : closed();
  server_ = *parse_server_hello(incoming_.bytes());
  if (server_.job != mine_.job) return fail(Code::kMismatch, "belongs to another job, or to one with another GIMBAL_JOB_KEY");
  if (!write_whole(fd(), key_.prove(proof_context("client", mine_, server_)))) return closed();
  incoming_ = PartialMessage(kVerdictBytes);
  state_ = State::kVerdict;
  return Step::kAgain;
}

HelloClient::Step HelloClient::take_verdict() {
  const bool open = incoming_.read(fd());
  if (!incoming_.complete()) return open ? Step::kAgain : closed();
  const std::optional<Verdict> verdict = parse_verdict(incoming_.bytes());
  if (!verdict || !key_.verify(proof_context("server", mine_, server_), verdict->proof)) {
    return fail(Code::kMismatch, "does not have this job's key (GIMBAL_JOB_KEY)");
  }
  if (verdict->acceptance != Acceptance::kAccepted) return fail(Code::kMismatch, "does not expect this connection");
  state_ = State::kDone;
  return Step::kDone;
}

HelloClient::Step HelloClient::unreachable(int error_number) {
  error_number_ = error_number;
  worth_another_try_ = true;
  // The kernel's words for it do not say what is short.
  const bool no_port = error_number == EADDRNOTAVAIL;
  return fail(Code::kSystem, std::string("could not be reached (") + std::strerror(error_number) +
                                 (no_port ? ": is a port of net.ipv4.ip_local_port_range free?)" : ")"));
}

HelloClient::Step HelloClient::closed() {
  worth_another_try_ = true;
  return fail(Code::kRemote, "answered, but is not " + role() + ": it closed the connection");
}

HelloClient::Step HelloClient::fail(Code code, const std::string& what) {
  state_ = State::kFailed;
  failure_ = Status(code, address_.text + " " + what);
  socket_.reset();
  return Step::kFailed;
}

Status HelloClient::late() const {
  if (state_ == State::kConnecting)
    return {Code::kTimeout, address_.text + " could not be reached before the deadline (no answer)"};
  return {Code::kTimeout, address_.text + " accepted the connection but did not answer: it is not " + role()};
}

Status run_hello(HelloClient& client, Deadline deadline) {
  for (;;) {
    switch (client.step()) {
      case HelloClient::Step::kDone:
        return {};
      case HelloClient::Step::kFailed:
        return client.failure();
      case HelloClient::Step::kAgain:
        if (wait_for(client.fd(), client.events(), deadline) == WaitOutcome::kDeadline) return client.late();
    }
  }
}

}  // namespace gimbal
