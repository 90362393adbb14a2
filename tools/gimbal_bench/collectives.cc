#include "tools/gimbal_bench/collectives.h"

#include <array>
#include <string>

namespace gimbal::bench {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                                     "all_to_all", "gather",         "scatter",    "sendrecv",  "barrier"};

// The full array is cut into one block for each rank.
bool is_split(Kind kind) {
  switch (kind) {
    case Kind::kReduceScatter:
    case Kind::kAllGather:
    case Kind::kAllToAll:
    case Kind::kGather:
    case Kind::kScatter:
      return true;
    case Kind::kAllReduce:
    case Kind::kBroadcast:
    case Kind::kReduce:
    case Kind::kSendRecv:
    case Kind::kBarrier:
      return false;
  }
  return false;
}

size_t own_offset_bytes(const Operation& operation, Rank rank) {
  return static_cast<size_t>(rank) * operation.count * dtype_size(operation.dtype);
}

// Around the ring of ranks: to the next, from the one before.
gimbal_status_t send_and_receive(const Operation& operation, const Buffers& buffers, gimbal_comm_t comm, Rank rank,
                                 Rank ranks) {
  const auto dtype = static_cast<gimbal_dtype_t>(operation.dtype);
  gimbal_status_t status = gimbal_group_start();
  if (status != GIMBAL_OK) return status;
  status = gimbal_send(buffers.send, operation.count, dtype, (rank + 1) % ranks, comm, buffers.stream);
  if (status != GIMBAL_OK) return status;
  status = gimbal_recv(buffers.receive, operation.count, dtype, (rank + ranks - 1) % ranks, comm, buffers.stream);
  if (status != GIMBAL_OK) return status;
  return gimbal_group_end();
}

gimbal_status_t call_once(const Operation& operation, const Buffers& buffers, gimbal_comm_t comm, Rank rank, Rank ranks) {
  const auto dtype = static_cast<gimbal_dtype_t>(operation.dtype);
  const auto op = static_cast<gimbal_op_t>(operation.op);
  const auto& [send, receive, stream] = buffers;
  const size_t count = operation.count;
  const Rank root = operation.root;
  switch (operation.kind) {
    case Kind::kAllReduce:
      return gimbal_all_reduce(send, receive, count, dtype, op, comm, stream);
    case Kind::kReduceScatter:
      return gimbal_reduce_scatter(send, receive, count, dtype, op, comm, stream);
    case Kind::kAllGather:
      return gimbal_all_gather(send, receive, count, dtype, comm, stream);
    case Kind::kBroadcast:
      return gimbal_broadcast(receive, count, dtype, root, comm, stream);
    case Kind::kReduce:
      return gimbal_reduce(send, receive, count, dtype, op, root, comm, stream);
    case Kind::kAllToAll:
      return gimbal_all_to_all(send, receive, count, dtype, comm, stream);
    case Kind::kGather:
      return gimbal_gather(send, receive, count, dtype, root, comm, stream);
    case Kind::kScatter:
      return gimbal_scatter(send, receive, count, dtype, root, comm, stream);
    case Kind::kSendRecv:
      return send_and_receive(operation, buffers, comm, rank, ranks);
    case Kind::kBarrier:
      return gimbal_barrier(comm, stream);
  }
  return GIMBAL_INTERNAL;
}

}  // namespace

std::string_view kind_name(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<Kind> parse_kind(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

std::string kind_names() {
  std::string names;
  for (const std::string_view name : kNames) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

bool has_operation(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce; }

bool has_root(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather || kind == Kind::kScatter;
}

bool has_in_place(Kind kind) { return kind != Kind::kAllToAll && kind != Kind::kSendRecv; }

double bus_factor(Kind kind, Rank ranks) {
  const double n = ranks;
  if (kind == Kind::kAllReduce) return 2 * (n - 1) / n;
  if (is_split(kind)) return (n - 1) / n;
  return ranks == 1 ? 0 : 1;
}

size_t count_for(Kind kind, DType dtype, Rank ranks, size_t bytes) {
  const size_t elements = bytes / dtype_size(dtype);
  return is_split(kind) ? elements / static_cast<size_t>(ranks) : elements;
}

size_t array_elements(const Operation& operation, Rank ranks) {
  return is_split(operation.kind) ? operation.count * static_cast<size_t>(ranks) : operation.count;
}

size_t send_elements(const Operation& operation, Rank rank, Rank ranks) {
  switch (operation.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kAllGather:
    case Kind::kGather:
    case Kind::kSendRecv:
      return operation.count;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return array_elements(operation, ranks);
    case Kind::kScatter:
      return rank == operation.root ? array_elements(operation, ranks) : 0;
    case Kind::kBroadcast:
    case Kind::kBarrier:
      return 0;
  }
  return 0;
}

size_t receive_elements(const Operation& operation, Rank rank, Rank ranks) {
  switch (operation.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter:
    case Kind::kBroadcast:
    case Kind::kScatter:
    case Kind::kSendRecv:
      return operation.count;
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return array_elements(operation, ranks);
    case Kind::kReduce:
    case Kind::kGather:
      return rank == operation.root ? array_elements(operation, ranks) : 0;
    case Kind::kBarrier:
      return 0;
  }
  return 0;
}

Buffers in_place(const Operation& operation, Rank rank, std::byte* area) {
  std::byte* const own = area + own_offset_bytes(operation, rank);
  const bool at_root = rank == operation.root;
  switch (operation.kind) {
    case Kind::kAllGather:
      return {own, area};
    case Kind::kReduceScatter:
      return {area, own};
    case Kind::kGather:
      return {at_root ? own : area, area};
    case Kind::kScatter:
      return {area, at_root ? own : area};
    case Kind::kAllReduce:
    case Kind::kBroadcast:
    case Kind::kReduce:
    case Kind::kAllToAll:
    case Kind::kSendRecv:
    case Kind::kBarrier:
      return {area, area};
  }
  return {area, area};
}

Status to_status(gimbal_status_t status, std::string_view called) {
  if (status == GIMBAL_OK) return {};
  return {static_cast<Code>(status), std::string(called) + ": " + gimbal_status_name(status) + ": " + gimbal_last_error()};
}

Status call(const Operation& operation, const Buffers& buffers, gimbal_comm_t comm, Rank rank, Rank ranks, size_t times) {
  const std::string_view name = kind_name(operation.kind);
  if (times == 1) return to_status(call_once(operation, buffers, comm, rank, ranks), name);
  RETURN_IF_ERROR(to_status(gimbal_group_start(), "group_start"));
  for (size_t i = 0; i < times; ++i) {
    RETURN_IF_ERROR(to_status(call_once(operation, buffers, comm, rank, ranks), name));
  }
  return to_status(gimbal_group_end(), "group_end");
}

}  // namespace gimbal::bench
