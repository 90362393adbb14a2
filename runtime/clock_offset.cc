#include "runtime/clock_offset.h"

#include <limits>

#include "transport/bytes.h"

namespace gimbal {
namespace {

// The soonest of a few answers: one may find its rank asleep.
constexpr int kQuestions = 8;

Result<ClockOffset> ask_first_rank(Bootstrap& mesh, Deadline deadline) {
  ClockOffset best = {.offset_ns = 0, .uncertainty_ns = std::numeric_limits<int64_t>::max()};
  for (int question = 0; question < kQuestions; ++question) {
    const int64_t asked_ns = monotonic_ns();
    RETURN_IF_ERROR(mesh.send(0, {}, deadline));
    ASSIGN_OR_RETURN(const Bytes answer, mesh.receive(0, deadline));
    const int64_t answered_ns = monotonic_ns();
    ByteReader reader(answer);
    const int64_t theirs_ns = reader.i64();
    if (!reader.finished()) return Status(Code::kInternal, "rank 0 answered with a malformed time");
    const int64_t half_ns = (answered_ns - asked_ns) / 2;
    if (half_ns < best.uncertainty_ns) best = {.offset_ns = theirs_ns - (asked_ns + half_ns), .uncertainty_ns = half_ns};
  }
  return best;
}

Status answer(Bootstrap& mesh, Rank peer, Deadline deadline) {
  for (int question = 0; question < kQuestions; ++question) {
    ASSIGN_OR_RETURN(const Bytes asked, mesh.receive(peer, deadline));
    RETURN_IF_ERROR(mesh.send(peer, ByteWriter().i64(monotonic_ns()).take(), deadline));
  }
  return {};
}

}  // namespace

Result<ClockOffset> measure_clock(Bootstrap& mesh, Rank rank, Deadline deadline) {
  const std::vector<PeerIdentity>& peers = mesh.peers();
  const Rank node = peers[0].node;
  if (rank != 0) return peers[static_cast<size_t>(rank)].node == node ? ClockOffset() : ask_first_rank(mesh, deadline);
  for (const PeerIdentity& peer : peers) {
    if (peer.node != node) RETURN_IF_ERROR(answer(mesh, peer.rank, deadline));
  }
  return ClockOffset();
}

}  // namespace gimbal
