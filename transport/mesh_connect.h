// Making the control connections of a mesh: every rank listens, and connects to all ranks below its own.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "transport/job_key.h"
#include "transport/wire.h"

namespace gimbal {

struct MeshPlan {
  Rank rank = 0;
  std::string name;  // of the communicator
  JobKey job_key{""};
  Roster roster;

  [[nodiscard]] Rank size() const { return static_cast<Rank>(roster.records.size()); }
};

// "rank 2 (pid 77 on host a)"
std::string describe(const JoinRecord& record);
// This process as a member: host, pid, and the namespaces in which those and abstract sockets mean something.
JoinRecord describe_self();

struct ControlListener {
  FileDescriptor socket;
  std::string address;
};
Result<ControlListener> open_control_listener();

// A rank that fails closes its connections, and often its process ends: who looks later would take it for the cause. So a rank
// that found a peer gone while the mesh or the node's memory was being set up waits, before it says so, until the others have
// looked too.
void let_others_see_the_cause();

// One socket per rank, this rank's own invalid. Strangers that reach the listener are dropped.
Result<std::vector<FileDescriptor>> connect_mesh(const MeshPlan& plan, int listener, Deadline deadline);

}  // namespace gimbal
