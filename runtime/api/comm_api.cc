// Entry points that make, question and end communicators, and allocate their memory.
#include <cstddef>
#include <cstring>

#include "base/process_registry.h"
#include "runtime/api/handles.h"

namespace api = gimbal::api;
using gimbal::Code;
using gimbal::Communicator;
using gimbal::Status;

namespace {

Status null_pointer(const char* name) { return {Code::kInvalidArgument, std::string(name) + " is NULL"}; }

// Runs body(communicator) for a communicator of this process, whatever became of it.
template <typename Body>
gimbal_status_t with_known(gimbal_comm_t comm, Body&& body) {
  return gimbal::enter([&]() -> Status {
    Communicator* const communicator = api::find(comm);
    if (communicator == nullptr) return api::not_a_communicator(comm);
    RETURN_IF_ERROR(communicator->check_not_forked());
    return body(*communicator);
  });
}

// Runs body(communicator) for a communicator that can be used.
template <typename Body>
gimbal_status_t with_usable(gimbal_comm_t comm, Body&& body) {
  return with_known(comm, [&](Communicator& communicator) -> Status {
    RETURN_IF_ERROR(communicator.check_usable());
    return body(communicator);
  });
}

}  // namespace

gimbal_status_t gimbal_comm_create(const gimbal_config_t* config, gimbal_comm_t* comm) {
  return gimbal::enter([&]() -> Status {
    if (comm == nullptr) return null_pointer("comm");
    *comm = nullptr;
    ASSIGN_OR_RETURN(std::shared_ptr<Communicator> communicator, Communicator::create(config));
    ASSIGN_OR_RETURN(*comm, api::make_handle(std::move(communicator)));
    return {};
  });
}

gimbal_status_t gimbal_comm_destroy(gimbal_comm_t comm) {
  return gimbal::enter([&]() -> Status {
    std::shared_ptr<Communicator> communicator = api::communicators().erase(api::number_of(comm));
    if (communicator == nullptr) return api::not_a_communicator(comm);
    // A request handle may keep the object alive; its operations end here all the same.
    communicator->close();
    communicator.reset();
    gimbal::ProcessRegistry::instance().forget_expired();
    return {};
  });
}

gimbal_status_t gimbal_comm_abort(gimbal_comm_t comm) {
  return gimbal::enter([&]() -> Status {
    const std::shared_ptr<Communicator> communicator = api::communicators().share(api::number_of(comm));
    if (communicator == nullptr) return api::not_a_communicator(comm);
    communicator->abort();
    return {};
  });
}

gimbal_status_t gimbal_comm_status(gimbal_comm_t comm) {
  return gimbal::enter([&]() -> Status {
    const std::shared_ptr<Communicator> communicator = api::communicators().share(api::number_of(comm));
    if (communicator == nullptr) return api::not_a_communicator(comm);
    RETURN_IF_ERROR(communicator->check_not_forked());
    return communicator->status();
  });
}

gimbal_status_t gimbal_comm_rank(gimbal_comm_t comm, int32_t* rank) {
  return with_known(comm, [&](Communicator& communicator) -> Status {
    if (rank == nullptr) return null_pointer("rank");
    *rank = communicator.rank();
    return {};
  });
}

gimbal_status_t gimbal_comm_size(gimbal_comm_t comm, int32_t* size) {
  return with_known(comm, [&](Communicator& communicator) -> Status {
    if (size == nullptr) return null_pointer("size");
    *size = communicator.size();
    return {};
  });
}

gimbal_status_t gimbal_comm_split(gimbal_comm_t comm, int32_t color, int32_t key, gimbal_comm_t* out) {
  return with_usable(comm, [&](Communicator& communicator) -> Status {
    if (out == nullptr) return null_pointer("out");
    *out = nullptr;
    if (color == GIMBAL_SPLIT_NODE) color = communicator.node();
    if (color < -1) {
      return {Code::kInvalidArgument,
              "color is " + std::to_string(color) + "; allowed: 0 and above, -1 for none, or GIMBAL_SPLIT_NODE"};
    }
    ASSIGN_OR_RETURN(std::shared_ptr<Communicator> child, communicator.split(color, key));
    if (child == nullptr) return {};
    ASSIGN_OR_RETURN(*out, api::make_handle(std::move(child)));
    return {};
  });
}

gimbal_status_t gimbal_comm_shrink(gimbal_comm_t comm, gimbal_comm_t* out) {
  return with_known(comm, [&](Communicator& communicator) -> Status {
    if (out == nullptr) return null_pointer("out");
    *out = nullptr;
    ASSIGN_OR_RETURN(std::shared_ptr<Communicator> child, communicator.shrink());
    ASSIGN_OR_RETURN(*out, api::make_handle(std::move(child)));
    return {};
  });
}

gimbal_status_t gimbal_comm_stats(gimbal_comm_t comm, gimbal_stats_t* stats) {
  return with_known(comm, [&](Communicator& communicator) -> Status {
    if (stats == nullptr) return null_pointer("stats");
    // The first struct ended before `errors`.
    const size_t bytes = stats->struct_bytes;
    if (bytes < offsetof(gimbal_stats_t, errors) || bytes > sizeof(gimbal_stats_t)) {
      return {Code::kInvalidArgument, "the stats were not set by GIMBAL_STATS_INIT: struct_bytes is " + std::to_string(bytes)};
    }
    gimbal_stats_t current = GIMBAL_STATS_INIT;
    communicator.read_stats(current);
    current.struct_bytes = bytes;
    std::memcpy(stats, &current, bytes);
    return {};
  });
}

gimbal_status_t gimbal_comm_dump(gimbal_comm_t comm, const char* path) {
  return gimbal::enter([&]() -> Status {
    const std::shared_ptr<Communicator> communicator = api::communicators().share(api::number_of(comm));
    if (communicator == nullptr) return api::not_a_communicator(comm);
    if (path == nullptr) return null_pointer("path");
    RETURN_IF_ERROR(communicator->check_not_forked());
    return communicator->dump(path);
  });
}

gimbal_status_t gimbal_mem_alloc(gimbal_comm_t comm, gimbal_memory_t memory, size_t bytes, void** pointer) {
  return with_usable(comm, [&](Communicator& communicator) -> Status {
    if (pointer == nullptr) return null_pointer("pointer");
    *pointer = nullptr;
    if (memory == GIMBAL_MEMORY_CUDA)
      return {Code::kUnsupported,
              "this version allocates host memory only, not GIMBAL_MEMORY_CUDA: memory of cudaMalloc serves every operation"};
    if (memory != GIMBAL_MEMORY_HOST) {
      return {Code::kInvalidArgument,
              "memory is " + std::to_string(memory) + "; allowed: GIMBAL_MEMORY_HOST, GIMBAL_MEMORY_CUDA"};
    }
    if (bytes == 0) return {Code::kInvalidArgument, "bytes is 0; allowed: 1 and above"};
    ASSIGN_OR_RETURN(*pointer, communicator.allocate(bytes));
    return {};
  });
}

gimbal_status_t gimbal_mem_free(gimbal_comm_t comm, void* pointer) {
  return with_known(comm, [&](Communicator& communicator) -> Status { return communicator.free(pointer); });
}

gimbal_status_t gimbal_register(gimbal_comm_t comm, void* pointer, size_t bytes) {
  return with_usable(comm, [&](Communicator& communicator) -> Status {
    if (pointer == nullptr) return null_pointer("pointer");
    if (bytes == 0) return {Code::kInvalidArgument, "bytes is 0; allowed: 1 and above"};
    return communicator.register_memory(pointer, bytes);
  });
}

gimbal_status_t gimbal_deregister(gimbal_comm_t comm, void* pointer) {
  return with_known(comm, [&](Communicator& communicator) -> Status { return communicator.deregister_memory(pointer); });
}

gimbal_status_t gimbal_explain(gimbal_comm_t comm, gimbal_collective_t collective, size_t bytes, gimbal_dtype_t dtype,
                               char* text, size_t size) {
  return with_known(comm, [&](Communicator& communicator) -> Status {
    if (text == nullptr || size == 0) return null_pointer("text");
    const int collective_value = collective;
    const int dtype_value = dtype;
    if (collective_value < 0 || collective_value >= gimbal::kCollectiveCount) {
      return {Code::kInvalidArgument, "collective is " + std::to_string(collective_value) + ", not a gimbal_collective_t"};
    }
    if (dtype_value < 0 || dtype_value >= gimbal::kPublicDTypeCount) {
      return {Code::kInvalidArgument, "dtype is " + std::to_string(dtype_value) + ", not a gimbal_dtype_t"};
    }
    const std::string explanation =
        communicator.explain(static_cast<gimbal::Collective>(collective_value), bytes, static_cast<gimbal::DType>(dtype_value));
    const size_t length = std::min(explanation.size(), size - 1);
    std::memcpy(text, explanation.data(), length);
    text[length] = '\0';
    if (length == explanation.size()) return {};
    return {Code::kInvalidArgument,
            "the explanation needs " + std::to_string(explanation.size() + 1) + " bytes, not " + std::to_string(size)};
  });
}
