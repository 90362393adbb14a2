#include "tests/support/hostile_verbs/responder.h"

#include <algorithm>
#include <array>

#include "tests/support/hostile_verbs/queue_pair.h"

namespace gimbal::hostile {
namespace {

// IB specification, table 46: the codes of min_rnr_timer in units of 10 us.
int64_t not_ready_timer_ns(uint8_t code) {
  constexpr std::array<int64_t, 32> kTens = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                             48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                             2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return kTens[code % kTens.size()] * 10'000;
}

bool is_write(PacketKind kind) { return kind == PacketKind::kWrite || kind == PacketKind::kWriteWithImmediate; }
bool has_immediate(PacketKind kind) {
  return kind == PacketKind::kWriteWithImmediate || kind == PacketKind::kSendWithImmediate;
}

}  // namespace

Responder::Responder(Qp& qp, RequestQueue<ReceiveRequest>& receives, Dice& dice)
    : qp_(qp), receives_(receives), lane_(qp.owner(), dice), placer_(qp.owner(), dice), dice_(dice) {}

void Responder::advance(Turn& turn) {
  const ibv_qp_state state = qp_.current();
  if (state == IBV_QPS_RTR || state == IBV_QPS_RTS) take_packets(turn);
  if (qp_.current() == IBV_QPS_ERR) {
    while (received_ < receives_.posted()) {
      ibv_wc wc = {};
      wc.status = IBV_WC_WR_FLUSH_ERR;
      finish_receive(wc, false, turn);
    }
  }
  placer_.advance(turn);
  while (const Lane::Staged* staged = lane_.due(turn)) {
    // The promise of a completion: its message and all before it are in memory. Of later ones nothing is said.
    placer_.settle_through(staged->message);
    qp_.complete(qp_.recv_cq, staged->completion);
    lane_.pop();
    turn.moved = true;
  }
}

void Responder::take_packets(Turn& turn) {
  const QueuePairRecord* const peer = qp_.peer();
  if (peer == nullptr) return;
  QueuePairRecord& own = qp_.record();
  uint64_t consumed = own.consumed.load(std::memory_order_relaxed);
  const uint64_t produced = peer->produced.load(std::memory_order_acquire);
  if (consumed == produced || peer->destination_qp != qp_.qp_num) return;
  const uint64_t end = qp_.owner().hostility.hostile() ? consumed + 1 + dice_.below(produced - consumed) : produced;
  const uint64_t begin = consumed;
  while (consumed < end && take(peer->ring[consumed % kCells], turn)) ++consumed;
  if (consumed == begin) return;
  own.consumed.store(consumed, std::memory_order_release);
  turn.moved = true;
  qp_.owner().fabric->ring(peer->adapter);
}

// False when the packet stays where it is.
bool Responder::take(const Cell& cell, Turn& turn) {
  const PacketHeader& header = cell.header;
  if (qp_.current() == IBV_QPS_ERR) return false;
  if (header.bytes > qp_.record().path_mtu_bytes) {
    refuse(Verdict::kInvalidRequest);
    return false;
  }
  const bool takes_receive = is_write(header.kind) ? has_immediate(header.kind) && header.last : header.first;
  if (takes_receive && !has_receive(turn)) return false;
  if (!(is_write(header.kind) ? take_write(cell, turn) : take_send(cell, turn))) return false;
  if (!header.last) return true;
  if (header.kind != PacketKind::kWrite) complete_receive(header, turn);
  ++done_;
  answer(Verdict::kNone);
  return true;
}

bool Responder::has_receive(Turn& turn) {
  if (received_ < receives_.posted()) {
    not_ready_at_ns_ = 0;
    return true;
  }
  const int64_t timer_ns = not_ready_timer_ns(qp_.attributes().min_rnr_timer);
  if (not_ready_at_ns_ <= turn.now_ns) {
    qp_.record().not_ready.fetch_add(1, std::memory_order_relaxed);
    not_ready_at_ns_ = turn.now_ns + timer_ns;
    qp_.owner().fabric->ring(qp_.peer()->adapter);
  }
  turn.at(not_ready_at_ns_);
  return false;
}

bool Responder::take_write(const Cell& cell, const Turn& turn) {
  const PacketHeader& header = cell.header;
  if (header.bytes == 0) return true;  // no address is looked at, says the specification
  std::byte* const to =
      qp_.owner().memory.find(header.rkey, qp_.pd, header.remote_address, header.bytes, IBV_ACCESS_REMOTE_WRITE);
  if (to == nullptr || (qp_.attributes().qp_access_flags & IBV_ACCESS_REMOTE_WRITE) == 0) {
    qp_.owner().raise(IBV_EVENT_QP_ACCESS_ERR, &qp_);
    refuse(Verdict::kRemoteAccess);
    return false;
  }
  placer_.place(done_, to, std::span(cell.payload).first(header.bytes), turn);
  return true;
}

bool Responder::take_send(const Cell& cell, const Turn& turn) {
  const ReceiveRequest& receive = receives_[received_];
  if (cell.header.first) send_bytes_ = 0;
  size_t at = send_bytes_;
  std::span<const std::byte> bytes = std::span(cell.payload).first(cell.header.bytes);
  ibv_wc wc = {};
  for (int i = 0; i < receive.sge_count && !bytes.empty(); ++i) {
    const ibv_sge& sge = receive.sges[static_cast<size_t>(i)];
    if (at >= sge.length) {
      at -= sge.length;
      continue;
    }
    const size_t part = std::min<size_t>(sge.length - at, bytes.size());
    std::byte* const to = qp_.owner().memory.find(sge.lkey, qp_.pd, sge.addr + at, part, IBV_ACCESS_LOCAL_WRITE);
    if (to == nullptr) {
      wc.status = IBV_WC_LOC_PROT_ERR;
      finish_receive(wc, false, turn);
      refuse(Verdict::kOperation);
      return false;
    }
    placer_.place(done_, to, bytes.first(part), turn);
    bytes = bytes.subspan(part);
    at = 0;
  }
  if (!bytes.empty()) {
    wc.status = IBV_WC_LOC_LEN_ERR;
    finish_receive(wc, false, turn);
    refuse(Verdict::kInvalidRequest);
    return false;
  }
  send_bytes_ += cell.header.bytes;
  return true;
}

void Responder::complete_receive(const PacketHeader& header, const Turn& turn) {
  ibv_wc wc = {};
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = is_write(header.kind) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = header.message_bytes;
  wc.src_qp = qp_.attributes().dest_qp_num;
  if (has_immediate(header.kind)) {
    wc.imm_data = header.immediate;
    wc.wc_flags = IBV_WC_WITH_IMM;
  }
  finish_receive(wc, header.solicited, turn);
}

void Responder::finish_receive(ibv_wc& wc, bool solicited, const Turn& turn) {
  wc.wr_id = receives_[received_].wr_id;
  wc.qp_num = qp_.qp_num;
  ++received_;
  lane_.stage({wc, &receives_.retired(), received_, solicited}, done_, turn);
}

void Responder::refuse(Verdict verdict) {
  answer(verdict);
  qp_.fail();
  qp_.owner().fabric->ring(qp_.peer()->adapter);
}

void Responder::answer(Verdict verdict) { qp_.record().answer.store(Answer{done_, verdict}.word(), std::memory_order_release); }

}  // namespace gimbal::hostile
