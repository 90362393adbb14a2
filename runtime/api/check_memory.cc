#include <string>

#include "runtime/api/checks.h"

namespace gimbal::api {
namespace {

bool is_on_device(const PointerFacts& facts) { return facts.kind == MemoryKind::kDevice || facts.kind == MemoryKind::kManaged; }

std::string describe(Cuda& cuda, const PointerFacts& facts) {
  switch (facts.kind) {
    case MemoryKind::kHost:
      return "host memory";
    case MemoryKind::kPinned:
      return "pinned host memory";
    case MemoryKind::kDevice:
      return "memory of " + cuda.describe_device(facts.device);
    case MemoryKind::kManaged:
      return "managed memory";
  }
  return "memory";
}

Status two_kinds(Cuda& cuda, const PointerFacts& send, const PointerFacts& recv) {
  return {Code::kInvalidArgument, "send is " + describe(cuda, send) + ", but recv is " + describe(cuda, recv) +
                                      ": both must be host memory, or memory of one device"};
}

// The buffers that the call uses, one standing for both where it uses one; nothing where it has none.
struct Facts {
  PointerFacts send;
  PointerFacts recv;
  bool any = false;
};

Facts look_at_buffers(Cuda& cuda, const Extents& extents, const Call& call) {
  const bool has_send = extents.send_bytes > 0 && call.send != nullptr;
  const bool has_recv = extents.recv_bytes > 0 && call.recv != nullptr;
  Facts facts;
  facts.any = has_send || has_recv;
  if (has_send) facts.send = cuda.look_at(call.send);
  if (has_recv) facts.recv = has_send && call.recv == call.send ? facts.send : cuda.look_at(call.recv);
  if (!has_send) facts.send = facts.recv;
  if (!has_recv) facts.recv = facts.send;
  return facts;
}

// The device of a call whose buffers do not say it.
Result<int> device_of_stream(Cuda& cuda, CudaStream stream) {
  return stream != nullptr ? cuda.device_of(stream) : cuda.current_device();
}

Status set_device(Cuda& cuda, int device, CudaStream stream, Call& call) {
  RETURN_IF_ERROR(cuda.check_usable());
  call.on_device = true;
  call.stream = stream;
  ASSIGN_OR_RETURN(call.device, device_of_stream(cuda, stream));
  if (device < 0) return {};
  if (stream != nullptr && call.device != device) {
    return {Code::kInvalidArgument, "the stream belongs to " + cuda.describe_device(call.device) +
                                        ", but the buffers are memory of " + cuda.describe_device(device) +
                                        ": give a stream of the buffers' device"};
  }
  call.device = device;
  return {};
}

}  // namespace

Status check_memory(Cuda* cuda, gimbal_stream_t stream, const Extents& extents, Call& call) {
  if (cuda == nullptr) {
    if (stream == nullptr) return {};
    return {Code::kUnsupported,
            "stream is not NULL, but this build of Gimbal serves host memory only: build it with GIMBAL_CUDA=ON"};
  }
  auto* const ordered_by = static_cast<CudaStream>(stream);
  const Facts facts = look_at_buffers(*cuda, extents, call);
  if (!facts.any) {
    // Nothing but the stream says where the call belongs.
    return stream == nullptr ? Status() : set_device(*cuda, -1, ordered_by, call);
  }
  if (is_on_device(facts.send) != is_on_device(facts.recv)) return two_kinds(*cuda, facts.send, facts.recv);
  if (!is_on_device(facts.send)) {
    if (stream == nullptr) return {};
    return {Code::kInvalidArgument, "stream is not NULL, but the buffers are " + describe(*cuda, facts.send) +
                                        ": a stream orders calls on device memory"};
  }
  const bool send_moves = facts.send.kind == MemoryKind::kManaged;
  const bool recv_moves = facts.recv.kind == MemoryKind::kManaged;
  if (!send_moves && !recv_moves && facts.send.device != facts.recv.device) return two_kinds(*cuda, facts.send, facts.recv);
  if (send_moves && recv_moves) return set_device(*cuda, -1, ordered_by, call);
  return set_device(*cuda, send_moves ? facts.recv.device : facts.send.device, ordered_by, call);
}

}  // namespace gimbal::api
