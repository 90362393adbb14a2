// The exported functions about devices, ports and their events.
#include <endian.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/hostile_verbs/addresses.h"
#include "tests/support/hostile_verbs/context.h"
#include "tests/support/hostile_verbs/exports.h"
#include "tests/support/hostile_verbs/queue_pair.h"

namespace gimbal::hostile {
namespace {

std::array<Device, kMostDevices>& devices() {
  static std::array<Device, kMostDevices> all = [] {
    std::array<Device, kMostDevices> made = {};
    for (size_t i = 0; i < made.size(); ++i) {
      made[i].index = i;
      made[i].node_type = IBV_NODE_CA;
      made[i].transport_type = IBV_TRANSPORT_IB;
      std::snprintf(made[i].name, sizeof(made[i].name), "hostile%zu", i);
      std::snprintf(made[i].dev_name, sizeof(made[i].dev_name), "uverbs%zu", i);
    }
    return made;
  }();
  return all;
}

// A plan that cannot be read is a mistake of the test, which has to see it.
bool read_hostility(Hostility& hostility) {
  Result<Hostility> read = Hostility::from_environment();
  if (!read.ok()) {
    std::fprintf(stderr, "hostile_verbs: %s\n", read.status().message().c_str());
    errno = EINVAL;
    return false;
  }
  hostility = std::move(*read);
  return true;
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  Context& context = context_of(qp->context);
  int error = 0;
  for (; request != nullptr && error == 0; request = error == 0 ? request->next : request) {
    error = context.fails("post_send") ? errno : qp_of(qp).post_send(*request);
  }
  if (error != 0) *bad = request;
  context.ring();  // one doorbell for the list
  return error;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  Context& context = context_of(qp->context);
  int error = 0;
  for (; request != nullptr && error == 0; request = error == 0 ? request->next : request) {
    error = context.fails("post_recv") ? errno : qp_of(qp).post_receive(*request);
  }
  if (error != 0) *bad = request;
  context.ring();
  return error;
}

ibv_mtu mtu_of(size_t bytes) {
  ibv_mtu mtu = IBV_MTU_256;
  while (size_t{128} << mtu < bytes) mtu = static_cast<ibv_mtu>(mtu + 1);
  return mtu;
}

bool has_port(const Context& context, uint32_t port) { return port >= 1 && port <= context.ports(); }

}  // namespace
}  // namespace gimbal::hostile

using namespace gimbal::hostile;  // NOLINT(google-build-using-namespace): the C functions that these stand for

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  Hostility hostility;
  if (!read_hostility(hostility)) return nullptr;
  auto** const list = static_cast<ibv_device**>(std::calloc(kMostDevices + 1, sizeof(ibv_device*)));
  for (size_t i = 0; i < hostility.devices; ++i) list[i] = &devices()[i];
  if (count != nullptr) *count = static_cast<int>(hostility.devices);
  return list;
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(guid_of({0, static_cast<uint8_t>(static_cast<Device*>(device)->index), 0}));
}

ibv_context* ibv_open_device(ibv_device* device) {
  Hostility hostility;
  if (!read_hostility(hostility)) return nullptr;
  auto fabric = Fabric::join();
  uint32_t adapter = 0;
  if (fabric == nullptr || !fabric->add_adapter(adapter)) return nullptr;
  auto context = std::make_unique<Context>(static_cast<Device*>(device), std::move(hostility), std::move(fabric), adapter);
  if (!context->async_events.valid() || context->fails("open_device")) return nullptr;
  context->ops.poll_cq = [](ibv_cq* cq, int most, ibv_wc* completions) {
    return static_cast<Cq*>(cq)->poll(most, completions);
  };
  context->ops.req_notify_cq = [](ibv_cq* cq, int solicited_only) {
    static_cast<Cq*>(cq)->arm(solicited_only != 0);
    return 0;
  };
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  return context.release();
}

int ibv_close_device(ibv_context* context) {
  if (context_of(context).objects != 0) return EBUSY;
  delete &context_of(context);
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const Context& of = context_of(context);
  *attributes = {};
  std::snprintf(attributes->fw_ver, sizeof(attributes->fw_ver), "0.0.0");
  attributes->node_guid = attributes->sys_image_guid =
      htobe64(guid_of({of.fabric->host(), static_cast<uint8_t>(of.device_index), 0}));
  attributes->max_mr_size = UINT64_MAX;
  attributes->page_size_cap = 4096;
  attributes->max_qp = kMostQueuePairs;
  attributes->max_qp_wr = kMostRequests;
  attributes->max_sge = kMostSges;
  attributes->max_cq = 4096;
  attributes->max_cqe = kMostCompletions;
  attributes->max_mr = 4096;
  attributes->max_pd = 4096;
  attributes->atomic_cap = IBV_ATOMIC_NONE;
  attributes->max_pkeys = 1;
  attributes->phys_port_cnt = of.ports();
  return 0;
}

// As the function of libibverbs 1.1, this fills what the struct had then: up to and including flags.
int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* compatible) {
  const Context& of = context_of(context);
  if (!has_port(of, port)) return EINVAL;
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(compatible);
  const PortAddress address = of.address(port);
  const bool up = of.fabric->has_link(address);
  attributes->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->phys_state = up ? 5 : 3;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = mtu_of(of.hostility.mtu_bytes);
  attributes->gid_tbl_len = 16;
  attributes->max_msg_sz = 1U << 31;
  attributes->pkey_tbl_len = 1;
  attributes->active_width = 2;  // 4 lanes
  attributes->active_speed = 32;
  attributes->link_layer = of.hostility.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  attributes->lid = of.hostility.infiniband ? lid_of(address) : 0;
  attributes->sm_lid = of.hostility.infiniband ? 1 : 0;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags, size_t size) {
  const Context& of = context_of(context);
  if (!has_port(of, port) || flags != 0 || size != sizeof(ibv_gid_entry)) return EINVAL;
  const auto found = gid_of(of.address(static_cast<uint8_t>(port)), index, of.hostility.infiniband);
  if (!found) return ENODATA;
  *entry = {.gid = found->gid, .gid_index = index, .port_num = port, .gid_type = found->type, .ndev_ifindex = 0};
  return 0;
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  ibv_gid_entry entry = {};
  const int error = _ibv_query_gid_ex(context, port, static_cast<uint32_t>(index), &entry, 0, sizeof(entry));
  if (error == EINVAL) return -1;
  *gid = entry.gid;  // an empty place reads as zeros
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return context_of(context).async_events.take(*event) ? 0 : -1;
}

void ibv_ack_async_event(ibv_async_event*) {}

}  // extern "C"
