#include "runtime/remote_links.h"

#include "runtime/tcp_links.h"
#include "runtime/verbs_links.h"

namespace gimbal {

// All ranks decide alike: the settings were compared, and verbs fail with the same error everywhere.
Result<std::unique_ptr<RemoteLinks>> RemoteLinks::connect(Bootstrap& mesh, const NodeShape& nodes, const Settings& settings,
                                                          const EndpointShape& shape, const Log& log, Deadline deadline) {
  if (settings.transport == "tcp") return TcpLinks::connect(mesh, nodes, settings, shape, deadline);
  Result<std::unique_ptr<RemoteLinks>> links = connect_verbs_links(mesh, nodes, settings, shape, log, deadline);
  if (links.ok()) return links;
  const Status& why = links.status();
  if (settings.transport == "verbs") {
    return Status(why.code(), "transport verbs is forced (GIMBAL_TRANSPORT), but " + why.message());
  }
  if (why.code() == Code::kUnsupported) {
    log.info("no InfiniBand or RoCE between nodes: " + why.message());
  } else if (settings.strict) {
    return Status(why.code(), "InfiniBand or RoCE is there but cannot be used, and GIMBAL_STRICT is set: " + why.message());
  } else if (settings.rank == 0) {
    log.warning("InfiniBand or RoCE is there but cannot be used, TCP is instead: " + why.message());
  }
  return TcpLinks::connect(mesh, nodes, settings, shape, deadline);
}

}  // namespace gimbal
