// An endpoint over several TCP streams to one peer.
//
// A message is one or more chunks, and every chunk goes to whichever stream is free: the rate is the sum of the streams', and a
// slow one holds nobody back for longer than it takes to deliver what it has taken. Small messages prefer the first stream. The
// receiver puts chunks into slots by their headers and shows messages in the order of their channel.
//
// Slots are taken last in, first out, so that what is in use stays in the cache. The receiver returns credits: a channel has at
// most window() messages between the sender's commit and the receiver's release, so a chunk that arrives always has a place, no
// channel stops another, and what is in flight is bounded. Credits travel in the headers of messages, or alone when none goes
// back.
//
// Peers are not believed: a header that does not fit ends the endpoint with INTERNAL before a byte behind it is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/endpoint.h"
#include "transport/slot_pool.h"
#include "transport/socket_poller.h"
#include "transport/tcp_stream.h"

namespace gimbal {

struct TcpEndpointOptions {
  Rank peer = 0;
  std::string peer_name;  // for messages: "rank 2 (pid 77 on host b)"
  Channel channels = 1;
  size_t slot_bytes = 0;
  size_t window = 0;
  LinkCost cost;
};

class TcpEndpoint final : public Endpoint, private StreamOwner {
 public:
  // Of a slot of slot_bytes; equal on both sides.
  static size_t chunk_bytes(size_t slot_bytes);

  // The streams are connected, in the same order on both sides; the poller must outlive the endpoint.
  static Result<std::unique_ptr<TcpEndpoint>> create(const TcpEndpointOptions& options, std::vector<FileDescriptor> streams,
                                                     SocketPoller& poller);
  ~TcpEndpoint() override;

  [[nodiscard]] Rank peer() const override { return options_.peer; }
  [[nodiscard]] const LinkProperties& properties() const override { return properties_; }
  [[nodiscard]] size_t slot_bytes() const override { return options_.slot_bytes; }
  [[nodiscard]] size_t window() const override { return options_.window; }
  [[nodiscard]] Channel channels() const override { return options_.channels; }

  Result<std::optional<std::span<std::byte>>> acquire(Channel channel, size_t bytes) override;
  Status commit(Channel channel, size_t bytes, uint64_t tag) override;
  Result<std::optional<ReceivedMessage>> front(Channel channel) override;
  void release(Channel channel) override;
  Status progress() override;
  [[nodiscard]] bool needs_progress() const override { return true; }
  [[nodiscard]] bool has_unsent() const override;

  // Bytes that each stream has brought so far.
  [[nodiscard]] std::vector<uint64_t> received_bytes() const;

 private:
  struct SendLane {
    uint32_t sent = 0;
    uint32_t released = 0;    // by the peer, as far as known
    uint32_t slot = kNoSlot;  // acquired, not committed
  };
  struct Arrival {
    uint32_t slot = kNoSlot;
    uint32_t bytes = 0;
    uint32_t missing = 0;  // chunks
    uint64_t tag = 0;
    uint64_t begun = 0;  // a bit per chunk
  };
  struct ReceiveLane {
    uint32_t released = 0;
    uint32_t reported = 0;        // to the peer, of released
    uint32_t idle_calls = 0;      // of progress() since a credit became unreported
    std::vector<Arrival> window;  // by sequence modulo its size
  };
  static constexpr uint32_t kNoSlot = SlotPool::kNone;

  TcpEndpoint(const TcpEndpointOptions& options, size_t streams, SocketPoller& poller);
  std::byte* begin_chunk(const ChunkHeader& header, Landing& landing) override;
  void end_chunk(const ChunkHeader& header) override;
  void chunk_sent(const OutgoingChunk& chunk) override;
  void stream_closed(const TcpStream& stream, int error_number) override;

  std::string take_credits(const ChunkHeader& header);
  std::string place(const ChunkHeader& header, Landing& landing, Arrival*& arrived);
  Landing take_landing();
  // Gives waiting chunks to free streams.
  void feed();
  TcpStream* free_stream(size_t bytes);
  bool next_chunk(OutgoingChunk& chunk);
  void offer_credits();
  [[nodiscard]] Arrival& arrival(Channel channel, uint32_t sequence);
  // What acquire() and an empty front() say once streams have closed; OK while something may still arrive.
  Status check_closed();
  Status fail(const std::string& what);

  const TcpEndpointOptions options_;
  const LinkProperties properties_;
  const ChunkLimits limits_;
  SocketPoller& poller_;
  std::vector<std::unique_ptr<TcpStream>> streams_;
  size_t next_stream_ = 0;
  uint64_t looked_ = 0;

  SlotPool send_slots_;
  SlotPool receive_slots_;
  std::vector<SendLane> sending_;
  std::vector<ReceiveLane> receiving_;
  std::vector<uint32_t> unsent_chunks_;  // by slot
  ChunkQueue waiting_;
  std::vector<bool> credit_due_;  // by channel
  size_t credits_due_ = 0;
  bool starved_ = false;  // an acquire() since the last progress() found no room
  bool feeding_ = false;

  Status error_;   // final
  Status closed_;  // what the first stream to close said
  size_t closed_streams_ = 0;
  int64_t closed_at_ns_ = 0;
};

}  // namespace gimbal
