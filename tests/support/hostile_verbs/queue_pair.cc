#include "tests/support/hostile_verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/hostile_verbs/addresses.h"

namespace gimbal::hostile {
namespace {

// Of each change of state: what must be said, and what may be (IB specification, table 91).
constexpr int kInitNeeds = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kReceiveNeeds =
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kReceiveMay = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr int kSendNeeds = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kSendMay = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;

bool says(int mask, int needs, int may) {
  const int said = mask & ~IBV_QP_STATE;
  return (said & needs) == needs && (said & ~(needs | may)) == 0;
}

uint32_t mtu_bytes(ibv_mtu mtu) { return 128U << static_cast<uint32_t>(mtu); }

}  // namespace

Qp::Qp(Context& of_context, ibv_pd* domain, const ibv_qp_init_attr& attributes, uint32_t number)
    : ibv_qp{},
      context_(of_context),
      record_(*of_context.fabric->queue_pair(number)),
      init_(attributes),
      sends_(attributes.cap.max_send_wr),
      receives_(attributes.cap.max_recv_wr),
      dice_(of_context.hostility.seed, uint64_t{of_context.adapter} << 32 | of_context.queue_pairs_made++),
      requester_(*this, sends_, dice_),
      responder_(*this, receives_, dice_) {
  context = &of_context;
  pd = domain;
  qp_context = attributes.qp_context;
  send_cq = attributes.send_cq;
  recv_cq = attributes.recv_cq;
  qp_type = attributes.qp_type;
  qp_num = number;
  state = IBV_QPS_RESET;
  context_.queue_pairs.push_back(this);
}

Qp::~Qp() {
  record_.phase.store(Phase::kGone, std::memory_order_release);
  responder_.settle();
  auto& all = context_.queue_pairs;
  all.erase(std::find(all.begin(), all.end(), this));
  context_.async_events.forget_if([&](const ibv_async_event& event) { return event.element.qp == this; });
  static_cast<Cq*>(send_cq)->forget(qp_num);
  static_cast<Cq*>(recv_cq)->forget(qp_num);
}

void Qp::enter(ibv_qp_state next) {
  state = attributes_.qp_state = next;
  state_.store(next, std::memory_order_release);
}

int Qp::modify(const ibv_qp_attr& wanted, int mask) {
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  const ibv_qp_state now = current();
  if (wanted.qp_state == IBV_QPS_ERR) {
    fail();
    return 0;
  }
  if (wanted.qp_state == IBV_QPS_INIT && now == IBV_QPS_RESET) return to_init(wanted, mask);
  if (wanted.qp_state == IBV_QPS_RTR && now == IBV_QPS_INIT) return to_ready_to_receive(wanted, mask);
  if (wanted.qp_state == IBV_QPS_RTS && now == IBV_QPS_RTR) return to_ready_to_send(wanted, mask);
  return EINVAL;
}

int Qp::to_init(const ibv_qp_attr& wanted, int mask) {
  if (!says(mask, kInitNeeds, 0) || wanted.pkey_index != 0) return EINVAL;
  if (wanted.port_num < 1 || wanted.port_num > context_.ports()) return EINVAL;
  attributes_.port_num = wanted.port_num;
  attributes_.qp_access_flags = wanted.qp_access_flags;
  enter(IBV_QPS_INIT);
  return 0;
}

int Qp::to_ready_to_receive(const ibv_qp_attr& wanted, int mask) {
  if (!says(mask, kReceiveNeeds, kReceiveMay)) return EINVAL;
  const bool infiniband = context_.hostility.infiniband;
  const PortAddress port = context_.address(attributes_.port_num);
  const ibv_ah_attr& vector = wanted.ah_attr;
  if (!infiniband && vector.is_global == 0) return EINVAL;  // RoCE has no other addresses
  const auto source = gid_of(port, vector.is_global != 0 ? vector.grh.sgid_index : 0, infiniband);
  if (!source || vector.port_num != attributes_.port_num) return EINVAL;
  if (wanted.path_mtu < IBV_MTU_256 || mtu_bytes(wanted.path_mtu) > context_.hostility.mtu_bytes) return EINVAL;
  attributes_.ah_attr = vector;
  attributes_.path_mtu = wanted.path_mtu;
  attributes_.dest_qp_num = wanted.dest_qp_num;
  attributes_.rq_psn = wanted.rq_psn;
  attributes_.min_rnr_timer = wanted.min_rnr_timer;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) attributes_.qp_access_flags = wanted.qp_access_flags;
  record_.adapter = context_.adapter;
  record_.process = context_.fabric->process();
  record_.destination_qp = wanted.dest_qp_num;
  record_.port = port;
  record_.destination = destination_of(vector, infiniband);
  record_.gid_type = source->type;
  record_.receive_psn = wanted.rq_psn & 0xffffff;
  record_.path_mtu_bytes = mtu_bytes(wanted.path_mtu);
  record_.phase.store(Phase::kReady, std::memory_order_release);
  enter(IBV_QPS_RTR);
  return 0;
}

int Qp::to_ready_to_send(const ibv_qp_attr& wanted, int mask) {
  if (!says(mask, kSendNeeds, kSendMay)) return EINVAL;
  if (wanted.timeout > 31 || wanted.retry_cnt > 7 || wanted.rnr_retry > 7) return EINVAL;
  attributes_.timeout = wanted.timeout;
  attributes_.retry_cnt = wanted.retry_cnt;
  attributes_.rnr_retry = wanted.rnr_retry;
  attributes_.sq_psn = wanted.sq_psn;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) attributes_.qp_access_flags = wanted.qp_access_flags;
  enter(IBV_QPS_RTS);
  return 0;
}

void Qp::query(ibv_qp_attr& attributes, ibv_qp_init_attr& made_with) const {
  attributes = attributes_;
  attributes.cur_qp_state = attributes_.qp_state;
  attributes.cap = init_.cap;
  made_with = init_;
}

const QueuePairRecord* Qp::peer() const {
  const bool connected = record_.phase.load(std::memory_order_relaxed) == Phase::kReady;
  return connected || attributes_.dest_qp_num != 0 ? context_.fabric->queue_pair(attributes_.dest_qp_num) : nullptr;
}

void Qp::fail() {
  enter(IBV_QPS_ERR);
  record_.phase.store(Phase::kGone, std::memory_order_release);
}

void Qp::complete(ibv_cq* cq, const Completion& completion) {
  if (static_cast<Cq*>(cq)->publish(completion)) return;
  ibv_async_event event = {};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = cq;
  context_.async_events.push(event);
  fail();
}

void Qp::advance(Turn& turn) {
  requester_.advance(turn);
  responder_.advance(turn);
}

int Qp::post_send(const ibv_send_wr& request) {
  const ibv_qp_state now = current();
  if (now != IBV_QPS_RTS && now != IBV_QPS_ERR) return EINVAL;
  const bool writes = request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (!writes && request.opcode != IBV_WR_SEND && request.opcode != IBV_WR_SEND_WITH_IMM) return EOPNOTSUPP;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > init_.cap.max_send_sge) return EINVAL;
  SendRequest copy = {.wr_id = request.wr_id,
                      .opcode = request.opcode,
                      .flags = request.send_flags,
                      .immediate = request.imm_data,
                      .remote_address = writes ? request.wr.rdma.remote_addr : 0,
                      .rkey = writes ? request.wr.rdma.rkey : 0,
                      .bytes = 0,
                      .sge_count = request.num_sge,
                      .sges = {},
                      .inline_data = {}};
  uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  if (bytes > uint64_t{1} << 31) return EINVAL;
  copy.bytes = static_cast<uint32_t>(bytes);
  std::copy_n(request.sg_list, request.num_sge, copy.sges.begin());
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    if (bytes > init_.cap.max_inline_data) return EINVAL;
    copy.inline_data.reserve(bytes);
    for (int i = 0; i < request.num_sge; ++i) {
      const auto* const from = reinterpret_cast<const std::byte*>(request.sg_list[i].addr);
      copy.inline_data.insert(copy.inline_data.end(), from, from + request.sg_list[i].length);
    }
  }
  return sends_.push(std::move(copy)) ? 0 : ENOMEM;
}

int Qp::post_receive(const ibv_recv_wr& request) {
  if (current() == IBV_QPS_RESET) return EINVAL;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > init_.cap.max_recv_sge) return EINVAL;
  ReceiveRequest copy = {.wr_id = request.wr_id, .sge_count = request.num_sge, .sges = {}};
  std::copy_n(request.sg_list, request.num_sge, copy.sges.begin());
  return receives_.push(copy) ? 0 : ENOMEM;
}

}  // namespace gimbal::hostile
