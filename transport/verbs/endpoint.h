// An endpoint over InfiniBand or RoCE: reliable queue pairs on one or several rails, and writes into slots that the receiver
// has advertised.
//
// Both sides know the place of every message: slot `sequence modulo window` of its channel. A commit writes header and bytes
// straight into the peer's slot with immediate data that says what has come; a message longer than a chunk is cut, and every
// chunk goes over the queue pair that has least to do. A chunk counts when the receiver's completion queue tells of it, and a
// message is there when all its chunks are: nothing is assumed of the order among writes, or of memory that no completion has
// told of. The receiver's credits, counts of released messages, ride in headers or go alone as immediate data.
//
// Failure. A queue pair in error takes nothing more. Each side that loses one drains it, and then tells the other, over another
// pair, what of the window has arrived; the other sends the rest again. So each chunk arrives exactly once, and none of an
// older message can land in a slot that has been used again. When the last pair is lost the endpoint fails with REMOTE.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/bytes.h"
#include "transport/endpoint.h"
#include "transport/verbs/arrivals.h"
#include "transport/verbs/poller.h"
#include "transport/verbs/wire.h"

namespace gimbal {

// Of the queue pairs to a peer over one pair of ports.
struct VerbsWay {
  size_t rail = 0;  // of the poller
  VerbsRoute route;
  std::string name;  // "mlx5_0:1 (GID ::ffff:10.9.0.1) to mlx5_0:1 (GID ::ffff:10.9.0.2)"
};

struct VerbsEndpointOptions {
  Rank peer = 0;
  std::string peer_name;  // for messages: "rank 2 (pid 77 on host b)"
  SlotLayout slots;
  LinkCost cost;
  std::vector<VerbsWay> ways;  // in the same order on both sides
  VerbsSettings settings;
  size_t expected_pairs = 0;  // of all endpoints of the poller on one rail
  Log log;
};

class VerbsEndpoint final : public Endpoint, private VerbsPairOwner {
 public:
  // To one peer, over all its ways.
  static constexpr size_t kMaxPairs = 32;
  // Of the poller's memory that an endpoint takes.
  static size_t memory_bytes(const SlotLayout& slots, size_t pairs);

  // Makes its queue pairs. The poller must outlive the endpoint.
  static Result<std::unique_ptr<VerbsEndpoint>> create(VerbsPoller& poller, const VerbsEndpointOptions& options);
  ~VerbsEndpoint() override;

  // What the peer's connect() takes.
  [[nodiscard]] Bytes address() const;
  Status connect(std::span<const std::byte> peer_address);
  // After both sides have connected: sends as much as one packet may hold over every queue pair; then whether all have arrived,
  // and the peer's here.
  void start_trial();
  Result<bool> trial_passed();
  // Whether the peer's device has taken all messages, or never will.
  [[nodiscard]] bool has_arrived() const;

  [[nodiscard]] Rank peer() const override { return options_.peer; }
  [[nodiscard]] const LinkProperties& properties() const override { return properties_; }
  [[nodiscard]] size_t slot_bytes() const override { return options_.slots.slot_bytes; }
  [[nodiscard]] size_t window() const override { return options_.slots.window; }
  [[nodiscard]] Channel channels() const override { return options_.slots.channels; }

  Result<std::optional<std::span<std::byte>>> acquire(Channel channel, size_t bytes) override;
  Status commit(Channel channel, size_t bytes, uint64_t tag) override;
  Result<std::optional<ReceivedMessage>> front(Channel channel) override;
  void release(Channel channel) override;
  Status progress() override;
  [[nodiscard]] bool needs_progress() const override { return true; }
  [[nodiscard]] bool has_unsent() const override;

 private:
  struct SendLane {
    uint32_t sent = 0;
    uint32_t released = 0;  // by the peer, as far as known
    bool acquired = false;
  };
  struct ReceiveLane {
    explicit ReceiveLane(size_t window) : arrivals(window) {}
    VerbsArrivals arrivals;
    uint32_t reported = 0;    // to the peer, of released
    uint32_t idle_calls = 0;  // of progress() since a credit became unreported
    bool credit_due = false;
  };
  struct Chunk {
    Channel channel = 0;
    uint8_t number = 0;
    uint32_t sequence = 0;
  };
  static constexpr uint8_t kNoPair = UINT8_MAX;
  struct Pair {
    std::unique_ptr<VerbsQueuePair> queue;
    size_t way = 0;
    std::string why;            // it failed
    uint8_t carrier = kNoPair;  // the pair that took the report of this one
    bool report_due = false;
    bool peer_reported = false;
    bool undelivered = false;  // when it failed it had data that was not known to have arrived
  };

  VerbsEndpoint(VerbsPoller& poller, const VerbsEndpointOptions& options, size_t pairs);
  Status make_pairs();
  void arrived(VerbsQueuePair& pair, uint32_t immediate, size_t bytes) override;
  void failed(VerbsQueuePair& pair, const std::string& why) override;
  void before_sleep() override;
  void port_down(const VerbsRail& rail, const std::string& why) override;

  [[nodiscard]] SlotHeader& header(std::span<std::byte> slots, size_t slot) const {
    return *reinterpret_cast<SlotHeader*>(slots.data() + options_.slots.header_at(slot));
  }
  [[nodiscard]] uint8_t& carrier_of(size_t slot, size_t chunk) { return carriers_[slot * most_chunks_ + chunk]; }
  // Gives waiting chunks, credits and reports to pairs that have room.
  void feed();
  void wait_for_pair(const Chunk& chunk);
  bool send_chunk(const Chunk& chunk);
  void send_credits();
  void send_notice(Pair& pair, const VerbsImmediate& notice);
  // kNoPair when none has room.
  [[nodiscard]] uint8_t least_busy() const;
  [[nodiscard]] uint8_t first_with_room() const;
  std::string take_credits(Channel channel, int32_t news);
  void make_credit_due(ReceiveLane& lane);
  void offer_credits();

  // endpoint_failover.cc
  [[nodiscard]] uint8_t index_of(const VerbsQueuePair& pair) const;
  void lose(uint8_t index, const std::string& why);
  void send_reports();
  [[nodiscard]] bool reports_due() const;
  // Chunks are to be sent, or may be, as soon as the peer has told what has arrived over a pair that is lost.
  [[nodiscard]] bool owes_data() const;
  std::string take_report(size_t dead, uint8_t carrier);
  // How many chunks of the lost pair wait for another one now.
  size_t send_again(size_t dead, std::span<const uint64_t> report);
  [[nodiscard]] std::span<uint64_t> report(std::span<std::byte> area, size_t dead, size_t carrier) const;

  void fail(const std::string& what);

  const VerbsEndpointOptions options_;
  const LinkProperties properties_;
  const ReportLayout report_layout_;
  const size_t most_chunks_;
  VerbsPoller& poller_;
  uint64_t looked_ = 0;
  std::vector<Pair> pairs_;
  size_t pairs_up_ = 0;
  size_t hellos_ = 0;  // that have come

  // This side's memory; the peer writes into the second and the fourth, which have the same shape there.
  std::span<std::byte> send_slots_;
  std::span<std::byte> receive_slots_;
  std::span<std::byte> sent_reports_;
  std::span<std::byte> received_reports_;
  uint64_t peer_slots_ = 0;
  uint64_t peer_reports_ = 0;
  std::vector<uint32_t> peer_keys_;  // by way

  std::vector<SendLane> sending_;
  std::vector<ReceiveLane> receiving_;
  std::vector<uint8_t> carriers_;  // by slot and chunk: the pair that took it
  std::vector<Chunk> waiting_;     // a ring: each chunk of the window is in it at most once
  size_t first_waiting_ = 0;
  size_t waiting_count_ = 0;
  size_t credits_due_ = 0;  // channels
  bool starved_ = false;    // an acquire() since the last progress() found no room

  Status error_;            // final
  Status lost_;             // no pair is left
  std::vector<bool> told_;  // by way: that its chunks go over others
};

}  // namespace gimbal
