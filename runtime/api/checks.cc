#include "runtime/api/checks.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "collectives/chunk_space.h"

namespace gimbal::api {
namespace {

Status invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status too_many_bytes(const Call& call, size_t blocks) {
  return invalid("count " + std::to_string(call.count) + " of " + std::string(dtype_name(call.dtype)) + " in " +
                 std::to_string(blocks) + " blocks exceeds the address space");
}

// bytes of `blocks` blocks; false when they exceed the address space.
bool multiply(const Call& call, size_t blocks, size_t& bytes) {
  return !__builtin_mul_overflow(call.count, call.element_bytes(), &bytes) && !__builtin_mul_overflow(bytes, blocks, &bytes) &&
         bytes <= SIZE_MAX / 2;
}

// One past the last byte that counts and displacements touch.
Result<size_t> array_extent(const Call& call, const size_t* counts, const size_t* displacements, Rank size) {
  size_t extent = 0;
  size_t packed = 0;
  for (Rank rank = 0; rank < size; ++rank) {
    if (counts[rank] == 0) continue;
    const size_t begin = displacements != nullptr ? displacements[rank] : packed;
    size_t end = 0;
    size_t bytes = 0;
    if (__builtin_add_overflow(begin, counts[rank], &end) || __builtin_mul_overflow(end, call.element_bytes(), &bytes) ||
        bytes > SIZE_MAX / 2) {
      return invalid("the block of rank " + std::to_string(rank) + " exceeds the address space");
    }
    extent = std::max(extent, bytes);
    packed += counts[rank];
  }
  return extent;
}

}  // namespace

Status check_dtype(gimbal_dtype_t dtype, Call& call) {
  const int value = dtype;
  if (value < 0 || value >= kPublicDTypeCount) {
    return invalid("dtype is " + std::to_string(value) + "; allowed: GIMBAL_INT8 (0) to GIMBAL_FLOAT8_E5M2 (11)");
  }
  call.dtype = static_cast<DType>(value);
  return {};
}

Status check_op(gimbal_op_t op, Call& call) {
  const int value = op;
  if (value < 0 || value >= kReduceOpCount) {
    return invalid("op is " + std::to_string(value) + "; allowed: GIMBAL_SUM (0) to GIMBAL_BXOR (7)");
  }
  call.op = static_cast<ReduceOp>(value);
  if (is_supported(call.dtype, call.op)) return {};
  return {Code::kUnsupported, "op " + std::string(reduce_op_name(call.op)) + " is for integer types, not for " +
                                  std::string(dtype_name(call.dtype))};
}

Status check_rank(const char* name, int32_t value, Rank size) {
  if (value >= 0 && value < size) return {};
  return invalid(std::string(name) + " is " + std::to_string(value) + "; allowed: 0 to " + std::to_string(size - 1));
}

Status check_arrays(const Call& call, Rank rank, Rank size) {
  if (call.recv_counts == nullptr) return invalid("recv_counts is NULL");
  if (call.collective == Collective::kAllToAllV && call.send_counts == nullptr) return invalid("send_counts is NULL");
  if (call.collective == Collective::kAllToAllV && call.send_counts[rank] != call.recv_counts[rank]) {
    return invalid("send_counts[" + std::to_string(rank) + "] is " + std::to_string(call.send_counts[rank]) +
                   ", but recv_counts[" + std::to_string(rank) + "] is " + std::to_string(call.recv_counts[rank]) +
                   " on rank " + std::to_string(rank) + ": what a rank sends itself it receives");
  }
  if (call.collective == Collective::kAllGatherV && call.recv_counts[rank] != call.count) {
    return invalid("send_count is " + std::to_string(call.count) + ", but recv_counts[" + std::to_string(rank) + "] is " +
                   std::to_string(call.recv_counts[rank]) + " on rank " + std::to_string(rank) + " of " + std::to_string(size));
  }
  return {};
}

Result<Extents> extents_of(const Call& call, Rank rank, Rank size) {
  const auto blocks = static_cast<size_t>(size);
  size_t one = 0;
  size_t all = 0;
  if (!multiply(call, 1, one)) return too_many_bytes(call, 1);
  if (has_blocks(call.collective) && !multiply(call, blocks, all)) return too_many_bytes(call, blocks);
  Extents extents;
  const auto own_block = static_cast<ptrdiff_t>(one * static_cast<size_t>(rank));
  const bool is_root = rank == call.root;
  switch (call.collective) {
    case Collective::kAllReduce:
      extents.send_bytes = one;
      extents.recv_bytes = one;
      break;
    case Collective::kReduce:
      extents.send_bytes = one;
      extents.recv_bytes = is_root ? one : 0;
      break;
    case Collective::kBroadcast:
      extents.recv_bytes = one;
      break;
    case Collective::kSend:
      extents.send_bytes = one;
      break;
    case Collective::kRecv:
      extents.recv_bytes = one;
      break;
    case Collective::kReduceScatter:
      extents = {all, one, true, own_block};
      break;
    case Collective::kAllGather:
      extents = {one, all, true, -own_block};
      break;
    case Collective::kGather:
      extents = {one, is_root ? all : 0, true, -own_block};
      break;
    case Collective::kScatter:
      extents = {is_root ? all : 0, one, true, own_block};
      break;
    case Collective::kAllToAll:
      extents = {all, all, false, 0};
      break;
    case Collective::kAllGatherV: {
      extents.send_bytes = one;
      ASSIGN_OR_RETURN(extents.recv_bytes, array_extent(call, call.recv_counts, call.recv_displacements, size));
      size_t own = 0;
      for (Rank r = 0; r < rank; ++r) own += call.recv_counts[r];
      if (call.recv_displacements != nullptr) own = call.recv_displacements[rank];
      extents.in_place_offset = -static_cast<ptrdiff_t>(own * call.element_bytes());
      break;
    }
    case Collective::kAllToAllV: {
      ASSIGN_OR_RETURN(extents.send_bytes, array_extent(call, call.send_counts, call.send_displacements, size));
      ASSIGN_OR_RETURN(extents.recv_bytes, array_extent(call, call.recv_counts, call.recv_displacements, size));
      extents.in_place_allowed = false;
      break;
    }
    case Collective::kBarrier:
      break;
  }
  return extents;
}

Status check_buffers(const Call& call, const Extents& extents) {
  if (extents.send_bytes > 0 && call.send == nullptr) return invalid("send is NULL, but the count is not 0");
  if (extents.recv_bytes > 0 && call.recv == nullptr) return invalid("recv is NULL, but the count is not 0");
  if (extents.send_bytes == 0 || extents.recv_bytes == 0) return {};
  const auto send = reinterpret_cast<uintptr_t>(call.send);
  const auto recv = reinterpret_cast<uintptr_t>(call.recv);
  if (send + extents.send_bytes <= recv || recv + extents.recv_bytes <= send) return {};
  const auto offset = static_cast<ptrdiff_t>(recv - send);
  if (extents.in_place_allowed && offset == extents.in_place_offset) return {};
  return invalid(
      "send and recv overlap (recv - send is " + std::to_string(offset) + " bytes); allowed: no overlap" +
      (extents.in_place_allowed ? ", or in place with recv - send = " + std::to_string(extents.in_place_offset) : ""));
}

}  // namespace gimbal::api
