// The half of a queue pair that sends: cuts requests into packets, hears the answers, and completes in order.
//
// Nothing is lost on the way, so the time-out runs only while packets could not be taken at all: no such queue pair, a wrong
// address, no link, a process that is gone. A peer that is merely slow is waited for.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "tests/support/hostile_verbs/lane.h"
#include "tests/support/hostile_verbs/placer.h"
#include "tests/support/hostile_verbs/request_queue.h"

namespace gimbal::hostile {

class Qp;

class Requester {
 public:
  Requester(Qp& qp, RequestQueue<SendRequest>& requests, Dice& dice);

  void advance(Turn& turn);

 private:
  [[nodiscard]] bool reaches_peer(const Turn& turn);
  [[nodiscard]] bool fits_peer() const;
  void hear_answer(const Turn& turn);
  void wait_for_path(Turn& turn);
  void wait_for_receive(const Turn& turn);
  void send(Turn& turn);
  bool send_packet(const Turn& turn);
  bool start_message(Turn& turn);
  [[nodiscard]] bool gather(const SendRequest& request, Cell& cell) const;
  void finish(uint64_t index, ibv_wc_status status, const Turn& turn);
  void fail(ibv_wc_status status, const Turn& turn);
  void flush(const Turn& turn);

  Qp& qp_;
  RequestQueue<SendRequest>& requests_;
  Dice& dice_;
  Lane lane_;
  uint64_t finished_ = 0;    // requests with a completion, or with none to come
  uint64_t sending_ = 0;     // the request that is being cut into packets
  uint32_t sent_bytes_ = 0;  // of it
  bool started_ = false;
  bool broken_source_ = false;  // sending_ has memory that this may not read: it fails once it is the oldest
  bool met_ = false;            // the peer is connected to this
  int64_t moved_ns_ = 0;        // when an answer came last
  int64_t asked_ns_ = 0;        // when it was asked last whether the peer's process lives
  bool peer_lives_ = true;
  int64_t not_before_ns_ = 0;
  std::optional<int64_t> stalled_since_ns_;
  uint64_t not_ready_ = 0;  // of the peer's count, what was there when an answer came last
};

}  // namespace gimbal::hostile
