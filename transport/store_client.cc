#include "transport/store_client.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "transport/hello.h"

namespace gimbal {
namespace {

// set, add and a look without waiting take one round trip; a server that needs longer has stopped.
constexpr int64_t kRoundTripMs = 30'000;

// Looks for the server behind several addresses at once, so that a silent stranger behind one of them holds up nothing.
class StoreSearch {
 public:
  StoreSearch(const std::vector<SocketAddress>& addresses, const JobKey& key, Rank rank) : key_(key), rank_(rank) {
    for (const SocketAddress& address : addresses) tries_.push_back({.address = address});
  }

  Result<FileDescriptor> run(Deadline deadline) {
    for (;;) {
      for (Try& one : tries_) {
        if (!one.client && !one.final && monotonic_ns() >= one.next_ns) {
          one.client.emplace(one.address, key_, Claim{.purpose = Purpose::kStore, .from = rank_});
        }
        if (one.client && step(one)) return one.client->take();
      }
      const bool all_final = std::ranges::all_of(tries_, [](const Try& one) { return one.final; });
      if (all_final || deadline.passed()) return failure();
      wait(deadline);
    }
  }

 private:
  static constexpr int64_t kFirstPauseNs = 500'000;
  static constexpr int64_t kLongestPauseNs = 50'000'000;

  struct Try {
    SocketAddress address;
    std::optional<HelloClient> client = std::nullopt;
    int64_t pause_ns = kFirstPauseNs;
    int64_t next_ns = 0;
    Status last = {};
    bool final = false;  // a stranger, or the server of another job
  };

  static bool step(Try& one) {
    const HelloClient::Step step = one.client->step();
    if (step != HelloClient::Step::kFailed) return step == HelloClient::Step::kDone;
    one.last = one.client->failure();
    one.final = !one.client->worth_another_try();
    if (one.client->error_number() != 0) one.last = not_there(one.address, std::strerror(one.client->error_number()));
    one.client.reset();
    one.next_ns = monotonic_ns() + one.pause_ns;
    one.pause_ns = std::min(one.pause_ns * 2, kLongestPauseNs);
    return false;
  }

  static Status not_there(const SocketAddress& address, const std::string& why) {
    return {Code::kTimeout, address.text + " could not be reached before the deadline (" + why + "): is rank 0 running?"};
  }

  void wait(Deadline deadline) const {
    std::vector<pollfd> polled;
    int64_t until_ns = deadline.at_ns();
    for (const Try& one : tries_) {
      if (one.client) polled.push_back({.fd = one.client->fd(), .events = one.client->events(), .revents = 0});
      if (!one.client && !one.final) until_ns = std::min(until_ns, one.next_ns);
    }
    const int64_t left_ns = std::max<int64_t>(0, until_ns - monotonic_ns());
    const timespec timeout = {.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
    ppoll(polled.data(), polled.size(), &timeout, nullptr);
  }

  // Of every address, because any of them may be the one that is meant.
  [[nodiscard]] Status failure() const {
    Status all;
    for (const Try& one : tries_) {
      const Status status = one.client ? one.client->late() : one.last;
      all = all.ok() ? status : Status(all.code(), all.message() + "; " + status.message());
    }
    return all;
  }

  const JobKey& key_;
  const Rank rank_;
  std::vector<Try> tries_;
};

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const std::vector<SocketAddress>& addresses,
                                                          const std::string& rendezvous, const JobKey& key, Rank rank,
                                                          Deadline deadline) {
  ASSIGN_OR_RETURN(FileDescriptor socket, StoreSearch(addresses, key, rank).run(deadline));
  return adopt(std::move(socket), rendezvous);
}

std::unique_ptr<StoreClient> StoreClient::adopt(FileDescriptor socket, const std::string& rendezvous) {
  return std::unique_ptr<StoreClient>(new StoreClient(std::move(socket), "the store at " + rendezvous));
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
