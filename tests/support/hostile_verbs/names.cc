// The exported functions that name things, with libibverbs' texts.
#include <array>

#include "tests/support/hostile_verbs/exports.h"

extern "C" {

const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 24> kNames = {"success",
                                                         "local length error",
                                                         "local QP operation error",
                                                         "local EE context operation error",
                                                         "local protection error",
                                                         "Work Request Flushed Error",
                                                         "memory management operation error",
                                                         "bad response error",
                                                         "local access error",
                                                         "remote invalid request error",
                                                         "remote access error",
                                                         "remote operation error",
                                                         "transport retry counter exceeded",
                                                         "RNR retry counter exceeded",
                                                         "local RDD violation error",
                                                         "remote invalid RD request",
                                                         "aborted error",
                                                         "invalid EE context number",
                                                         "invalid EE context state",
                                                         "fatal error",
                                                         "response timeout error",
                                                         "general error",
                                                         "TM error",
                                                         "TM software rendezvous"};
  return status >= 0 && static_cast<size_t>(status) < kNames.size() ? kNames[static_cast<size_t>(status)] : "unknown";
}

const char* ibv_port_state_str(ibv_port_state state) { return state == IBV_PORT_ACTIVE ? "PORT_ACTIVE" : "PORT_DOWN"; }

const char* ibv_event_type_str(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_QP_FATAL:
      return "local work queue catastrophic error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "local access violation work queue error";
    case IBV_EVENT_CQ_ERR:
      return "CQ error";
    case IBV_EVENT_PORT_ERR:
      return "port error";
    default:  // no other is raised
      return "unknown";
  }
}

const char* ibv_node_type_str(ibv_node_type) { return "InfiniBand channel adapter"; }

}  // extern "C"
