// libibverbs, opened at run time: the functions that Gimbal calls, and nothing else of it.
//
// The library is GIMBAL_IBV_SO, else libibverbs.so.1. Of infiniband/verbs.h only types, constants and four inline functions are
// used: ibv_poll_cq, ibv_req_notify_cq, ibv_post_send and ibv_post_recv, which call through the context's table of operations.
// Whoever stands in for libibverbs has to export the functions below under their names (struct members are named without the
// prefix ibv_), and to fill these four places of ibv_context::ops.
//
// What the transport expects of a stand-in:
// - ibv_context::async_fd and ibv_comp_channel::fd are descriptors that poll() and epoll see as readable when an event waits;
// the
//   transport sets O_NONBLOCK on them, and get_cq_event / get_async_event then return -1 with errno EAGAIN when none does.
// - reg_mr_iova2 is called with iova equal to the address and may get IBV_ACCESS_RELAXED_ORDERING.
// - Queue pairs are RC, and go through INIT, RTR, RTS and ERR, never RESET or SQD. max_inline_data may be raised by the
// provider;
//   a request beyond what it has is refused, and asked again with 0.
// - Work requests: RDMA_WRITE and RDMA_WRITE_WITH_IMM with at most one scatter/gather element, also none; INLINE; SIGNALED or
// not
//   (sq_sig_all is 0); linked lists. Receives have no element: they carry immediate data only.
// - A completion of an unsuccessful request, flushed ones included, comes whether it was signalled or not.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "base/status.h"

// verbs.h makes macros of functions whose names the table below uses.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_get_device_list

namespace gimbal {

struct VerbsLibrary {
  // As verbs.h declares them.
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  // The exported function fills the attributes up to and including link_layer and flags; the caller zeroes them first.
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attributes);
  // The symbol is _ibv_query_gid_ex (rdma-core 33): GID and its type, IBV_GID_TYPE_IB, ROCE_V1 or ROCE_V2; entry_size is
  // sizeof(ibv_gid_entry), flags 0. An empty place of the table is an error, ENODATA.
  int (*query_gid_ex)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags,
                      size_t entry_size);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr_iova2)(ibv_pd* domain, void* memory, size_t bytes, uint64_t iova, unsigned access);
  int (*dereg_mr)(ibv_mr* region);

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** cq_context);
  void (*ack_cq_events)(ibv_cq* queue, unsigned count);

  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*destroy_qp)(ibv_qp* pair);

  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);
  const char* (*wc_status_str)(ibv_wc_status status);

  // Null where the library is older (rdma-core 34).
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* domain, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access);

  // UNSUPPORTED says why there is none: the file cannot be opened, or a function is missing. It is opened once a process for
  // each path and never closed, because providers leave threads and fork handlers behind.
  static Result<std::shared_ptr<const VerbsLibrary>> load();
};

}  // namespace gimbal
