// Bruck's all-gather: the number of blocks that a rank holds doubles at every hop, for any number of ranks. Blocks are placed
// by their number at once, so that the rotation at the end of the textbook's version is not needed.
#include <algorithm>

#include "collectives/algorithms.h"
#include "collectives/builder.h"

namespace gimbal {
namespace {

// Calls body(run) for the one or two runs of blocks first, first + 1, ... (count of them, around the end).
template <typename Body>
void for_each_run(Rank first, Rank count, Rank nranks, const Body& body) {
  const Rank before_end = std::min(count, nranks - first);
  body(Units{static_cast<uint32_t>(first), static_cast<uint32_t>(before_end)});
  if (count > before_end) body(Units{0, static_cast<uint32_t>(count - before_end)});
}

}  // namespace

// 4 ranks, blocks on their way (rank r holds r, r+1, ... around the end):
//   hop 1   1→0: 1     2→1: 2     3→2: 3     0→3: 0
//   hop 2   2→0: 23    3→1: 30    0→2: 01    1→3: 12
Schedule bruck_all_gather(const CollectiveSpec& spec, Rank rank) {
  const Rank n = spec.nranks;
  return build_lanes(spec, static_cast<uint32_t>(n), [&](ScheduleBuilder& builder) {
    builder.copy(unit(rank), BufferId::kInput, BufferId::kOutput);
    for (Rank held = 1; held < n; held *= 2) {
      const Rank count = std::min(held, n - held);
      const Rank to = (rank - held + n) % n;
      const Rank from = (rank + held) % n;
      for_each_run(rank, count, n, [&](Units run) { builder.send(to, run, BufferId::kOutput); });
      for_each_run(from, count, n, [&](Units run) { builder.recv(from, run, Payload::kFinal, BufferId::kOutput); });
    }
  });
}

}  // namespace gimbal
