// One end of a connection over libibverbs' functions, with everything it takes: for the tests of the stand-in.
//
//   auto [a, b] = connected_pair();
//   a.write(0, 8, b);
//   EXPECT_EQ(a.completion().status, IBV_WC_SUCCESS);
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.h"

namespace gimbal::testing {

struct SideOptions {
  size_t device = 0;
  uint8_t port = 1;
  int completions = 256;
  uint32_t requests = 64;
  uint32_t inline_bytes = 64;
  size_t memory_bytes = 1 << 20;
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
};

// What one end tells the other.
struct SideAddress {
  uint32_t qp_number;
  ibv_gid gid;
  uint64_t memory;
  uint32_t rkey;
};

struct PathOptions {
  uint8_t gid_index = 3;  // RoCE v2, IPv4
  ibv_mtu mtu = IBV_MTU_4096;
  uint8_t timeout = 10;  // 4 ms
  uint8_t retries = 3;
  uint8_t not_ready_retries = 7;
  uint32_t psn = 7;
};

class VerbsSide {
 public:
  explicit VerbsSide(const SideOptions& options = {}) : options_(options), memory_(options.memory_bytes) {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    if (list == nullptr || options.device >= static_cast<size_t>(count)) throw std::runtime_error("no such device");
    context_ = ibv_open_device(list[options.device]);
    ibv_free_device_list(list);
    if (context_ == nullptr) throw std::runtime_error("ibv_open_device");
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, options.completions, nullptr, channel_, 0);
    region_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), options.access);
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {options.requests, options.requests, 4, 4, options.inline_bytes};
    qp_ = ibv_create_qp(pd_, &attributes);
    if (pd_ == nullptr || cq_ == nullptr || region_ == nullptr || qp_ == nullptr) throw std::runtime_error("verbs objects");
  }
  VerbsSide(const VerbsSide&) = delete;
  VerbsSide& operator=(const VerbsSide&) = delete;
  ~VerbsSide() {
    ibv_destroy_qp(qp_);
    ibv_destroy_cq(cq_);
    ibv_destroy_comp_channel(channel_);
    deregister();
    ibv_dealloc_pd(pd_);
    EXPECT_EQ(ibv_close_device(context_), 0) << "something of it is left";
  }

  [[nodiscard]] SideAddress address(uint8_t gid_index = 3) const {
    SideAddress address = {qp_->qp_num, {}, reinterpret_cast<uint64_t>(memory_.data()), region_->rkey};
    ibv_query_gid(context_, options_.port, gid_index, &address.gid);
    return address;
  }
  int initialise() {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = options_.port;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    return ibv_modify_qp(qp_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int make_ready_to_receive(const SideAddress& peer, const PathOptions& path = {}) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = path.mtu;
    attributes.dest_qp_num = peer.qp_number;
    attributes.rq_psn = path.psn;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = options_.port;
    attributes.ah_attr.grh.dgid = peer.gid;
    attributes.ah_attr.grh.sgid_index = path.gid_index;
    return ibv_modify_qp(qp_, &attributes,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int make_ready_to_send(const PathOptions& path = {}) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = path.timeout;
    attributes.retry_cnt = path.retries;
    attributes.rnr_retry = path.not_ready_retries;
    attributes.sq_psn = path.psn;
    return ibv_modify_qp(
        qp_, &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  bool connect(const SideAddress& peer, const PathOptions& path = {}) {
    return initialise() == 0 && make_ready_to_receive(peer, path) == 0 && make_ready_to_send(path) == 0;
  }
  bool break_off() {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp_, &attributes, IBV_QP_STATE) == 0;
  }
  void deregister() {
    if (region_ != nullptr) ibv_dereg_mr(std::exchange(region_, nullptr));
  }

  struct Write {
    size_t from = 0;  // offsets into both memories
    size_t to = 0;
    uint32_t bytes = 8;
    unsigned flags = IBV_SEND_SIGNALED;
    std::optional<uint32_t> immediate = {};
    uint64_t id = 0;
  };
  int write(const Write& write, const SideAddress& peer) {
    ibv_sge sge = local(write.from, write.bytes);
    ibv_send_wr request = {};
    request.wr_id = write.id;
    request.sg_list = &sge;
    request.num_sge = write.bytes == 0 ? 0 : 1;
    request.opcode = write.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    request.send_flags = write.flags;
    request.imm_data = htonl(write.immediate.value_or(0));
    request.wr.rdma.remote_addr = peer.memory + write.to;
    request.wr.rdma.rkey = peer.rkey;
    return post(request);
  }
  int send(size_t from, uint32_t bytes, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge sge = local(from, bytes);
    ibv_send_wr request = {};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    return post(request);
  }
  int post(ibv_send_wr& request) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &request, &bad);
  }
  int receive(size_t to = 0, uint32_t bytes = 0, uint64_t id = 0) {
    ibv_sge sge = local(to, bytes);
    ibv_recv_wr request = {};
    request.wr_id = id;
    request.sg_list = &sge;
    request.num_sge = bytes == 0 ? 0 : 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &request, &bad);
  }

  // The next completion; wr_id ~0 when none comes.
  ibv_wc completion() {
    const Deadline deadline = Deadline::after_ms(10'000);
    ibv_wc wc = {};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
      if (deadline.passed()) {
        wc.wr_id = ~uint64_t{0};
        wc.status = IBV_WC_GENERAL_ERR;
        return wc;
      }
      std::this_thread::yield();
    }
    return wc;
  }
  // Whether a completion waits.
  std::optional<ibv_wc> poll() {
    ibv_wc wc = {};
    return ibv_poll_cq(cq_, 1, &wc) == 1 ? std::optional(wc) : std::nullopt;
  }

  [[nodiscard]] ibv_sge local(size_t from, uint32_t bytes) const {
    return {reinterpret_cast<uint64_t>(memory_.data()) + from, bytes, region_ == nullptr ? stale_key_ : region_->lkey};
  }
  std::span<std::byte> memory() { return memory_; }
  void fill(size_t from, size_t bytes, uint8_t seed) {
    for (size_t i = 0; i < bytes; ++i) memory_[from + i] = static_cast<std::byte>(seed + i * 7);
  }
  ibv_context* context() { return context_; }
  ibv_pd* pd() { return pd_; }
  ibv_comp_channel* channel() { return channel_; }
  ibv_cq* cq() { return cq_; }
  ibv_qp* qp() { return qp_; }

 private:
  SideOptions options_;
  std::vector<std::byte> memory_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_qp* qp_ = nullptr;
  uint32_t stale_key_ = 0x5a5a5a5a;
};

struct VerbsPair {
  std::unique_ptr<VerbsSide> a;
  std::unique_ptr<VerbsSide> b;
  SideAddress to_b;
};

inline VerbsPair connected_pair(const SideOptions& options = {}, const PathOptions& path = {}) {
  VerbsPair pair = {std::make_unique<VerbsSide>(options), std::make_unique<VerbsSide>(options), {}};
  pair.to_b = pair.b->address(path.gid_index);
  if (!pair.a->connect(pair.to_b, path) || !pair.b->connect(pair.a->address(path.gid_index), path)) {
    throw std::runtime_error("a pair that cannot be connected");
  }
  return pair;
}

}  // namespace gimbal::testing
