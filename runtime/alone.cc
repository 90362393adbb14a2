#include "runtime/alone.h"

#include <cstring>
#include <vector>

#include "kernels/reduce.h"

namespace gimbal {
namespace {

// The rank's block to itself.
struct OwnBlock {
  size_t bytes;
  size_t send_offset;
  size_t recv_offset;
};

OwnBlock own_block(const Call& call) {
  const size_t element = call.element_bytes();
  return {element * (call.recv_counts != nullptr ? call.recv_counts[0] : call.count),
          call.send_displacements != nullptr ? call.send_displacements[0] * element : 0,
          call.recv_displacements != nullptr ? call.recv_displacements[0] * element : 0};
}

}  // namespace

void run_alone(const Call& call) {
  const OwnBlock block = own_block(call);
  if (block.bytes == 0) return;
  if (call.weighted) {
    const ReduceSource source = {call.send, Form::kElement, call.weight};
    void* const destination = call.recv;
    ReduceArguments arguments;
    arguments.sources = {&source, 1};
    arguments.destinations = {&destination, 1};
    arguments.count = call.count;
    if (call.normalize) arguments.divisor = call.weight;
    find_reduce(call.dtype, call.op)(arguments);
    return;
  }
  std::memmove(static_cast<std::byte*>(call.recv) + block.recv_offset,
               static_cast<const std::byte*>(call.send) + block.send_offset, block.bytes);
}

Status run_alone(const Call& call, Cuda& cuda) {
  const OwnBlock block = own_block(call);
  if (block.bytes == 0) return {};
  ASSIGN_OR_RETURN(const CurrentDevice current, CurrentDevice::set(cuda, call.device));
  if (!call.weighted) {
    const auto* const from = static_cast<const std::byte*>(call.send) + block.send_offset;
    std::byte* const to = static_cast<std::byte*>(call.recv) + block.recv_offset;
    return from == to ? Status() : cuda.copy(to, from, block.bytes, call.stream);
  }
  // Rare enough to wait for the stream.
  std::vector<std::byte> host(block.bytes);
  RETURN_IF_ERROR(cuda.copy(host.data(), call.send, block.bytes, call.stream));
  RETURN_IF_ERROR(cuda.synchronize(call.stream));
  Call on_host = call;
  on_host.send = host.data();
  on_host.recv = host.data();
  run_alone(on_host);
  RETURN_IF_ERROR(cuda.copy(call.recv, host.data(), block.bytes, call.stream));
  return cuda.synchronize(call.stream);
}

}  // namespace gimbal
