#include "transport/store_client.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace gimbal {
namespace {

// set, add and a look without waiting take one round trip; a server that needs longer has stopped.
constexpr int64_t kRoundTripMs = 30'000;

Status stranger(const std::string& address) { return {Code::kRemote, address + " answered, but is not a Gimbal store"}; }

// The server's hello. A stranger is known by its first wrong byte.
Result<StoreHello> read_hello(int fd, const std::string& address, Deadline deadline) {
  Bytes bytes(kStoreHelloBytes);
  size_t filled = 0;
  while (filled < bytes.size()) {
    const Transfer transfer = read_some(fd, std::span(bytes).subspan(filled));
    if (transfer.closed) return stranger(address);
    if (transfer.error_number != 0) return system_error(address + ": reading", transfer.error_number);
    filled += transfer.bytes;
    const size_t known = std::min(filled, kMagicBytes);
    if (!std::ranges::equal(store_magic().first(known), std::span(bytes).first(known))) return stranger(address);
    if (transfer.bytes == 0 && wait_for(fd, POLLIN, deadline) == WaitOutcome::kDeadline) {
      return Status(Code::kTimeout, address + " accepted the connection but did not answer: it is not a Gimbal store");
    }
  }
  const std::optional<StoreHello> hello = parse_store_hello(bytes);
  if (!hello) return stranger(address);
  if (hello->version != kWireVersion) {
    return Status(Code::kMismatch, address + " speaks version " + std::to_string(hello->version) +
                                       " of the store's protocol, this rank speaks version " + std::to_string(kWireVersion));
  }
  return *hello;
}

Status shake_hands(int fd, const std::string& address, const JobKey& key, Deadline deadline) {
  const StoreHello mine{.nonce = random_nonce()};
  RETURN_IF_ERROR(write_all(fd, encode(mine), address, deadline));
  ASSIGN_OR_RETURN(const StoreHello theirs, read_hello(fd, address, deadline));
  RETURN_IF_ERROR(write_all(fd, key.prove(store_proof_context("client", mine.nonce, theirs.nonce)), address, deadline));
  std::array<std::byte, kStoreVerdictBytes> bytes;
  RETURN_IF_ERROR(read_all(fd, bytes, address, deadline));
  const std::optional<StoreVerdict> verdict = parse_store_verdict(bytes);
  if (!verdict) return stranger(address);
  if (!verdict->accepted || !key.verify(store_proof_context("server", mine.nonce, theirs.nonce), verdict->proof)) {
    return {Code::kMismatch, address + " belongs to a job with another key"};
  }
  return {};
}

// One try at one address. A connection that ends during the hello is worth another try: the server of a job that has just
// ended, or one that is short of descriptors.
Status try_address(const SocketAddress& address, const std::string& name, const JobKey& key, Deadline deadline,
                   FileDescriptor& socket, bool& again) {
  ConnectAttempt attempt = connect_to(address, deadline);
  again = true;
  if (!attempt.fd.valid()) {
    const std::string why = attempt.error_number < 0 ? "no answer" : std::strerror(attempt.error_number);
    return {Code::kTimeout, name + " could not be reached before the deadline (" + why + "): is rank 0 running?"};
  }
  Status status = shake_hands(attempt.fd.get(), name, key, deadline);
  if (status.ok()) {
    socket = std::move(attempt.fd);
    return status;
  }
  std::byte ignored;
  const bool ended = recv(attempt.fd.get(), &ignored, 1, MSG_PEEK) == 0 || errno == ECONNRESET;
  again = status.code() == Code::kRemote && ended;
  return status;
}

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const std::vector<SocketAddress>& addresses,
                                                          const std::string& rendezvous, const JobKey& key, Deadline deadline) {
  constexpr std::chrono::microseconds kFirstPause(500);
  constexpr std::chrono::microseconds kLongestPause(50'000);
  std::chrono::microseconds pause = kFirstPause;
  for (;;) {
    Status failure;
    for (const SocketAddress& address : addresses) {
      FileDescriptor socket;
      bool again = false;
      failure = try_address(address, address.text, key, deadline, socket, again);
      if (failure.ok()) return std::unique_ptr<StoreClient>(new StoreClient(std::move(socket), "the store at " + rendezvous));
      if (!again) return failure;
    }
    if (deadline.passed()) return failure;
    const std::chrono::nanoseconds left(deadline.remaining_ns());
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, left));
    pause = std::min(pause * 2, kLongestPause);
  }
}

Status StoreClient::set(const std::string& key, std::span<const std::byte> value) {
  RETURN_IF_ERROR(check_store_value(key, value));
  return ask({.op = StoreOp::kSet}, key, value, Deadline::after_ms(kRoundTripMs)).status();
}

Result<Bytes> StoreClient::get(const std::string& key, Deadline deadline) { return look(StoreOp::kGet, key, deadline); }

Status StoreClient::wait(const std::string& key, Deadline deadline) { return look(StoreOp::kWait, key, deadline).status(); }

Result<int64_t> StoreClient::add(const std::string& key, int64_t amount) {
  RETURN_IF_ERROR(check_store_key(key));
  ASSIGN_OR_RETURN(const Answer answer,
                   ask({.op = StoreOp::kAdd, .amount = amount}, key, {}, Deadline::after_ms(kRoundTripMs)));
  return answer.header.count;
}

Result<Bytes> StoreClient::look(StoreOp op, const std::string& key, Deadline deadline) {
  RETURN_IF_ERROR(check_store_key(key));
  const bool now = deadline.passed();
  ASSIGN_OR_RETURN(Answer answer,
                   ask({.op = now ? StoreOp::kGetNow : op}, key, {}, now ? Deadline::after_ms(kRoundTripMs) : deadline));
  if (answer.header.kind == StoreAnswerKind::kMissing) return store_timeout(key);
  return std::move(answer.value);
}

Result<StoreClient::Answer> StoreClient::ask(StoreRequest request, const std::string& key, std::span<const std::byte> value,
                                             Deadline deadline) {
  request.id = ++last_id_;
  request.key_bytes = static_cast<uint32_t>(key.size());
  request.value_bytes = static_cast<uint32_t>(value.size());
  const Bytes message = ByteWriter().raw(encode(request)).raw(as_bytes(key)).raw(value).take();
  // A request is written whole even when the deadline is near: half of one would spoil the connection.
  const Status written = write_all(socket_.get(), message, server_, Deadline::after_ms(kRoundTripMs));
  if (!written.ok()) return written.code() == Code::kRemote ? server_is_gone() : written;
  return read_answer(request.id, key, deadline);
}

Status StoreClient::server_is_gone() const {
  return {Code::kRemote, server_ + " is gone: rank 0 closed it or its process ended"};
}

// Answers to requests that were given up at their deadlines may come first.
Result<StoreClient::Answer> StoreClient::read_answer(uint32_t id, const std::string& key, Deadline deadline) {
  std::array<std::byte, size_t{64} << 10> buffer;
  for (;;) {
    if (inbox_.size() >= kStoreAnswerBytes) {
      const std::optional<StoreAnswer> header = parse_store_answer(std::span(inbox_).first(kStoreAnswerBytes));
      if (!header) return Status(Code::kInternal, server_ + " sent a malformed answer");
      const size_t bytes = kStoreAnswerBytes + header->value_bytes;
      if (inbox_.size() >= bytes) {
        const auto begin = inbox_.begin() + kStoreAnswerBytes;
        const auto end = inbox_.begin() + static_cast<ptrdiff_t>(bytes);
        Answer answer{.header = *header, .value = Bytes(begin, end)};
        inbox_.erase(inbox_.begin(), end);
        if (answer.header.id == id) return answer;
        continue;
      }
    }
    const Transfer transfer = read_some(socket_.get(), buffer);
    if (transfer.closed) return server_is_gone();
    if (transfer.error_number != 0) return system_error(server_ + ": reading", transfer.error_number);
    inbox_.insert(inbox_.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(transfer.bytes));
    if (transfer.bytes == 0 && wait_for(socket_.get(), POLLIN, deadline) == WaitOutcome::kDeadline) return store_timeout(key);
  }
}

}  // namespace gimbal
