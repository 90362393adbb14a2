// C entry points of the gradient synchronizer.
#include <cstring>

#include "base/entry.h"
#include "base/handle_table.h"
#include "gimbal/gradsync.h"
#include "gradsync/synchronizer.h"

namespace gradsync = gimbal::gradsync;
using gimbal::Code;
using gimbal::Status;

namespace {

using SynchronizerTable = gimbal::HandleTable<gradsync::Synchronizer, 0x3>;

// Never destroyed: handles may be used by static destructors of the program.
SynchronizerTable& synchronizers() {
  static auto* const kTable = new SynchronizerTable();
  return *kTable;
}

uintptr_t number_of(gimbal_gradsync_t sync) { return reinterpret_cast<uintptr_t>(sync); }

Status not_a_synchronizer(gimbal_gradsync_t sync) {
  if (sync == nullptr) return {Code::kInvalidArgument, "the synchronizer is NULL"};
  return {Code::kInvalidArgument, "the synchronizer handle names no synchronizer: it was destroyed or never made"};
}

template <typename Body>
gimbal_status_t with(gimbal_gradsync_t sync, Body&& body) noexcept {
  return gimbal::enter([&]() -> Status {
    gradsync::Synchronizer* found = synchronizers().find(number_of(sync));
    if (found == nullptr) return not_a_synchronizer(sync);
    return body(*found);
  });
}

Status check_index(const gradsync::Synchronizer& sync, size_t parameter) {
  if (parameter < sync.parameter_count()) return {};
  return {Code::kInvalidArgument,
          "parameter is " + std::to_string(parameter) + "; there are " + std::to_string(sync.parameter_count())};
}

Status check_flag(const char* name, int32_t value) {
  if (value == 0 || value == 1) return {};
  return {Code::kInvalidArgument, std::string(name) + " is " + std::to_string(value) + "; allowed: 0 and 1"};
}

template <typename Pointer>
Status check_values(const gradsync::Synchronizer& sync, std::span<const Pointer> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != nullptr || sync.element_count(i) == 0) continue;
    return {Code::kInvalidArgument, "values[" + std::to_string(i) + "] is NULL"};
  }
  return {};
}

}  // namespace

gimbal_status_t gimbal_gradsync_create(gimbal_comm_t comm, const gimbal_gradsync_parameter_t* parameters,
                                       size_t parameter_count, const gimbal_gradsync_options_t* options,
                                       gimbal_gradsync_t* sync) {
  return gimbal::enter([&]() -> Status {
    if (sync == nullptr) return {Code::kInvalidArgument, "sync is NULL"};
    *sync = nullptr;
    ASSIGN_OR_RETURN(auto taken, gradsync::take_parameters(parameters, parameter_count));
    ASSIGN_OR_RETURN(auto checked, gradsync::take_options(options, taken));
    ASSIGN_OR_RETURN(auto made, gradsync::Synchronizer::create(comm, std::move(taken), checked));
    const uintptr_t handle = synchronizers().insert(std::move(made));
    if (handle == 0) return {Code::kNoMemory, "too many synchronizers are alive in this process"};
    *sync = reinterpret_cast<gimbal_gradsync_t>(handle);
    return {};
  });
}

gimbal_status_t gimbal_gradsync_destroy(gimbal_gradsync_t sync) {
  return gimbal::enter(
      [&]() -> Status { return synchronizers().erase(number_of(sync)) == nullptr ? not_a_synchronizer(sync) : Status(); });
}

gimbal_status_t gimbal_gradsync_gradient(gimbal_gradsync_t sync, size_t parameter, void** memory) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (memory == nullptr) return {Code::kInvalidArgument, "memory is NULL"};
    RETURN_IF_ERROR(check_index(it, parameter));
    *memory = it.gradient(parameter);
    return {};
  });
}

gimbal_status_t gimbal_gradsync_weight(gimbal_gradsync_t sync, double weight) {
  return with(sync, [&](gradsync::Synchronizer& it) { return it.set_weight(weight); });
}

gimbal_status_t gimbal_gradsync_accumulate(gimbal_gradsync_t sync, int32_t on) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    RETURN_IF_ERROR(check_flag("on", on));
    return it.accumulate(on == 1);
  });
}

gimbal_status_t gimbal_gradsync_ready(gimbal_gradsync_t sync, size_t parameter, gimbal_stream_t stream) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (stream != nullptr) return {Code::kInvalidArgument, "stream is not NULL, but the gradients are in host memory"};
    RETURN_IF_ERROR(check_index(it, parameter));
    return it.ready(parameter);
  });
}

gimbal_status_t gimbal_gradsync_step_end(gimbal_gradsync_t sync, double weight) {
  return with(sync, [&](gradsync::Synchronizer& it) { return it.end_step(weight); });
}

gimbal_status_t gimbal_gradsync_wait(gimbal_gradsync_t sync, size_t parameter) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (parameter == GIMBAL_GRADSYNC_ALL) return it.wait_all();
    RETURN_IF_ERROR(check_index(it, parameter));
    return it.wait(parameter);
  });
}

gimbal_status_t gimbal_gradsync_join(gimbal_gradsync_t sync) {
  return with(sync, [](gradsync::Synchronizer& it) { return it.join(); });
}

gimbal_status_t gimbal_gradsync_broadcast(gimbal_gradsync_t sync, void* const* values, int32_t root) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (values == nullptr) return {Code::kInvalidArgument, "values is NULL"};
    const std::span all(values, it.parameter_count());
    RETURN_IF_ERROR(check_values<void*>(it, all));
    return it.broadcast(all, root);
  });
}

gimbal_status_t gimbal_gradsync_check(gimbal_gradsync_t sync, const void* const* values) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (values == nullptr) return it.check({});
    const std::span all(values, it.parameter_count());
    RETURN_IF_ERROR(check_values<const void*>(it, all));
    return it.check(all);
  });
}

gimbal_status_t gimbal_gradsync_timeline(gimbal_gradsync_t sync, const char* path) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (path == nullptr && it.rank() == 0) return {Code::kInvalidArgument, "path is NULL on rank 0"};
    return it.write_timeline(path);
  });
}

gimbal_status_t gimbal_gradsync_state_bytes(gimbal_gradsync_t sync, size_t* bytes) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (bytes == nullptr) return {Code::kInvalidArgument, "bytes is NULL"};
    *bytes = it.state_bytes();
    return {};
  });
}

gimbal_status_t gimbal_gradsync_state_save(gimbal_gradsync_t sync, void* state, size_t bytes) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (state == nullptr) return {Code::kInvalidArgument, "state is NULL"};
    return it.save_state({static_cast<std::byte*>(state), bytes});
  });
}

gimbal_status_t gimbal_gradsync_state_load(gimbal_gradsync_t sync, const void* state, size_t bytes) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (state == nullptr) return {Code::kInvalidArgument, "state is NULL"};
    return it.load_state({static_cast<const std::byte*>(state), bytes});
  });
}

gimbal_status_t gimbal_gradsync_stats(gimbal_gradsync_t sync, gimbal_gradsync_stats_t* stats) {
  return with(sync, [&](gradsync::Synchronizer& it) -> Status {
    if (stats == nullptr) return {Code::kInvalidArgument, "stats is NULL"};
    // The first struct ended before overlap_ns.
    const size_t bytes = stats->struct_bytes;
    if (bytes < offsetof(gimbal_gradsync_stats_t, overlap_ns) || bytes > sizeof(gimbal_gradsync_stats_t)) {
      return {Code::kInvalidArgument,
              "stats was not set by GIMBAL_GRADSYNC_STATS_INIT: struct_bytes is " + std::to_string(bytes)};
    }
    gimbal_gradsync_stats_t current = it.stats();
    current.struct_bytes = bytes;
    std::memcpy(stats, &current, bytes);
    return {};
  });
}
