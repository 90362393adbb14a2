#include "transport/tcp_endpoint.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/deadline.h"

namespace gimbal {
namespace {

// A few times what one system call takes at once. Smaller chunks would pay for their headers, larger ones would leave streams
// idle at the end of a message.
constexpr size_t kChunkBytes = size_t{128} << 10;
// A bit per chunk of a message.
constexpr size_t kMaxChunks = 64;
// Messages up to here do not take turns among the streams: the first stream's path through the caches is warm.
constexpr size_t kSmallBytes = size_t{16} << 10;
// Calls of progress(), each a look at the sockets: several round trips.
constexpr uint32_t kIdleCalls = 200;
// When the peer's process ends, all its streams close within a round trip. When only some have closed for so long, they broke.
constexpr int64_t kOthersCloseNs = 200'000'000;

}  // namespace

size_t TcpEndpoint::chunk_bytes(size_t slot_bytes) { return std::max(kChunkBytes, (slot_bytes + kMaxChunks - 1) / kMaxChunks); }

TcpEndpoint::TcpEndpoint(const TcpEndpointOptions& options, size_t streams, SocketPoller& poller)
    : options_(options),
      properties_{.cost = options.cost, .shares_memory = false},
      limits_{.channels = options.channels, .slot_bytes = options.slot_bytes, .chunk_bytes = chunk_bytes(options.slot_bytes)},
      poller_(poller),
      send_slots_(options.channels * options.window, options.slot_bytes),
      receive_slots_(options.channels * options.window + streams, options.slot_bytes),
      sending_(options.channels),
      receiving_(options.channels),
      unsent_chunks_(options.channels * options.window),
      waiting_(options.channels * options.window * limits_.chunks_of(options.slot_bytes)),
      credit_due_(options.channels) {
  GIMBAL_DCHECK(options.window > 0 && options.slot_bytes <= UINT32_MAX);
  for (ReceiveLane& lane : receiving_) lane.window.resize(options.window);
}

Result<std::unique_ptr<TcpEndpoint>> TcpEndpoint::create(const TcpEndpointOptions& options, std::vector<FileDescriptor> streams,
                                                         SocketPoller& poller) {
  std::unique_ptr<TcpEndpoint> endpoint(new TcpEndpoint(options, streams.size(), poller));
  for (FileDescriptor& stream : streams) {
    endpoint->streams_.emplace_back(new TcpStream(std::move(stream), *endpoint, endpoint->take_landing()));
    RETURN_IF_ERROR(poller.add(*endpoint->streams_.back()));
  }
  return endpoint;
}

TcpEndpoint::~TcpEndpoint() {
  for (const std::unique_ptr<TcpStream>& stream : streams_) {
    poller_.remove(*stream);
    if (poller_.in_forked_child()) continue;
    // A close with unread bytes is a reset, and that can overtake what was sent last. Unread are only credits.
    shutdown(stream->socket(), SHUT_WR);
    std::array<std::byte, 4096> rest;
    while (recv(stream->socket(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
    }
  }
}

TcpEndpoint::Arrival& TcpEndpoint::arrival(Channel channel, uint32_t sequence) {
  return receiving_[channel].window[sequence % options_.window];
}

Result<std::optional<std::span<std::byte>>> TcpEndpoint::acquire(Channel channel, [[maybe_unused]] size_t bytes) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  if (!closed_.ok()) [[unlikely]]
    return closed_;
  GIMBAL_DCHECK(channel < options_.channels && bytes <= options_.slot_bytes);
  SendLane& lane = sending_[channel];
  if (lane.slot == kNoSlot) {
    // A slot is free again when its bytes have left; the peer's credit for them may come earlier, through a faster stream.
    if (lane.sent - lane.released >= options_.window || send_slots_.empty()) {
      starved_ = true;
      return std::optional<std::span<std::byte>>();
    }
    lane.slot = send_slots_.take();
  }
  return std::optional(std::span(send_slots_.at(lane.slot), options_.slot_bytes));
}

Status TcpEndpoint::commit(Channel channel, size_t bytes, uint64_t tag) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  SendLane& lane = sending_[channel];
  GIMBAL_DCHECK(channel < options_.channels && bytes <= options_.slot_bytes && lane.slot != kNoSlot);
  OutgoingChunk chunk;
  chunk.slot = lane.slot;
  chunk.header.channel = channel;
  chunk.header.sequence = lane.sent++;
  chunk.header.tag = tag;
  chunk.header.message_bytes = static_cast<uint32_t>(bytes);
  unsent_chunks_[lane.slot] = static_cast<uint32_t>(limits_.chunks_of(bytes));
  for (size_t offset = 0; offset == 0 || offset < bytes; offset += limits_.chunk_bytes) {
    chunk.header.offset = static_cast<uint32_t>(offset);
    chunk.header.bytes = static_cast<uint32_t>(limits_.bytes_at(offset, bytes));
    chunk.payload = send_slots_.at(lane.slot) + offset;
    waiting_.push(chunk);
  }
  lane.slot = kNoSlot;
  feed();
  return {};
}

bool TcpEndpoint::next_chunk(OutgoingChunk& chunk) {
  if (credits_due_ > 0) {
    const auto due = std::find(credit_due_.begin(), credit_due_.end(), true);
    *due = false;
    --credits_due_;
    chunk = {};
    chunk.header.kind = ChunkKind::kCredit;
    chunk.header.channel = static_cast<Channel>(due - credit_due_.begin());
    chunk.slot = kNoSlot;
  } else if (!waiting_.empty()) {
    chunk = waiting_.front();
    waiting_.pop();
  } else {
    return false;
  }
  ReceiveLane& lane = receiving_[chunk.header.channel];
  chunk.header.released = lane.released;
  lane.reported = lane.released;
  return true;
}

TcpStream* TcpEndpoint::free_stream(size_t bytes) {
  const size_t first = bytes <= kSmallBytes ? 0 : next_stream_;
  for (size_t i = 0; i < streams_.size(); ++i) {
    const size_t index = (first + i) % streams_.size();
    if (!streams_[index]->idle()) continue;
    if (bytes > kSmallBytes) next_stream_ = (index + 1) % streams_.size();
    return streams_[index].get();
  }
  return nullptr;
}

void TcpEndpoint::feed() {
  if (feeding_) return;  // the loop below goes on
  feeding_ = true;
  while (credits_due_ > 0 || !waiting_.empty()) {
    TcpStream* const stream = free_stream(credits_due_ > 0 ? 0 : waiting_.front().header.bytes);
    if (stream == nullptr) break;
    OutgoingChunk chunk;
    next_chunk(chunk);
    stream->take(chunk);
    poller_.send(*stream);
  }
  feeding_ = false;
}

void TcpEndpoint::chunk_sent(const OutgoingChunk& chunk) {
  if (chunk.slot != kNoSlot && --unsent_chunks_[chunk.slot] == 0) send_slots_.give_back(chunk.slot);
  feed();
}

bool TcpEndpoint::has_unsent() const {
  if (!waiting_.empty()) return true;
  // A peer that has closed wants no credits any more.
  if (!closed_.ok()) return std::any_of(streams_.begin(), streams_.end(), [](const auto& one) { return one->sends_data(); });
  return credits_due_ > 0 || std::any_of(streams_.begin(), streams_.end(), [](const auto& one) { return one->sends(); });
}

std::string TcpEndpoint::take_credits(const ChunkHeader& header) {
  SendLane& lane = sending_[header.channel];
  const uint32_t news = header.released - lane.released;
  // Headers of several streams overtake each other: an older count says nothing.
  if (news == 0 || news > UINT32_MAX / 2) return "";
  if (news > lane.sent - lane.released) {
    return "released " + std::to_string(header.released) + " messages of " + std::to_string(lane.sent);
  }
  lane.released = header.released;
  return "";
}

Landing TcpEndpoint::take_landing() {
  const uint32_t slot = receive_slots_.take();
  return {slot, receive_slots_.at(slot), std::min(limits_.chunk_bytes, options_.slot_bytes)};
}

std::string TcpEndpoint::place(const ChunkHeader& header, Landing& landing, Arrival*& arrived) {
  ReceiveLane& lane = receiving_[header.channel];
  if (header.sequence - lane.released >= options_.window) {
    return "sent message " + std::to_string(header.sequence) + " of channel " + std::to_string(header.channel) +
           " while only " + std::to_string(options_.window) + " from " + std::to_string(lane.released) + " on have room";
  }
  arrived = &arrival(header.channel, header.sequence);
  if (arrived->slot == kNoSlot) {
    *arrived = {.slot = landing.slot, .bytes = header.message_bytes, .tag = header.tag};
    arrived->missing = static_cast<uint32_t>(limits_.chunks_of(header.message_bytes));
    landing = take_landing();
  }
  const uint64_t bit = uint64_t{1} << (header.offset / limits_.chunk_bytes);
  if (arrived->bytes != header.message_bytes || arrived->tag != header.tag || (arrived->begun & bit) != 0) {
    return "sent two different chunks for one place in message " + std::to_string(header.sequence) + " of channel " +
           std::to_string(header.channel);
  }
  arrived->begun |= bit;
  return "";
}

std::byte* TcpEndpoint::begin_chunk(const ChunkHeader& header, Landing& landing) {
  if (!error_.ok()) return nullptr;
  std::string fault = check_chunk(header, limits_);
  if (fault.empty()) fault = take_credits(header);
  Arrival* arrived = nullptr;
  if (fault.empty() && header.kind == ChunkKind::kData) fault = place(header, landing, arrived);
  if (!fault.empty()) {
    static_cast<void>(fail(fault));  // whoever asks next is told
    return nullptr;
  }
  return arrived == nullptr ? landing.memory /* of no bytes */ : receive_slots_.at(arrived->slot) + header.offset;
}

void TcpEndpoint::end_chunk(const ChunkHeader& header) {
  if (header.kind == ChunkKind::kData) --arrival(header.channel, header.sequence).missing;
}

Result<std::optional<ReceivedMessage>> TcpEndpoint::front(Channel channel) {
  if (!error_.ok()) [[unlikely]]
    return error_;
  GIMBAL_DCHECK(channel < options_.channels);
  const Arrival& first = arrival(channel, receiving_[channel].released);
  if (first.slot == kNoSlot || first.missing > 0) {
    if (!closed_.ok()) [[unlikely]]
      RETURN_IF_ERROR(check_closed());
    return std::optional<ReceivedMessage>();
  }
  return std::optional(ReceivedMessage{.bytes = {receive_slots_.at(first.slot), first.bytes}, .tag = first.tag});
}

void TcpEndpoint::release(Channel channel) {
  ReceiveLane& lane = receiving_[channel];
  Arrival& first = arrival(channel, lane.released);
  GIMBAL_DCHECK(first.slot != kNoSlot && first.missing == 0);
  receive_slots_.give_back(first.slot);
  first.slot = kNoSlot;
  ++lane.released;
}

// One credit waits for a message that goes back anyway, because alone it costs both sides as much as a message. It may wait,
// since plans leave one message of each window unused (runtime/plan.h); but ranks that wait for slots do not release either, so
// two must not, and one not for ever.
void TcpEndpoint::offer_credits() {
  for (size_t channel = 0; channel < receiving_.size(); ++channel) {
    ReceiveLane& lane = receiving_[channel];
    const uint32_t unreported = lane.released - lane.reported;
    if (unreported == 0 || credit_due_[channel]) {
      lane.idle_calls = 0;
      continue;
    }
    // Half a window goes at once; two, or one of a side that waits for room, at the second call.
    const uint32_t patience = unreported * 2 >= options_.window ? 0 : unreported >= 2 || starved_ ? 1 : kIdleCalls;
    if (++lane.idle_calls <= patience) continue;
    lane.idle_calls = 0;
    credit_due_[channel] = true;
    ++credits_due_;
  }
  starved_ = false;
  if (credits_due_ > 0) feed();
}

Status TcpEndpoint::progress() {
  if (!error_.ok()) [[unlikely]]
    return error_;
  RETURN_IF_ERROR(poller_.look_in_turn(looked_));
  if (!error_.ok()) [[unlikely]]
    return error_;
  // What arrived before the peer closed may be all that this rank needs; what it has not sent never is.
  if (closed_.ok()) {
    offer_credits();
  } else if (has_unsent()) {
    return closed_;
  }
  return {};
}

void TcpEndpoint::stream_closed(const TcpStream& stream, int error_number) {
  if (++closed_streams_ > 1) return;
  closed_at_ns_ = monotonic_ns();
  closed_ = Status(Code::kRemote,
                   options_.peer_name + (error_number == 0 ? " closed the connection " : " is lost on the connection ") +
                       stream.route() + (error_number == 0 ? "" : std::string(": ") + std::strerror(error_number)));
}

Status TcpEndpoint::check_closed() {
  if (closed_streams_ < streams_.size() && monotonic_ns() - closed_at_ns_ < kOthersCloseNs) return {};
  error_ = closed_;
  return error_;
}

Status TcpEndpoint::fail(const std::string& what) {
  error_ = Status(Code::kInternal, options_.peer_name + " broke the TCP link: it " + what);
  return error_;
}

std::vector<uint64_t> TcpEndpoint::received_bytes() const {
  std::vector<uint64_t> bytes;
  for (const std::unique_ptr<TcpStream>& stream : streams_) bytes.push_back(stream->received_bytes());
  return bytes;
}

}  // namespace gimbal
