// The exported functions that make, change and remove objects. An object in use is not removed: EBUSY.
#include <cerrno>
#include <memory>

#include "tests/support/hostile_verbs/context.h"
#include "tests/support/hostile_verbs/exports.h"
#include "tests/support/hostile_verbs/queue_pair.h"

using namespace gimbal::hostile;  // NOLINT(google-build-using-namespace): the C functions that these stand for

namespace {

struct Pd : ibv_pd {
  std::atomic<int> users = 0;
};

Pd& pd_of(ibv_pd* pd) { return *static_cast<Pd*>(pd); }

template <typename Object>
Object* refuse(int error, Object* = nullptr) {
  errno = error;
  return nullptr;
}

bool fits(const ibv_qp_cap& cap, const Hostility& hostility) {
  return cap.max_send_wr >= 1 && cap.max_send_wr <= kMostRequests && cap.max_recv_wr <= kMostRequests &&
         cap.max_send_sge <= kMostSges && cap.max_recv_sge <= kMostSges && cap.max_inline_data <= hostility.most_inline;
}

ibv_mr* add_region(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
  Context& context = context_of(pd->context);
  if (context.fails("reg_mr")) return nullptr;
  const Context::Lock lock(context);
  Mr* const mr = context.memory.add(pd, address, bytes, iova, access);
  if (mr != nullptr) ++pd_of(pd).users;
  return mr;
}

}  // namespace

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (context_of(context).fails("alloc_pd")) return nullptr;
  auto* const pd = new Pd;
  pd->context = context;
  ++context_of(context).objects;
  return pd;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  if (pd_of(pd).users != 0) return EBUSY;
  --context_of(pd->context).objects;
  delete &pd_of(pd);
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
  return add_region(pd, address, bytes, iova, access);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
  return add_region(pd, address, bytes, reinterpret_cast<uintptr_t>(address), static_cast<unsigned>(access));
}

// As a kernel without the device's support answers, whatever the descriptor.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) { return refuse<ibv_mr>(EOPNOTSUPP); }

int ibv_dereg_mr(ibv_mr* mr) {
  Context& context = context_of(mr->context);
  Pd& pd = pd_of(mr->pd);
  const Context::Lock lock(context);
  // What has been accepted for the region is in it before its memory can be another's.
  for (Qp* const qp : context.queue_pairs) qp->settle();
  if (!context.memory.remove(mr)) return EINVAL;
  --pd.users;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (context_of(context).fails("create_comp_channel")) return nullptr;
  auto channel = std::make_unique<Channel>();
  if (!channel->events.valid()) return nullptr;
  channel->context = context;
  channel->fd = channel->events.fd();
  ++context_of(context).objects;
  return channel.release();
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  auto* const own = static_cast<Channel*>(channel);
  if (own->users != 0) return EBUSY;
  --context_of(channel->context).objects;
  delete own;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel, int vector) {
  if (context_of(context).fails("create_cq")) return nullptr;
  if (entries < 1 || entries > kMostCompletions || vector != 0) return refuse<ibv_cq>(EINVAL);
  auto* const own_channel = static_cast<Channel*>(channel);
  if (own_channel != nullptr) ++own_channel->users;
  ++context_of(context).objects;
  return new Cq(context, entries, cookie, own_channel);  // exactly as deep as asked for
}

// libibverbs waits for ever for events that are not acknowledged; this refuses.
int ibv_destroy_cq(ibv_cq* cq) {
  auto* const own = static_cast<Cq*>(cq);
  if (own->users != 0 || own->unacknowledged != 0) return EBUSY;
  if (auto* const channel = static_cast<Channel*>(cq->channel)) {
    channel->events.forget_if([&](const Cq* event) { return event == own; });
    --channel->users;
  }
  --context_of(cq->context).objects;
  delete own;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cookie) {
  Cq* own = nullptr;
  if (!static_cast<Channel*>(channel)->events.take(own)) return -1;
  ++own->unacknowledged;
  *cq = own;
  *cookie = own->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) { static_cast<Cq*>(cq)->unacknowledged -= count; }

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  Context& context = context_of(pd->context);
  if (context.fails("create_qp")) return nullptr;
  if (attributes->qp_type != IBV_QPT_RC || attributes->srq != nullptr) return refuse<ibv_qp>(EOPNOTSUPP);
  if (attributes->send_cq == nullptr || attributes->recv_cq == nullptr || !fits(attributes->cap, context.hostility)) {
    return refuse<ibv_qp>(EINVAL);
  }
  const Context::Lock lock(context);
  uint32_t number = 0;
  if (!context.fabric->add_queue_pair(number)) return nullptr;
  ++pd_of(pd).users;
  ++static_cast<Cq*>(attributes->send_cq)->users;
  ++static_cast<Cq*>(attributes->recv_cq)->users;
  return new Qp(context, pd, *attributes, number);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  Context& context = context_of(qp->context);
  if (context.fails("modify_qp")) return errno;
  int error = 0;
  {
    const Context::Lock lock(context);
    error = qp_of(qp).modify(*attributes, mask);
  }
  context.ring();
  return error;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr* made_with) {
  const Context::Lock lock(context_of(qp->context));
  qp_of(qp).query(*attributes, *made_with);
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  const Context::Lock lock(context_of(qp->context));
  --pd_of(qp->pd).users;
  --static_cast<Cq*>(qp->send_cq)->users;
  --static_cast<Cq*>(qp->recv_cq)->users;
  delete &qp_of(qp);
  return 0;
}

}  // extern "C"
