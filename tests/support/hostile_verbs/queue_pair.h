// A reliable connected queue pair: its states, what may be posted, and its two halves, the requester and the responder.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "tests/support/hostile_verbs/context.h"
#include "tests/support/hostile_verbs/request_queue.h"
#include "tests/support/hostile_verbs/requester.h"
#include "tests/support/hostile_verbs/responder.h"

namespace gimbal::hostile {

class Qp : public ibv_qp {
 public:
  Qp(Context& of_context, ibv_pd* domain, const ibv_qp_init_attr& attributes, uint32_t number);
  ~Qp();

  // Under the context's lock. An errno, or 0.
  int modify(const ibv_qp_attr& wanted, int mask);
  void query(ibv_qp_attr& attributes, ibv_qp_init_attr& made_with) const;

  // An errno, or 0.
  int post_send(const ibv_send_wr& request);
  int post_receive(const ibv_recv_wr& request);

  // The adapter's side.
  void advance(Turn& turn);
  void settle() { responder_.settle(); }
  // To the error state: every request that has no completion yet is flushed.
  void fail();
  void complete(ibv_cq* cq, const Completion& completion);
  [[nodiscard]] Context& owner() const { return context_; }
  [[nodiscard]] QueuePairRecord& record() const { return record_; }
  // The record of the queue pair at the other end, once this is connected; null when there never was one.
  [[nodiscard]] const QueuePairRecord* peer() const;
  [[nodiscard]] const ibv_qp_attr& attributes() const { return attributes_; }
  [[nodiscard]] bool signals_all() const { return init_.sq_sig_all != 0; }
  [[nodiscard]] ibv_qp_state current() const { return state_.load(std::memory_order_acquire); }

 private:
  int to_init(const ibv_qp_attr& wanted, int mask);
  int to_ready_to_receive(const ibv_qp_attr& wanted, int mask);
  int to_ready_to_send(const ibv_qp_attr& wanted, int mask);
  void enter(ibv_qp_state next);

  Context& context_;
  QueuePairRecord& record_;
  const ibv_qp_init_attr init_;
  ibv_qp_attr attributes_ = {};
  std::atomic<ibv_qp_state> state_ = IBV_QPS_RESET;
  RequestQueue<SendRequest> sends_;
  RequestQueue<ReceiveRequest> receives_;
  Dice dice_;
  Requester requester_;
  Responder responder_;
};

inline Qp& qp_of(ibv_qp* qp) { return *static_cast<Qp*>(qp); }

}  // namespace gimbal::hostile
