#include "runtime/api/handles.h"

#include <pthread.h>

namespace gimbal::api {
namespace {

Status too_many(const char* what) { return {Code::kNoMemory, std::string("too many ") + what + " are alive in this process"}; }

struct Tables {
  CommunicatorTable communicators;
  RequestTable requests;
};

Tables& tables();

void lock_tables() {
  tables().communicators.lock();
  tables().requests.lock();
}

void unlock_tables() {
  tables().requests.unlock();
  tables().communicators.unlock();
}

// Never destroyed: handles may be used by static destructors of the program.
Tables& tables() {
  static auto* const kTables = [] {
    auto* const made = new Tables();
    // Fails for want of memory only; then a fork is as safe as without.
    static_cast<void>(pthread_atfork(lock_tables, unlock_tables, unlock_tables));
    return made;
  }();
  return *kTables;
}

}  // namespace

CommunicatorTable& communicators() { return tables().communicators; }
RequestTable& requests() { return tables().requests; }

Status not_a_communicator(gimbal_comm_t comm) {
  if (comm == nullptr) return {Code::kInvalidArgument, "the communicator is NULL"};
  return {Code::kInvalidArgument, "the communicator handle names no communicator: it was destroyed or never made"};
}

Result<gimbal_comm_t> make_handle(std::shared_ptr<Communicator> communicator) {
  const uintptr_t handle = communicators().insert(std::move(communicator));
  if (handle == 0) return too_many("communicators");
  return reinterpret_cast<gimbal_comm_t>(handle);
}

Result<gimbal_request_t> make_handle(std::shared_ptr<Communicator> communicator, std::shared_ptr<Request> request) {
  auto both = std::make_shared<RequestHandle>(RequestHandle{std::move(communicator), std::move(request)});
  const uintptr_t handle = requests().insert(std::move(both));
  if (handle == 0) return too_many("requests");
  return reinterpret_cast<gimbal_request_t>(handle);
}

}  // namespace gimbal::api
