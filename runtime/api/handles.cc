#include "runtime/api/handles.h"

namespace gimbal::api {
namespace {

std::string& last_error_text() {
  thread_local std::string text;
  return text;
}

Status too_many(const char* what) { return {Code::kNoMemory, std::string("too many ") + what + " are alive in this process"}; }

}  // namespace

// Never destroyed: handles may be used by static destructors of the program.
CommunicatorTable& communicators() {
  static auto* const kTable = new CommunicatorTable();
  return *kTable;
}

RequestTable& requests() {
  static auto* const kTable = new RequestTable();
  return *kTable;
}

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

void set_last_error(const Status& status) { last_error_text() = status.message(); }
const char* last_error() { return last_error_text().c_str(); }

}  // namespace gimbal::api
