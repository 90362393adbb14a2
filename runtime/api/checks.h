// What is checked once, at the C boundary: types, operations, ranks, counts, pointers and how buffers may lie to each other.
// Each check is INVALID_ARGUMENT with the argument's name, its value and what is allowed (UNSUPPORTED where the request makes
// sense).
#pragma once

#include <cstddef>

#include "base/status.h"
#include "gimbal/gimbal.h"
#include "runtime/call.h"

namespace gimbal::api {

// Fills call.dtype.
Status check_dtype(gimbal_dtype_t dtype, Call& call);
// Fills call.op; call.dtype is set.
Status check_op(gimbal_op_t op, Call& call);
// 0 to size-1; `name` is "root" or "peer".
Status check_rank(const char* name, int32_t value, Rank size);

// Where a call's buffers begin and how many bytes they span; 0 for a buffer that the rank does not use.
struct Extents {
  size_t send_bytes = 0;
  size_t recv_bytes = 0;
  // recv == send + this many bytes is in place; other overlaps are errors.
  bool in_place_allowed = true;
  ptrdiff_t in_place_offset = 0;  // recv - send
};

// INVALID_ARGUMENT when an extent does not fit in the address space.
Result<Extents> extents_of(const Call& call, Rank rank, Rank size);
Status check_buffers(const Call& call, const Extents& extents);

// Whose memory the buffers are, and whether the stream suits: fills call.on_device, .device and .stream. cuda is null in a
// build without.
Status check_memory(Cuda* cuda, gimbal_stream_t stream, const Extents& extents, Call& call);

// The arrays of a v-form: present, and their sums within the address space.
Status check_arrays(const Call& call, Rank rank, Rank size);

}  // namespace gimbal::api
