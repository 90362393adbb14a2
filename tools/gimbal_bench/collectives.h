// The collectives that gimbal-bench runs, in nccl-tests' terms: what a size means in elements, which buffers are used in and
// out of place, how the call is made, and the factor from algorithm to bus bandwidth.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "gimbal/gimbal.h"

namespace gimbal::bench {

enum class Kind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSendRecv,
  kBarrier,
};

std::string_view kind_name(Kind kind);
std::optional<Kind> parse_kind(std::string_view name);
std::string kind_names();  // for messages: "all_reduce, reduce_scatter, ..."

bool has_operation(Kind kind);  // takes a ReduceOp
bool has_root(Kind kind);
// Whether there is an in-place form. (A broadcast has one buffer: both halves of its row are the same call.)
bool has_in_place(Kind kind);

// nccl-tests' doc/PERFORMANCE.md. 0 for one rank where nothing moves.
double bus_factor(Kind kind, Rank ranks);

// One call. count is the argument of the C function, in elements.
struct Operation {
  Kind kind;
  DType dtype;
  ReduceOp op;
  Rank root;
  size_t count;
};

// The largest count whose array has at most `bytes`: the full array of the collective, so for an all-gather what each rank
// receives, for a reduce-scatter what it sends.
size_t count_for(Kind kind, DType dtype, Rank ranks, size_t bytes);

// Elements that a rank sends and receives (0 where it has no such buffer), and those of the full array (nccl-tests' size).
size_t send_elements(const Operation& operation, Rank rank, Rank ranks);
size_t receive_elements(const Operation& operation, Rank rank, Rank ranks);
size_t array_elements(const Operation& operation, Rank ranks);

struct Buffers {
  std::byte* send;
  std::byte* receive;
  gimbal_stream_t stream = nullptr;  // of device memory
};
// Where a rank's buffers lie in an area as large as the full array.
Buffers in_place(const Operation& operation, Rank rank, std::byte* area);

// Makes the call, `times` of them in one group when times > 1.
Status call(const Operation& operation, const Buffers& buffers, gimbal_comm_t comm, Rank rank, Rank ranks, size_t times);

// OK, or the library's sentence with the call's name before it.
Status to_status(gimbal_status_t status, std::string_view called);

}  // namespace gimbal::bench
