#include "tests/support/hostile_verbs/requester.h"

#include <algorithm>
#include <cstring>

#include "tests/support/hostile_verbs/queue_pair.h"

namespace gimbal::hostile {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;

ibv_wc_status status_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNone:
      return IBV_WC_SUCCESS;
    case Verdict::kRemoteAccess:
      return IBV_WC_REM_ACCESS_ERR;
    case Verdict::kInvalidRequest:
      return IBV_WC_REM_INV_REQ_ERR;
    case Verdict::kOperation:
      return IBV_WC_REM_OP_ERR;
  }
  return IBV_WC_GENERAL_ERR;
}

PacketKind kind_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return PacketKind::kWriteWithImmediate;
    case IBV_WR_SEND:
      return PacketKind::kSend;
    case IBV_WR_SEND_WITH_IMM:
      return PacketKind::kSendWithImmediate;
    default:  // of libibverbs' opcodes, post_send lets no other pass
      return PacketKind::kWrite;
  }
}

}  // namespace

Requester::Requester(Qp& qp, RequestQueue<SendRequest>& requests, Dice& dice)
    : qp_(qp), requests_(requests), dice_(dice), lane_(qp.owner(), dice) {}

void Requester::advance(Turn& turn) {
  if (qp_.current() == IBV_QPS_RTS && finished_ < requests_.posted()) {
    met_ = met_ || fits_peer();
    if (met_) hear_answer(turn);
    if (qp_.current() == IBV_QPS_RTS && finished_ < requests_.posted()) {
      if (reaches_peer(turn)) {
        stalled_since_ns_.reset();
        wait_for_receive(turn);
        if (qp_.current() == IBV_QPS_RTS) send(turn);
      } else {
        wait_for_path(turn);
      }
    }
  }
  if (qp_.current() == IBV_QPS_ERR) flush(turn);
  while (const Lane::Staged* staged = lane_.due(turn)) {
    qp_.complete(qp_.send_cq, staged->completion);
    lane_.pop();
    turn.moved = true;
  }
}

bool Requester::fits_peer() const {
  const QueuePairRecord* const peer = qp_.peer();
  const QueuePairRecord& own = qp_.record();
  return peer != nullptr && peer->phase.load(std::memory_order_acquire) == Phase::kReady &&
         peer->destination_qp == qp_.qp_num && peer->port == own.destination && own.port == peer->destination &&
         peer->gid_type == own.gid_type && peer->receive_psn == (qp_.attributes().sq_psn & 0xffffff);
}

bool Requester::reaches_peer(const Turn& turn) {
  constexpr int64_t kAskAgainNs = 10 * kMillisecondNs;
  const Fabric& fabric = *qp_.owner().fabric;
  const QueuePairRecord* const peer = qp_.peer();
  if (!met_ || peer->phase.load(std::memory_order_acquire) != Phase::kReady) return false;
  if (!fabric.has_link(qp_.record().port) || !fabric.has_link(qp_.record().destination)) return false;
  if (turn.now_ns - std::max(moved_ns_, asked_ns_) > kAskAgainNs) {
    asked_ns_ = turn.now_ns;
    peer_lives_ = fabric.is_alive(peer->process);
  }
  return peer_lives_;
}

void Requester::hear_answer(const Turn& turn) {
  const QueuePairRecord& peer = *qp_.peer();
  const Answer answer = Answer::of(peer.answer.load(std::memory_order_acquire));
  for (; finished_ < answer.done; moved_ns_ = turn.now_ns) {
    finish(finished_, IBV_WC_SUCCESS, turn);
    not_ready_ = peer.not_ready.load(std::memory_order_relaxed);
  }
  if (answer.verdict != Verdict::kNone) fail(status_of(answer.verdict), turn);
}

// IB specification 9.9.2: a request is sent again retry_cnt times, each after 4.096 us * 2^timeout; timeout 0 waits for ever.
void Requester::wait_for_path(Turn& turn) {
  if (!stalled_since_ns_) stalled_since_ns_ = turn.now_ns;
  turn.at(turn.now_ns + kMillisecondNs);
  const ibv_qp_attr& attributes = qp_.attributes();
  if (attributes.timeout == 0) return;
  const int64_t limit_ns = (int64_t{4096} << attributes.timeout) * (attributes.retry_cnt + 1);
  if (turn.now_ns - *stalled_since_ns_ >= limit_ns) fail(IBV_WC_RETRY_EXC_ERR, turn);
}

void Requester::wait_for_receive(const Turn& turn) {
  constexpr uint8_t kForEver = 7;
  const uint64_t told = qp_.peer()->not_ready.load(std::memory_order_relaxed) - not_ready_;
  const uint8_t retries = qp_.attributes().rnr_retry;
  if (retries != kForEver && told > retries) fail(IBV_WC_RNR_RETRY_EXC_ERR, turn);
}

void Requester::send(Turn& turn) {
  // A turn's share: with a seed, other queue pairs come between.
  uint64_t packets = qp_.owner().hostility.hostile() ? 1 + dice_.below(kCells) : kCells;
  bool sent = false;
  for (; packets > 0 && !broken_source_ && sending_ < requests_.posted(); --packets) {
    if (!started_ && !start_message(turn)) break;
    if (!send_packet(turn)) break;
    sent = true;
  }
  if (broken_source_ && finished_ == sending_) fail(IBV_WC_LOC_PROT_ERR, turn);
  if (!sent) return;
  turn.moved = true;
  qp_.owner().fabric->ring(qp_.peer()->adapter);
}

// Once per message: false while it has to wait, or when its queue pair or its link broke.
bool Requester::start_message(Turn& turn) {
  constexpr uint64_t kLongestWaitNs = 150'000;
  if (turn.now_ns < not_before_ns_) {
    turn.at(not_before_ns_);
    return false;
  }
  if (qp_.owner().breaks_queue_pair(qp_.record().port)) {
    qp_.owner().raise(IBV_EVENT_QP_FATAL, &qp_);
    fail(IBV_WC_LOC_QP_OP_ERR, turn);
    return false;
  }
  if (qp_.owner().hostility.hostile() && dice_.one_in(8)) {
    not_before_ns_ = turn.now_ns + static_cast<int64_t>(dice_.below(kLongestWaitNs));
  }
  started_ = true;
  return qp_.owner().fabric->has_link(qp_.record().port);
}

// False when there is no room, or when the source may not be read.
bool Requester::send_packet(const Turn& turn) {
  QueuePairRecord& own = qp_.record();
  const uint64_t produced = own.produced.load(std::memory_order_relaxed);
  if (produced - qp_.peer()->consumed.load(std::memory_order_acquire) >= kCells) return false;
  const SendRequest& request = requests_[sending_];
  Cell& cell = own.ring[produced % kCells];
  const uint32_t bytes = std::min(request.bytes - sent_bytes_, own.path_mtu_bytes);
  const bool last = sent_bytes_ + bytes == request.bytes;
  cell.header = {.remote_address = request.remote_address + sent_bytes_,
                 .rkey = request.rkey,
                 .bytes = bytes,
                 .message_bytes = request.bytes,
                 .immediate = request.immediate,
                 .kind = kind_of(request.opcode),
                 .first = sent_bytes_ == 0,
                 .last = last,
                 .solicited = (request.flags & IBV_SEND_SOLICITED) != 0};
  if (!gather(request, cell)) {
    broken_source_ = true;
    return false;
  }
  if (moved_ns_ == 0) moved_ns_ = turn.now_ns;
  own.produced.store(produced + 1, std::memory_order_release);
  sent_bytes_ = last ? 0 : sent_bytes_ + bytes;
  started_ = !last;
  sending_ += last ? 1 : 0;
  return true;
}

bool Requester::gather(const SendRequest& request, Cell& cell) const {
  size_t from = sent_bytes_;
  std::span<std::byte> to = std::span(cell.payload).first(cell.header.bytes);
  if (!request.inline_data.empty()) {
    std::memcpy(to.data(), request.inline_data.data() + from, to.size());
    return true;
  }
  for (int i = 0; i < request.sge_count && !to.empty(); ++i) {
    const ibv_sge& sge = request.sges[static_cast<size_t>(i)];
    if (from >= sge.length) {
      from -= sge.length;
      continue;
    }
    const size_t bytes = std::min<size_t>(sge.length - from, to.size());
    const std::byte* const source = qp_.owner().memory.find(sge.lkey, qp_.pd, sge.addr + from, bytes, 0);
    if (source == nullptr) return false;
    std::memcpy(to.data(), source, bytes);
    to = to.subspan(bytes);
    from = 0;
  }
  return true;
}

void Requester::finish(uint64_t index, ibv_wc_status status, const Turn& turn) {
  finished_ = index + 1;
  const SendRequest& request = requests_[index];
  const bool wanted = qp_.signals_all() || (request.flags & IBV_SEND_SIGNALED) != 0;
  if (status == IBV_WC_SUCCESS && !wanted) return;  // an error is always told
  const bool writes = request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  ibv_wc wc = {};
  wc.wr_id = request.wr_id;
  wc.status = status;
  wc.opcode = writes ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  wc.byte_len = request.bytes;
  wc.qp_num = qp_.qp_num;
  if (status != IBV_WC_SUCCESS) {
    // The specification leaves all else of a failed completion undefined, and adapters leave rubbish there.
    wc.opcode = static_cast<ibv_wc_opcode>(0x5a);
    wc.byte_len = 0x5a5a5a5a;
    wc.vendor_err = 0x5a;
  }
  lane_.stage({wc, &requests_.retired(), index + 1, false}, index, turn);
}

void Requester::fail(ibv_wc_status status, const Turn& turn) {
  finish(finished_, status, turn);
  lane_.hurry(turn);
  qp_.fail();
}

void Requester::flush(const Turn& turn) {
  while (finished_ < requests_.posted()) finish(finished_, IBV_WC_WR_FLUSH_ERR, turn);
}

}  // namespace gimbal::hostile
