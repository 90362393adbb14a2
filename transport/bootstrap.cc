#include "transport/bootstrap.h"

#include <algorithm>

#include "transport/descriptor_limit.h"
#include "transport/join.h"
#include "transport/mesh.h"

namespace gimbal {
namespace {

Status check_options(const BootstrapOptions& options) {
  constexpr size_t kMaxNameBytes = 128;
  if (options.size < 1 || options.size > kMaxRanks) {
    return {Code::kInvalidArgument,
            "world size " + std::to_string(options.size) + " is outside 1 to " + std::to_string(kMaxRanks)};
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return {Code::kInvalidArgument, "rank " + std::to_string(options.rank) + " is outside 0 to " +
                                        std::to_string(options.size - 1) + " (world size " + std::to_string(options.size) +
                                        ")"};
  }
  if (options.name.size() > kMaxNameBytes) {
    return {Code::kInvalidArgument, "communicator name of " + std::to_string(options.name.size()) + " bytes: at most " +
                                        std::to_string(kMaxNameBytes) + " are allowed"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> Bootstrap::connect(Store& store, const BootstrapOptions& options, const Log& log,
                                                      Deadline deadline) {
  RETURN_IF_ERROR(check_options(options));
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> available, list_interfaces());
  Result<std::vector<InterfaceAddress>> admitted = admit_interfaces(available, options.interfaces);
  if (!admitted.ok()) return Status(admitted.status().code(), "GIMBAL_SOCKET_IFNAME: " + admitted.status().message());
  // A socket and a process descriptor per peer, and the connections that are being accepted.
  RETURN_IF_ERROR(reserve_descriptors(2 * static_cast<size_t>(options.size) + 16));

  JoinRecord self = describe_self();
  self.version = options.version;
  self.rank = options.rank;
  self.size = options.size;
  self.candidates = offer(*admitted);
  ASSIGN_OR_RETURN(const ControlListener listener, open_control_listener(!self.candidates.empty()));
  self.control_address = listener.name;
  self.port = listener.port;
  MeshPlan plan{.rank = options.rank,
                .name = options.name,
                .job_key = JobKey(options.job_key),
                .roster = {},
                .interfaces = *std::move(admitted),
                .link_timeout_ms = options.link_timeout_ms,
                .log = log};
  if (options.size == 1) {
    plan.roster = Roster{.nonce = random_nonce(), .records = {self}};
  } else {
    ASSIGN_OR_RETURN(plan.roster, join(store, options.name, self, deadline));
  }
  log.debug("all " + std::to_string(options.size) + " ranks of \"" + options.name + "\" have joined; connecting");
  ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> mesh, Mesh::connect(plan, listener, deadline));
  return mesh;
}

}  // namespace gimbal
