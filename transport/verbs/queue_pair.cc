#include "transport/verbs/queue_pair.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gimbal {
namespace {

// Asked for in this order until a device grants one: a small message with its header, on any device a bare notice.
constexpr std::array<uint32_t, 4> kInlineBytes = {256, 128, 64, 0};
constexpr uint64_t kSendBit = uint64_t{1} << 32;

const char* meaning(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer, or the way to it, does not answer";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer takes nothing more";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's device does not admit a write to that memory";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device failed";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device does not take such a request";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return "this host's device does not admit the request";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair was in error";
    default:
      return "";
  }
}

}  // namespace

std::string translate(const VerbsLibrary& library, ibv_wc_status status) {
  const std::string more = meaning(status);
  return library.wc_status_str(status) + (more.empty() ? "" : ": " + more);
}

VerbsQueuePair::VerbsQueuePair(VerbsRail& rail, VerbsPairOwner& owner, const Options& options)
    : rail_(rail), owner_(owner), options_(options), bytes_until_(options.sends) {
  GIMBAL_DCHECK(options.sends >= 2 * kSignalEvery);
}

VerbsQueuePair::~VerbsQueuePair() {
  if (pair_ != nullptr && !rail_.in_forked_child()) rail_.library().destroy_qp(pair_);
}

Result<std::unique_ptr<VerbsQueuePair>> VerbsQueuePair::create(VerbsRail& rail, VerbsPairOwner& owner, const Options& options) {
  std::unique_ptr<VerbsQueuePair> pair(new VerbsQueuePair(rail, owner, options));
  RETURN_IF_ERROR(pair->start());
  return pair;
}

Status VerbsQueuePair::start() {
  const uint32_t receives = options_.receives + kReceiveBatch;
  // A request in error completes without being signalled: there is a place for all of them.
  ASSIGN_OR_RETURN(ibv_cq* const queue, rail_.reserve(options_.sends + receives, options_.expected_completions));
  for (const uint32_t inline_bytes : kInlineBytes) {
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = queue;
    attributes.recv_cq = queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = options_.sends,
                      .max_recv_wr = receives,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = inline_bytes};
    pair_ = rail_.library().create_qp(rail_.domain(), &attributes);
    inline_bytes_ = inline_bytes;
    if (pair_ != nullptr) break;
  }
  if (pair_ == nullptr) {
    const int error = errno;
    return {error == ENOMEM ? Code::kNoMemory : Code::kDevice,
            describe(rail_.port()) + ": no queue pair with " + std::to_string(options_.sends) + " sends and " +
                std::to_string(receives) + " receives: " + std::strerror(error)};
  }
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = rail_.port().port;
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  int error =
      rail_.library().modify_qp(pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0) error = post_receives(receives);
  if (error == 0) return {};
  return {Code::kDevice, describe(rail_.port()) + ": a queue pair cannot be initialised: " + std::strerror(error)};
}

Status VerbsQueuePair::connect(uint32_t peer_number, const VerbsRoute& route, const VerbsSettings& settings) {
  constexpr uint8_t kHopLimit = 255;
  constexpr uint8_t kReceiverNotReadyTimer = 12;   // 0.64 ms
  constexpr uint8_t kReceiverNotReadyRetries = 6;  // it never happens; were it to, this ends, and 7 would not
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = route.mtu;
  attributes.dest_qp_num = peer_number;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  attributes.max_dest_rd_atomic = 1;
  attributes.ah_attr.port_num = rail_.port().port;
  attributes.ah_attr.sl = settings.service_level;
  attributes.ah_attr.dlid = route.remote_lid;
  if (route.is_global) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, route.remote.address.data(), route.remote.address.size());
    attributes.ah_attr.grh.sgid_index = route.local.index;
    attributes.ah_attr.grh.hop_limit = kHopLimit;
    attributes.ah_attr.grh.traffic_class = settings.traffic_class;
  }
  int error = rail_.library().modify_qp(pair_, &attributes,
                                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) {
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = settings.timeout;
    attributes.retry_cnt = settings.retry_count;
    attributes.rnr_retry = kReceiverNotReadyRetries;
    attributes.max_rd_atomic = 1;
    error = rail_.library().modify_qp(
        pair_, &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error != 0) return {Code::kRemote, std::string("no connection: ") + std::strerror(error)};
  is_up_ = true;
  return {};
}

void VerbsQueuePair::fail() {
  is_up_ = false;
  listed_ = 0;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  // A pair that cannot be moved is there already, or its device is gone.
  static_cast<void>(rail_.library().modify_qp(pair_, &attributes, IBV_QP_STATE));
}

uint64_t VerbsQueuePair::request_id(bool is_send, uint32_t number) const {
  return uint64_t{options_.index} << 33 | (is_send ? kSendBit : 0) | number;
}

int VerbsQueuePair::post_receives(uint32_t count) {
  std::array<ibv_recv_wr, 64> list = {};
  while (count > 0) {
    const uint32_t batch = std::min<uint32_t>(count, list.size());
    for (uint32_t i = 0; i < batch; ++i) {
      list[i].wr_id = request_id(false, 0);
      list[i].next = i + 1 < batch ? &list[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair_, list.data(), &bad); error != 0) return error;
    receives_ += batch;
    count -= batch;
  }
  return 0;
}

void VerbsQueuePair::refill() {
  const uint32_t missing = options_.receives + kReceiveBatch - receives_;
  if (!is_up_ || missing < kReceiveBatch) return;
  if (const int error = post_receives(missing); error != 0) meet_error(error, "posting receives");
}

void VerbsQueuePair::meet_error(int error, const char* what) {
  if (is_up_) owner_.failed(*this, std::string(what) + ": " + std::strerror(error));
}

void VerbsQueuePair::add(const VerbsWrite& write) {
  GIMBAL_DCHECK(is_up_ && has_room());
  ibv_sge& piece = pieces_[listed_];
  ibv_send_wr& request = requests_[listed_];
  piece = {
      .addr = reinterpret_cast<uintptr_t>(write.from), .length = static_cast<uint32_t>(write.bytes), .lkey = rail_.local_key()};
  request = {};
  const uint32_t number = posted_ + static_cast<uint32_t>(listed_);
  request.wr_id = request_id(true, number);
  request.sg_list = write.bytes == 0 ? nullptr : &piece;
  request.num_sge = write.bytes == 0 ? 0 : 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htobe32(write.immediate);
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.remote_key;
  if (write.bytes > 0 && write.bytes <= inline_bytes_) request.send_flags = IBV_SEND_INLINE;
  added_bytes_ += write.bytes;
  bytes_until_[number % bytes_until_.size()] = added_bytes_;
  if (write.is_data) data_until_ = number + 1;
  if (listed_ > 0) requests_[listed_ - 1].next = &request;
  if (++unsignalled_ >= kSignalEvery) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  if (++listed_ == kListLength) ring();
}

void VerbsQueuePair::ring() {
  if (listed_ == 0) return;
  const bool carries_data = static_cast<int32_t>(data_until_ - posted_) > 0;
  if (carries_data) {
    requests_[listed_ - 1].send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
  }
  posted_ += static_cast<uint32_t>(listed_);
  listed_ = 0;
  ibv_send_wr* bad = nullptr;
  // What was posted of the list, and what not, is one: all that the peer has not got goes over another pair.
  if (const int error = ibv_post_send(pair_, requests_.data(), &bad); error != 0) meet_error(error, "posting sends");
}

void VerbsQueuePair::sent(uint32_t number) {
  completed_ = number + 1;
  arrived_bytes_ = bytes_until_[number % bytes_until_.size()];
}

void VerbsQueuePair::complete(const ibv_wc& completion) {
  const bool is_send = (completion.wr_id & kSendBit) != 0;
  if (!is_send) --receives_;
  if (completion.status != IBV_WC_SUCCESS) {
    if (is_up_) owner_.failed(*this, translate(rail_.library(), completion.status));
    return;
  }
  if (is_send) {
    sent(static_cast<uint32_t>(completion.wr_id));
  } else {
    owner_.arrived(*this, be32toh(completion.imm_data), completion.byte_len);
  }
}

}  // namespace gimbal
