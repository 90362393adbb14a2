#include "transport/store_connection.h"

#include <sys/epoll.h>

#include <array>

#include "transport/socket.h"

namespace gimbal {

uint32_t StoreConnection::wanted_events() const { return has_unsent() ? EPOLLOUT : EPOLLIN; }

bool StoreConnection::read(StoreTable& table) {
  std::array<std::byte, size_t{64} << 10> buffer;
  for (;;) {
    if (!consume(table)) return false;
    if (has_unsent()) return true;
    const Transfer transfer = read_some(fd(), buffer);
    if (transfer.closed || transfer.error_number != 0) return false;
    if (transfer.bytes == 0) return true;
    inbox_.insert(inbox_.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(transfer.bytes));
  }
}

bool StoreConnection::write() {
  while (has_unsent()) {
    const Transfer transfer = write_some(fd(), std::span(outbox_).subspan(sent_));
    if (transfer.closed || transfer.error_number != 0) return false;
    if (transfer.bytes == 0) return true;
    sent_ += transfer.bytes;
  }
  outbox_.clear();
  sent_ = 0;
  return true;
}

bool StoreConnection::consume(StoreTable& table) {
  for (;;) {
    // One answer at a time: a client that asks and does not read takes no memory here.
    if (!write()) return false;
    if (has_unsent()) return true;
    switch (take_request(table)) {
      case Taken::kRequest:
        break;
      case Taken::kNeedsMore:
        return true;
      case Taken::kMalformed:
        return false;
    }
  }
}

StoreConnection::Taken StoreConnection::take_request(StoreTable& table) {
  if (inbox_.size() < kStoreRequestBytes) return Taken::kNeedsMore;
  const std::optional<StoreRequest> request = parse_store_request(std::span(inbox_).first(kStoreRequestBytes));
  if (!request) return Taken::kMalformed;
  const size_t bytes = kStoreRequestBytes + request->key_bytes + request->value_bytes;
  if (inbox_.size() < bytes) return Taken::kNeedsMore;
  const std::span<const std::byte> body = std::span(inbox_).subspan(kStoreRequestBytes, bytes - kStoreRequestBytes);
  serve(*request, to_text(body.first(request->key_bytes)), body.subspan(request->key_bytes), table);
  discard(bytes);
  return Taken::kRequest;
}

void StoreConnection::serve(const StoreRequest& request, const std::string& key, std::span<const std::byte> value,
                            StoreTable& table) {
  waiter_.reset();
  switch (request.op) {
    case StoreOp::kSet:
      table.set(key, value);
      return answer({.id = request.id}, {});
    case StoreOp::kAdd:
      return answer({.id = request.id, .count = table.add(key, request.amount)}, {});
    case StoreOp::kGetNow:
      if (const std::optional<Bytes> found = table.find(key)) return answer({.id = request.id}, *found);
      return answer({.id = request.id, .kind = StoreAnswerKind::kMissing}, {});
    case StoreOp::kGet:
    case StoreOp::kWait:
      waiter_ = Waiter{.request = request, .key = key};
      static_cast<void>(answer_waiter(table));  // consume() writes, and sees a closed connection
      return;
  }
}

bool StoreConnection::answer_waiter(const StoreTable& table) {
  if (!waiter_) return true;
  const std::optional<Bytes> found = table.find(waiter_->key);
  if (!found) return true;
  const StoreRequest request = waiter_->request;
  waiter_.reset();
  answer({.id = request.id}, request.op == StoreOp::kGet ? std::span<const std::byte>(*found) : std::span<const std::byte>());
  return write();
}

void StoreConnection::answer(const StoreAnswer& header, std::span<const std::byte> value) {
  StoreAnswer sized = header;
  sized.value_bytes = static_cast<uint32_t>(value.size());
  const Bytes bytes = encode(sized);
  outbox_.insert(outbox_.end(), bytes.begin(), bytes.end());
  outbox_.insert(outbox_.end(), value.begin(), value.end());
}

}  // namespace gimbal
