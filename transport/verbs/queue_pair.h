// One reliable connection: work requests go out in lists, and their completions are counted.
//
// A list is one doorbell. The last request of a list that carries data is signalled, and every sixteenth, so that the places in
// the send queue come back; what a side has sent is thus known to have arrived without anything being sent for it.
//
// Receives hold no memory: they take the immediate data that tells of a write. As many as the peer can send are always posted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/verbs/rail.h"

namespace gimbal {

class VerbsQueuePair;

class VerbsPairOwner {
 public:
  VerbsPairOwner() = default;
  VerbsPairOwner(const VerbsPairOwner&) = delete;
  VerbsPairOwner& operator=(const VerbsPairOwner&) = delete;
  virtual ~VerbsPairOwner() = default;

  // The peer wrote `bytes` with this immediate data.
  virtual void arrived(VerbsQueuePair& pair, uint32_t immediate, size_t bytes) = 0;
  // The pair has met an error, once; it is still up.
  virtual void failed(VerbsQueuePair& pair, const std::string& why) = 0;
  // Whoever drives the pairs is about to sleep: what was put off is to go now.
  virtual void before_sleep() = 0;
  // The rail's port is down. A rail may come back before the retries have ended; others need not be waited for.
  virtual void port_down(const VerbsRail& rail, const std::string& why) = 0;
};

struct VerbsWrite {
  const std::byte* from = nullptr;
  size_t bytes = 0;
  uint64_t to = 0;
  uint32_t remote_key = 0;
  uint32_t immediate = 0;
  bool is_data = true;  // its arrival is waited for before the communicator ends
};

class VerbsQueuePair {
 public:
  struct Options {
    uint32_t sends = 0;     // requests that may be under way
    uint32_t receives = 0;  // writes with immediate data that the peer may have under way
    uint32_t index = 0;     // among the poller's pairs, for work request ids
    size_t expected_completions = 0;
  };
  static constexpr uint32_t kSignalEvery = 16;
  // Receives are posted again in batches, beyond those that must be there.
  static constexpr uint32_t kReceiveBatch = 16;

  static Result<std::unique_ptr<VerbsQueuePair>> create(VerbsRail& rail, VerbsPairOwner& owner, const Options& options);
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;
  ~VerbsQueuePair();

  [[nodiscard]] VerbsRail& rail() const { return rail_; }
  [[nodiscard]] VerbsPairOwner& owner() const { return owner_; }
  [[nodiscard]] uint32_t number() const { return pair_->qp_num; }
  [[nodiscard]] uint32_t index() const { return options_.index; }

  // To the peer's pair of this number; both sides count packets from 0.
  Status connect(uint32_t peer_number, const VerbsRoute& route, const VerbsSettings& settings);

  // Up until fail(), which moves it to the error state: nothing arrives any more and nothing is sent.
  [[nodiscard]] bool is_up() const { return is_up_; }
  void fail();
  // Nothing of what had arrived before fail() is left in the completion queue.
  [[nodiscard]] bool is_drained() const { return receives_ == 0; }

  [[nodiscard]] bool has_room() const { return posted_ + listed_ - completed_ < options_.sends; }
  // Bytes given to it that are not known to have arrived.
  [[nodiscard]] uint64_t outstanding_bytes() const { return added_bytes_ - arrived_bytes_; }
  [[nodiscard]] bool has_outstanding_data() const { return static_cast<int32_t>(data_until_ - completed_) > 0; }
  // Adds to the list, and rings when that is full.
  void add(const VerbsWrite& write);
  void ring();

  // Of a completion with this pair's index.
  void complete(const ibv_wc& completion);
  // Posts the receives that were taken; after each poll.
  void refill();

 private:
  static constexpr size_t kListLength = 16;

  VerbsQueuePair(VerbsRail& rail, VerbsPairOwner& owner, const Options& options);
  Status start();
  int post_receives(uint32_t count);
  void sent(uint32_t number);
  [[nodiscard]] uint64_t request_id(bool is_send, uint32_t number) const;
  void meet_error(int error, const char* what);

  VerbsRail& rail_;
  VerbsPairOwner& owner_;
  const Options options_;
  ibv_qp* pair_ = nullptr;
  size_t inline_bytes_ = 0;
  bool is_up_ = false;

  uint32_t posted_ = 0;      // sends
  uint32_t completed_ = 0;   // of them, as far as known
  uint32_t data_until_ = 0;  // past the last one that carries data
  uint32_t unsignalled_ = 0;
  uint64_t added_bytes_ = 0;
  uint64_t arrived_bytes_ = 0;
  std::vector<uint64_t> bytes_until_;  // by number modulo its size: added_bytes_ after that request
  uint32_t receives_ = 0;              // posted now

  size_t listed_ = 0;
  std::array<ibv_send_wr, kListLength> requests_;
  std::array<ibv_sge, kListLength> pieces_;
};

// Index of the pair in a completion's id.
inline uint32_t pair_index(uint64_t id) { return static_cast<uint32_t>(id >> 33); }

// "transport retry counter exceeded: the peer, or the way to it, does not answer"
std::string translate(const VerbsLibrary& library, ibv_wc_status status);

}  // namespace gimbal
