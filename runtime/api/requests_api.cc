// Entry points of requests and groups.
#include <memory>
#include <utility>

#include "runtime/api/handles.h"

namespace api = gimbal::api;
using gimbal::Code;
using gimbal::Status;

namespace {

Status not_a_request() {
  return {Code::kInvalidArgument, "the request handle names no request: it was waited for before or never made"};
}

// Frees the handle of a completed request and returns the request's status.
Status release(gimbal_request_t* request, const api::RequestHandle& handle) {
  const std::shared_ptr<gimbal::Request> completed = handle.request;
  api::requests().erase(api::number_of(*request));
  *request = nullptr;
  return completed->status();
}

// What this thread's last group left for the next one.
thread_local std::unique_ptr<api::ThreadGroup> spare_group;

}  // namespace

gimbal_status_t gimbal_wait(gimbal_request_t* request) {
  return gimbal::enter([&]() -> Status {
    if (request == nullptr) return {Code::kInvalidArgument, "request is NULL"};
    if (*request == nullptr) return {};
    const std::shared_ptr<api::RequestHandle> handle = api::requests().share(api::number_of(*request));
    if (handle == nullptr) return not_a_request();
    RETURN_IF_ERROR(handle->communicator->check_not_forked());
    if (!handle->request->done()) handle->communicator->started().wait(*handle->request);
    return release(request, *handle);
  });
}

gimbal_status_t gimbal_test(gimbal_request_t* request, int* done) {
  return gimbal::enter([&]() -> Status {
    if (request == nullptr) return {Code::kInvalidArgument, "request is NULL"};
    if (done == nullptr) return {Code::kInvalidArgument, "done is NULL"};
    *done = 1;
    if (*request == nullptr) return {};
    const std::shared_ptr<api::RequestHandle> handle = api::requests().share(api::number_of(*request));
    if (handle == nullptr) return not_a_request();
    RETURN_IF_ERROR(handle->communicator->check_not_forked());
    if (!handle->request->done() && !handle->communicator->started().test(*handle->request)) {
      *done = 0;
      return {};
    }
    return release(request, *handle);
  });
}

gimbal_status_t gimbal_group_start(void) {
  return gimbal::enter([]() -> Status {
    if (api::thread_group == nullptr) {
      if (spare_group == nullptr) spare_group = std::make_unique<api::ThreadGroup>();
      api::thread_group = spare_group.release();
    }
    ++api::thread_group->depth;
    return {};
  });
}

gimbal_status_t gimbal_group_end(void) {
  return gimbal::enter([]() -> Status {
    if (api::thread_group == nullptr)
      return {Code::kInvalidUsage, "gimbal_group_end without gimbal_group_start on this thread"};
    if (--api::thread_group->depth > 0) return {};
    spare_group.reset(std::exchange(api::thread_group, nullptr));
    return spare_group->group.launch();
  });
}
