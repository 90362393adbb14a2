// Entry points of operations, blocking and started, inside and outside groups; requests and groups themselves.
#include "runtime/api/checks.h"
#include "runtime/api/handles.h"

namespace api = gimbal::api;
using gimbal::Call;
using gimbal::Code;
using gimbal::Collective;
using gimbal::Communicator;
using gimbal::linked_cuda;
using gimbal::Request;
using gimbal::Status;

namespace {

// What an entry point was given, before it is checked. dtype and op keep the caller's values.
struct Arguments {
  Call call;
  gimbal_dtype_t dtype = GIMBAL_UINT8;
  gimbal_op_t op = GIMBAL_SUM;
  gimbal_comm_t comm = nullptr;
  gimbal_stream_t stream = nullptr;
};

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

Status check(Arguments& arguments, const Communicator& communicator) {
  Call& call = arguments.call;
  RETURN_IF_ERROR(api::check_dtype(arguments.dtype, call));
  RETURN_IF_ERROR(api::check_op(arguments.op, call));
  if (has_root(call.collective)) RETURN_IF_ERROR(api::check_rank("root", call.root, communicator.size()));
  if (is_message(call.collective)) {
    RETURN_IF_ERROR(api::check_rank("peer", call.root, communicator.size()));
    if (call.root == communicator.rank()) {
      return {Code::kInvalidArgument, "peer is " + std::to_string(call.root) + ", this rank itself"};
    }
  }
  if (call.collective == Collective::kAllGatherV || call.collective == Collective::kAllToAllV) {
    RETURN_IF_ERROR(api::check_arrays(call, communicator.rank(), communicator.size()));
  }
  ASSIGN_OR_RETURN(const api::Extents extents, api::extents_of(call, communicator.rank(), communicator.size()));
  RETURN_IF_ERROR(api::check_buffers(call, extents));
  return api::check_memory(linked_cuda(), arguments.stream, extents, call);
}

Status record_in_group(const Arguments& arguments, std::shared_ptr<Communicator> communicator, gimbal::Group::Started started) {
  api::thread_group->group.add(std::move(communicator), arguments.call, std::move(started));
  return {};
}

Status run_checked(Arguments& arguments) {
  Communicator* const communicator = api::find(arguments.comm);
  if (communicator == nullptr) return api::not_a_communicator(arguments.comm);
  RETURN_IF_ERROR(communicator->check_usable());
  RETURN_IF_ERROR(check(arguments, *communicator));
  if (api::thread_group != nullptr) [[unlikely]]
    return record_in_group(arguments, communicator->shared_from_this(), nullptr);
  return communicator->run(arguments.call);
}

gimbal_status_t run(Arguments arguments) {
  return gimbal::enter([&] { return run_checked(arguments); });
}

Status start_checked(Arguments& arguments, gimbal_request_t* request) {
  if (request == nullptr) return {Code::kInvalidArgument, "request is NULL"};
  *request = nullptr;
  std::shared_ptr<Communicator> communicator = api::communicators().share(api::number_of(arguments.comm));
  if (communicator == nullptr) return api::not_a_communicator(arguments.comm);
  RETURN_IF_ERROR(communicator->check_usable());
  RETURN_IF_ERROR(check(arguments, *communicator));
  if (api::thread_group != nullptr) {
    return record_in_group(arguments, communicator, [communicator, request](std::shared_ptr<Request> started) -> Status {
      ASSIGN_OR_RETURN(*request, api::make_handle(communicator, std::move(started)));
      return {};
    });
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Request> started, communicator->start(arguments.call));
  ASSIGN_OR_RETURN(*request, api::make_handle(std::move(communicator), std::move(started)));
  return {};
}

gimbal_status_t start(Arguments arguments, gimbal_request_t* request) {
  return gimbal::enter([&] { return start_checked(arguments, request); });
}

// A plain collective; op and root only where it has them.
Arguments collective(Collective which, const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_comm_t comm,
                     gimbal_stream_t stream) {
  Arguments arguments;
  arguments.call.collective = which;
  arguments.call.send = send;
  arguments.call.recv = recv;
  arguments.call.count = count;
  arguments.dtype = dtype;
  arguments.comm = comm;
  arguments.stream = stream;
  return arguments;
}

Arguments reduction(Collective which, const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op,
                    gimbal_comm_t comm, gimbal_stream_t stream) {
  Arguments arguments = collective(which, send, recv, count, dtype, comm, stream);
  arguments.op = op;
  return arguments;
}

Arguments rooted(Arguments arguments, int32_t root) {
  arguments.call.root = root;
  return arguments;
}

Arguments all_gather_v(const void* send, size_t send_count, void* recv, const size_t* recv_counts, const size_t* displacements,
                       gimbal_dtype_t dtype, gimbal_comm_t comm, gimbal_stream_t stream) {
  Arguments arguments = collective(Collective::kAllGatherV, send, recv, send_count, dtype, comm, stream);
  arguments.call.recv_counts = recv_counts;
  arguments.call.recv_displacements = displacements;
  return arguments;
}

Arguments all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displacements, void* recv,
                       const size_t* recv_counts, const size_t* recv_displacements, gimbal_dtype_t dtype, gimbal_comm_t comm,
                       gimbal_stream_t stream) {
  Arguments arguments = collective(Collective::kAllToAllV, send, recv, 0, dtype, comm, stream);
  arguments.call.send_counts = send_counts;
  arguments.call.send_displacements = send_displacements;
  arguments.call.recv_counts = recv_counts;
  arguments.call.recv_displacements = recv_displacements;
  return arguments;
}

Status apply_options(const gimbal_reduce_options_t* options, Arguments& arguments) {
  if (options == nullptr) return {};
  if (options->struct_bytes != sizeof(gimbal_reduce_options_t)) {
    return {Code::kInvalidArgument, "the options were not set by this version's GIMBAL_REDUCE_OPTIONS_INIT"};
  }
  if (options->wire != 0) {
    return {Code::kUnsupported,
            "options.wire is " + std::to_string(options->wire) + "; this version sends values as they are (0)"};
  }
  if (options->normalize != 0 && options->normalize != 1) {
    return {Code::kInvalidArgument, "options.normalize is " + std::to_string(options->normalize) + "; allowed: 0, 1"};
  }
  Call typed;
  RETURN_IF_ERROR(api::check_dtype(arguments.dtype, typed));
  if (!is_floating(typed.dtype) || arguments.op != GIMBAL_SUM) {
    return {Code::kUnsupported,
            "weights are for GIMBAL_SUM of floating types; integers and other operations have no weighted form"};
  }
  arguments.call.weighted = true;
  arguments.call.weight = options->weight;
  arguments.call.normalize = options->normalize == 1;
  return {};
}

}  // namespace

gimbal_status_t gimbal_all_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op,
                                  gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(reduction(Collective::kAllReduce, send, recv, count, dtype, op, comm, stream));
}

gimbal_status_t gimbal_all_reduce_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op,
                                        gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request) {
  return start(reduction(Collective::kAllReduce, send, recv, count, dtype, op, comm, stream), request);
}

gimbal_status_t gimbal_all_reduce_options(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op,
                                          const gimbal_reduce_options_t* options, gimbal_comm_t comm, gimbal_stream_t stream) {
  Arguments arguments = reduction(Collective::kAllReduce, send, recv, count, dtype, op, comm, stream);
  return gimbal::enter([&]() -> Status {
    RETURN_IF_ERROR(apply_options(options, arguments));
    return run_checked(arguments);
  });
}

gimbal_status_t gimbal_all_reduce_options_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype,
                                                gimbal_op_t op, const gimbal_reduce_options_t* options, gimbal_comm_t comm,
                                                gimbal_stream_t stream, gimbal_request_t* request) {
  Arguments arguments = reduction(Collective::kAllReduce, send, recv, count, dtype, op, comm, stream);
  return gimbal::enter([&]() -> Status {
    RETURN_IF_ERROR(apply_options(options, arguments));
    return start_checked(arguments, request);
  });
}

gimbal_status_t gimbal_reduce_scatter(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype, gimbal_op_t op,
                                      gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(reduction(Collective::kReduceScatter, send, recv, recv_count, dtype, op, comm, stream));
}

gimbal_status_t gimbal_reduce_scatter_start(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype,
                                            gimbal_op_t op, gimbal_comm_t comm, gimbal_stream_t stream,
                                            gimbal_request_t* request) {
  return start(reduction(Collective::kReduceScatter, send, recv, recv_count, dtype, op, comm, stream), request);
}

gimbal_status_t gimbal_all_gather(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype, gimbal_comm_t comm,
                                  gimbal_stream_t stream) {
  return run(collective(Collective::kAllGather, send, recv, send_count, dtype, comm, stream));
}

gimbal_status_t gimbal_all_gather_start(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype,
                                        gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request) {
  return start(collective(Collective::kAllGather, send, recv, send_count, dtype, comm, stream), request);
}

gimbal_status_t gimbal_broadcast(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t root, gimbal_comm_t comm,
                                 gimbal_stream_t stream) {
  return run(rooted(collective(Collective::kBroadcast, buffer, buffer, count, dtype, comm, stream), root));
}

gimbal_status_t gimbal_broadcast_start(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t root, gimbal_comm_t comm,
                                       gimbal_stream_t stream, gimbal_request_t* request) {
  return start(rooted(collective(Collective::kBroadcast, buffer, buffer, count, dtype, comm, stream), root), request);
}

gimbal_status_t gimbal_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op, int32_t root,
                              gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(rooted(reduction(Collective::kReduce, send, recv, count, dtype, op, comm, stream), root));
}

gimbal_status_t gimbal_reduce_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op,
                                    int32_t root, gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request) {
  return start(rooted(reduction(Collective::kReduce, send, recv, count, dtype, op, comm, stream), root), request);
}

gimbal_status_t gimbal_all_to_all(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_comm_t comm,
                                  gimbal_stream_t stream) {
  return run(collective(Collective::kAllToAll, send, recv, count, dtype, comm, stream));
}

gimbal_status_t gimbal_all_to_all_start(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_comm_t comm,
                                        gimbal_stream_t stream, gimbal_request_t* request) {
  return start(collective(Collective::kAllToAll, send, recv, count, dtype, comm, stream), request);
}

gimbal_status_t gimbal_gather(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype, int32_t root,
                              gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(rooted(collective(Collective::kGather, send, recv, send_count, dtype, comm, stream), root));
}

gimbal_status_t gimbal_gather_start(const void* send, void* recv, size_t send_count, gimbal_dtype_t dtype, int32_t root,
                                    gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request) {
  return start(rooted(collective(Collective::kGather, send, recv, send_count, dtype, comm, stream), root), request);
}

gimbal_status_t gimbal_scatter(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype, int32_t root,
                               gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(rooted(collective(Collective::kScatter, send, recv, recv_count, dtype, comm, stream), root));
}

gimbal_status_t gimbal_scatter_start(const void* send, void* recv, size_t recv_count, gimbal_dtype_t dtype, int32_t root,
                                     gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request) {
  return start(rooted(collective(Collective::kScatter, send, recv, recv_count, dtype, comm, stream), root), request);
}

gimbal_status_t gimbal_all_gather_v(const void* send, size_t send_count, void* recv, const size_t* recv_counts,
                                    const size_t* displacements, gimbal_dtype_t dtype, gimbal_comm_t comm,
                                    gimbal_stream_t stream) {
  return run(all_gather_v(send, send_count, recv, recv_counts, displacements, dtype, comm, stream));
}

gimbal_status_t gimbal_all_gather_v_start(const void* send, size_t send_count, void* recv, const size_t* recv_counts,
                                          const size_t* displacements, gimbal_dtype_t dtype, gimbal_comm_t comm,
                                          gimbal_stream_t stream, gimbal_request_t* request) {
  return start(all_gather_v(send, send_count, recv, recv_counts, displacements, dtype, comm, stream), request);
}

gimbal_status_t gimbal_all_to_all_v(const void* send, const size_t* send_counts, const size_t* send_displacements, void* recv,
                                    const size_t* recv_counts, const size_t* recv_displacements, gimbal_dtype_t dtype,
                                    gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(all_to_all_v(send, send_counts, send_displacements, recv, recv_counts, recv_displacements, dtype, comm, stream));
}

gimbal_status_t gimbal_all_to_all_v_start(const void* send, const size_t* send_counts, const size_t* send_displacements,
                                          void* recv, const size_t* recv_counts, const size_t* recv_displacements,
                                          gimbal_dtype_t dtype, gimbal_comm_t comm, gimbal_stream_t stream,
                                          gimbal_request_t* request) {
  return start(all_to_all_v(send, send_counts, send_displacements, recv, recv_counts, recv_displacements, dtype, comm, stream),
               request);
}

gimbal_status_t gimbal_send(const void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer, gimbal_comm_t comm,
                            gimbal_stream_t stream) {
  return run(rooted(collective(Collective::kSend, buffer, nullptr, count, dtype, comm, stream), peer));
}

gimbal_status_t gimbal_send_start(const void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer, gimbal_comm_t comm,
                                  gimbal_stream_t stream, gimbal_request_t* request) {
  return start(rooted(collective(Collective::kSend, buffer, nullptr, count, dtype, comm, stream), peer), request);
}

gimbal_status_t gimbal_recv(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer, gimbal_comm_t comm,
                            gimbal_stream_t stream) {
  return run(rooted(collective(Collective::kRecv, nullptr, buffer, count, dtype, comm, stream), peer));
}

gimbal_status_t gimbal_recv_start(void* buffer, size_t count, gimbal_dtype_t dtype, int32_t peer, gimbal_comm_t comm,
                                  gimbal_stream_t stream, gimbal_request_t* request) {
  return start(rooted(collective(Collective::kRecv, nullptr, buffer, count, dtype, comm, stream), peer), request);
}

gimbal_status_t gimbal_barrier(gimbal_comm_t comm, gimbal_stream_t stream) {
  return run(collective(Collective::kBarrier, nullptr, nullptr, 0, GIMBAL_UINT8, comm, stream));
}

gimbal_status_t gimbal_barrier_start(gimbal_comm_t comm, gimbal_stream_t stream, gimbal_request_t* request) {
  return start(collective(Collective::kBarrier, nullptr, nullptr, 0, GIMBAL_UINT8, comm, stream), request);
}
