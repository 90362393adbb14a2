// Handles and this thread's group: what the C entry points share.
#pragma once

#include <memory>
#include <string>

#include "base/entry.h"
#include "base/handle_table.h"
#include "base/status.h"
#include "gimbal/gimbal.h"
#include "runtime/communicator.h"
#include "runtime/group.h"
#include "runtime/started_operations.h"

namespace gimbal::api {

// A request and the communicator that it belongs to, kept alive by the handle.
struct RequestHandle {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Request> request;
};

using CommunicatorTable = HandleTable<Communicator, 0x5>;
using RequestTable = HandleTable<RequestHandle, 0x9>;
CommunicatorTable& communicators();
RequestTable& requests();

inline uintptr_t number_of(gimbal_comm_t comm) { return reinterpret_cast<uintptr_t>(comm); }
inline uintptr_t number_of(gimbal_request_t request) { return reinterpret_cast<uintptr_t>(request); }

// The communicator that the handle names, usable or not; null when it names none.
inline Communicator* find(gimbal_comm_t comm) { return communicators().find(number_of(comm)); }
Status not_a_communicator(gimbal_comm_t comm);

Result<gimbal_comm_t> make_handle(std::shared_ptr<Communicator> communicator);
Result<gimbal_request_t> make_handle(std::shared_ptr<Communicator> communicator, std::shared_ptr<Request> request);

// This thread's group, and how deep it is nested; null outside.
struct ThreadGroup {
  int depth = 0;
  Group group;
};
// A plain pointer, so that looking at it costs no initialization check; owned by whoever ends the group.
inline constinit thread_local ThreadGroup* thread_group = nullptr;

}  // namespace gimbal::api
