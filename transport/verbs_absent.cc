// Stands for transport/verbs in a build without rdma-core's headers: its ranks say so to those that have them.
#include "transport/verbs_network.h"

namespace gimbal {
namespace {

Status absent() { return {Code::kUnsupported, "this build has no verbs transport (infiniband/verbs.h was not there)"}; }

}  // namespace

Result<std::unique_ptr<VerbsNetwork>> VerbsNetwork::connect(Bootstrap& mesh, const VerbsNetworkOptions& /*options*/,
                                                            Deadline deadline) {
  return exchange_offers(mesh, absent(), deadline).status();
}

Result<std::vector<std::string>> list_verbs_ports(const VerbsSettings& /*settings*/) { return absent(); }

}  // namespace gimbal
