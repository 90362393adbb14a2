// The half of a queue pair that receives: takes its peer's packets, checks every address, stores, completes and answers.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "tests/support/hostile_verbs/lane.h"
#include "tests/support/hostile_verbs/placer.h"
#include "tests/support/hostile_verbs/request_queue.h"

namespace gimbal::hostile {

class Qp;

class Responder {
 public:
  Responder(Qp& qp, RequestQueue<ReceiveRequest>& receives, Dice& dice);

  void advance(Turn& turn);
  // What has been taken is in memory afterwards.
  void settle() { placer_.settle(); }

 private:
  void take_packets(Turn& turn);
  bool take(const Cell& cell, Turn& turn);
  bool take_write(const Cell& cell, const Turn& turn);
  bool take_send(const Cell& cell, const Turn& turn);
  [[nodiscard]] bool has_receive(Turn& turn);
  void complete_receive(const PacketHeader& header, const Turn& turn);
  void finish_receive(ibv_wc& wc, bool solicited, const Turn& turn);
  void refuse(Verdict verdict);
  void answer(Verdict verdict);

  Qp& qp_;
  RequestQueue<ReceiveRequest>& receives_;
  Lane lane_;
  Placer placer_;
  Dice& dice_;
  uint64_t done_ = 0;            // messages
  uint64_t received_ = 0;        // receive requests that are used up
  uint32_t send_bytes_ = 0;      // of the send that is arriving
  int64_t not_ready_at_ns_ = 0;  // when the sender is told next that no receive is posted; 0: one is
};

}  // namespace gimbal::hostile
