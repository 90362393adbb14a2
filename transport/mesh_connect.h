// Making the control connections of a mesh: every rank listens, and connects to all ranks below its own.
//
// A rank is reached by its abstract Unix socket where that exists, which is inside its network namespace, and over TCP
// otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/interfaces.h"
#include "transport/job_key.h"
#include "transport/keyed_listener.h"
#include "transport/wire.h"

namespace gimbal {

struct MeshPlan {
  Rank rank = 0;
  std::string name;  // of the communicator
  JobKey job_key{""};
  Roster roster;
  std::vector<InterfaceAddress> interfaces;  // of this host, as far as they are admitted
  int64_t link_timeout_ms = 0;
  Log log = Log(LogLevel::kWarning);
  std::function<Status()> interrupted = [] { return Status(); };  // see Bootstrap::watch

  [[nodiscard]] Rank size() const { return static_cast<Rank>(roster.records.size()); }
  [[nodiscard]] const JoinRecord& record(Rank of) const { return roster.records[static_cast<size_t>(of)]; }
  // Of this mesh: what one of its ranks proves means nothing to another mesh.
  [[nodiscard]] JobKey key() const { return job_key.derive(ByteWriter().raw(roster.nonce).text(name).take()); }
};

// "rank 2 (pid 77 on host a)"
std::string describe(const JoinRecord& record);
// This process as a member: host, pid, and the namespaces in which those and abstract sockets mean something.
JoinRecord describe_self();

struct ControlListener {
  std::unique_ptr<KeyedListener> listener;
  std::string name;   // abstract
  uint16_t port = 0;  // 0 where nobody is to come from another host
};
Result<ControlListener> open_control_listener(bool for_other_hosts);

// How long a blocking call of the mesh sleeps at most before it looks at MeshPlan::interrupted.
inline constexpr int kLookAgainMs = 50;

struct PeerSocket {
  FileDescriptor socket;
  bool shares_memory = false;  // a Unix socket: descriptors can be passed
};

// One socket per rank, this rank's own invalid. Strangers that reach the listener are dropped.
//
// A rank that fails closes its connections, and who sees them closed would take it for the cause. So it first tells all others
// why: it goes on connecting until it has met each one that is not gone, at most 400 ms.
Result<std::vector<PeerSocket>> connect_mesh(const MeshPlan& plan, KeyedListener& listener, Deadline deadline);

}  // namespace gimbal
