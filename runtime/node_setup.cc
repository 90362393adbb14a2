#include "runtime/node_setup.h"

#include <span>

namespace gimbal {
namespace {

std::string describe(const Bootstrap& mesh, Rank rank) {
  const PeerIdentity& peer = mesh.peers()[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(peer.pid) + " on host " + peer.host + ")";
}

// Everybody learns at once what has gone wrong on any rank; empty sentences mean nothing has.
Status compare_notes(Bootstrap& mesh, const std::string& problem, const std::string& what, Deadline deadline) {
  ASSIGN_OR_RETURN(const auto problems, mesh.all_gather(std::as_bytes(std::span(problem)), deadline));
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    const std::vector<std::byte>& text = problems[rank];
    if (text.empty()) continue;
    return {Code::kNoMemory,
            "rank " + std::to_string(rank) + what + std::string(reinterpret_cast<const char*>(text.data()), text.size())};
  }
  return {};
}

}  // namespace

int32_t node_name(const Bootstrap& mesh, const Settings& settings) {
  if (settings.transport == "tcp" || settings.transport == "verbs") return settings.rank;
  Rank first = 0;
  while (!mesh.passes_descriptors(first)) ++first;
  // The emulated nodes of one host are numbered within it.
  return first + settings.emulated_node * settings.size;
}

Status check_transport(const Bootstrap& mesh, const NodeShape& nodes, const Settings& settings) {
  if (nodes.nodes() == 1) return {};
  const std::string apart =
      describe(mesh, nodes.members(1).front()) + " shares no memory with " + describe(mesh, nodes.members(0).front());
  if (settings.transport == "shm") return {Code::kUnsupported, "transport shm is forced (GIMBAL_TRANSPORT), but " + apart};
  return {};
}

Result<std::shared_ptr<SharedSegment>> share_segment(Bootstrap& mesh, const NodeShape& nodes, Rank rank, size_t bytes,
                                                     const std::string& purpose, Deadline deadline) {
  const std::span<const Rank> members = nodes.members(nodes.node_of(rank));
  const bool first = rank == members.front();
  std::shared_ptr<SharedSegment> segment;
  std::string problem;
  const auto keep = [&](Result<std::shared_ptr<SharedSegment>>&& result) {
    if (result.ok()) {
      segment = *std::move(result);
    } else {
      problem = result.status().message();
    }
  };
  if (first) keep(SharedSegment::create(purpose, bytes));
  RETURN_IF_ERROR(compare_notes(mesh, problem, ": ", deadline));
  if (first) {
    for (const Rank member : members.subspan(1)) RETURN_IF_ERROR(mesh.send_descriptor(member, segment->fd(), deadline));
  } else {
    ASSIGN_OR_RETURN(FileDescriptor descriptor, mesh.receive_descriptor(members.front(), deadline));
    keep(SharedSegment::map(std::move(descriptor), bytes));
  }
  RETURN_IF_ERROR(compare_notes(mesh, problem, " cannot map the node's memory: ", deadline));
  return segment;
}

}  // namespace gimbal
