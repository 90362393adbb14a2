#include "tests/support/hostile_verbs/hostility.h"

#include <cerrno>
#include <cstdlib>
#include <set>

#include "base/parse.h"

namespace gimbal::hostile {
namespace {

const std::set<std::string, std::less<>> kCalls = {"open_device",         "alloc_pd",  "reg_mr",
                                                   "create_comp_channel", "create_cq", "create_qp",
                                                   "modify_qp",           "post_send", "post_recv"};

Status not_a_fault(std::string_view text) {
  return Status(Code::kInvalidArgument, "HOSTILE_VERBS_PLAN: \"" + std::string(text) +
                                            "\" is no fault (tests/support/hostile_verbs/hostility.h lists them)");
}

Result<size_t> device_number(std::string_view name) {
  if (name == "hostile0") return size_t{0};
  if (name == "hostile1") return size_t{1};
  return not_a_fault(name);
}

// "<what>@<n>=<value>"
Status add_event(Hostility& hostility, std::string_view what, std::string_view number, std::string_view value) {
  ASSIGN_OR_RETURN(const int64_t n, parse_integer(number, 1, INT64_MAX));
  const auto count = static_cast<uint64_t>(n);
  if (what == "link_down") {
    const size_t slash = value.find('/');
    if (slash == std::string_view::npos) return not_a_fault(value);
    ASSIGN_OR_RETURN(const size_t device, device_number(value.substr(0, slash)));
    ASSIGN_OR_RETURN(const int64_t port, parse_integer(value.substr(slash + 1), 1, 2));
    hostility.cut_links[count] = {device, static_cast<uint8_t>(port)};
    return {};
  }
  if (what == "qp_error") {
    ASSIGN_OR_RETURN(const size_t device, device_number(value));
    hostility.broken_queue_pairs[count] = {device, 0};
    return {};
  }
  static const std::map<std::string_view, int> errors = {{"ENOMEM", ENOMEM}, {"EINVAL", EINVAL}, {"EIO", EIO}};
  const auto error = errors.find(value);
  if (kCalls.count(what) == 0 || error == errors.end()) return not_a_fault(what);
  hostility.failing_calls[std::string(what)][count] = error->second;
  return {};
}

// "<what>=<value>"
Status add_property(Hostility& hostility, std::string_view what, std::string_view value) {
  if (what == "link") {
    if (value != "infiniband" && value != "ethernet") return not_a_fault(value);
    hostility.infiniband = value == "infiniband";
    return {};
  }
  if (what == "devices") {
    ASSIGN_OR_RETURN(const int64_t devices, parse_integer(value, 0, 2));
    hostility.devices = static_cast<size_t>(devices);
    return {};
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, parse_bytes(value));
  if (what == "inline") {
    hostility.most_inline = bytes;
  } else if (what == "mtu" && bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0) {
    hostility.mtu_bytes = bytes;
  } else if (what == "memlock") {
    hostility.memlock = bytes;
  } else {
    return not_a_fault(what);
  }
  return {};
}

}  // namespace

Status Hostility::add(std::string_view plan) {
  while (!plan.empty()) {
    const size_t comma = plan.find(',');
    const std::string_view fault = plan.substr(0, comma);
    plan = comma == std::string_view::npos ? std::string_view() : plan.substr(comma + 1);
    const size_t equals = fault.find('=');
    if (equals == std::string_view::npos) return not_a_fault(fault);
    const std::string_view what = fault.substr(0, equals);
    const std::string_view value = fault.substr(equals + 1);
    const size_t at = what.find('@');
    if (at == std::string_view::npos) {
      RETURN_IF_ERROR(add_property(*this, what, value));
    } else {
      RETURN_IF_ERROR(add_event(*this, what.substr(0, at), what.substr(at + 1), value));
    }
  }
  return {};
}

Result<Hostility> Hostility::from_environment() {
  Hostility hostility;
  if (const char* const seed = std::getenv("HOSTILE_VERBS_SEED")) {
    ASSIGN_OR_RETURN(const int64_t number, parse_integer(seed, 0, INT64_MAX));
    hostility.seed = static_cast<uint64_t>(number);
  }
  if (const char* const plan = std::getenv("HOSTILE_VERBS_PLAN")) RETURN_IF_ERROR(hostility.add(plan));
  return hostility;
}

}  // namespace gimbal::hostile
