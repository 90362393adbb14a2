// Ring algorithms: every rank talks to its two neighbours only, and every link carries the same bytes at every hop.
#include "collectives/algorithms.h"
#include "collectives/builder.h"
#include "collectives/stages.h"

namespace gimbal {
namespace {

// Ranks in a circle, seen from one of them; odd channels turn the other way, so that both directions of a link are used.
class Ring {
 public:
  Ring(Rank nranks, Rank rank, uint8_t channel) : nranks_(nranks), rank_(rank), direction_(channel % 2 == 0 ? 1 : -1) {}

  // The rank `hops` further on; negative: back.
  [[nodiscard]] Rank at(Rank hops) const {
    const Rank moved = (rank_ + direction_ * (hops % nranks_)) % nranks_;
    return moved < 0 ? moved + nranks_ : moved;
  }
  [[nodiscard]] Rank next() const { return at(1); }
  [[nodiscard]] Rank prev() const { return at(-1); }

 private:
  Rank nranks_;
  Rank rank_;
  Rank direction_;
};

// Leaves the sum of block at(0) with its rank. 4 ranks, block after each hop (+ = added here):
//   hop 1   0→1: 3    1→2: 0    2→3: 1    3→0: 2
//   hop 2   0→1: 2+   1→2: 3+   2→3: 0+   3→0: 1+
//   hop 3   0→1: 1+   1→2: 2+   2→3: 3+   3→0: 0+
void add_around(ScheduleBuilder& builder, const Ring& ring, Rank nranks) {
  builder.send(ring.next(), unit(ring.at(-1)), BufferId::kInput);
  for (Rank hop = 1; hop < nranks; ++hop) {
    const Units block = unit(ring.at(-hop - 1));
    const bool last = hop == nranks - 1;
    builder.recv_reduce(ring.prev(), block, hop == 1 ? Payload::kRaw : Payload::kPartial, BufferId::kInput,
                        last ? BufferId::kOutput : BufferId::kScratch);
    if (!last) builder.send(ring.next(), block, BufferId::kScratch);
  }
}

// From block at(0) on each rank to all blocks on all. 4 ranks:
//   hop 1   0→1: 0   1→2: 1   2→3: 2   3→0: 3
//   hop 2   0→1: 3   1→2: 0   2→3: 1   3→0: 2
//   hop 3   0→1: 2   1→2: 3   2→3: 0   3→0: 1
void pass_around(ScheduleBuilder& builder, const Ring& ring, Rank nranks, BufferId own) {
  builder.send(ring.next(), unit(ring.at(0)), own);
  for (Rank hop = 1; hop < nranks; ++hop) {
    const Units block = unit(ring.at(-hop));
    builder.recv(ring.prev(), block, Payload::kFinal, BufferId::kOutput);
    if (hop < nranks - 1) builder.send(ring.next(), block, BufferId::kOutput);
  }
}

void add_and_pass(ScheduleBuilder& builder, Rank nranks, Rank rank) {
  const Ring ring(nranks, rank, builder.channel());
  add_around(builder, ring, nranks);
  pass_around(builder, ring, nranks, BufferId::kOutput);
}

}  // namespace

Schedule ring_all_reduce(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    add_and_pass(builder, spec.nranks, rank);
  });
}

std::vector<Stage> ring_all_reduce_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { add_and_pass(builder, nranks, rank); }}};
}

Schedule ring_reduce_scatter(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks == 1) return builder.copy(unit(0), BufferId::kInput, BufferId::kOutput);
    add_around(builder, Ring(spec.nranks, rank, builder.channel()), spec.nranks);
  });
}

Schedule ring_all_gather(const CollectiveSpec& spec, Rank rank) {
  return build_lanes(spec, static_cast<uint32_t>(spec.nranks), [&](ScheduleBuilder& builder) {
    if (spec.nranks > 1) pass_around(builder, Ring(spec.nranks, rank, builder.channel()), spec.nranks, BufferId::kInput);
    builder.copy(unit(rank), BufferId::kInput, BufferId::kOutput);
  });
}

std::vector<Stage> ring_reduce_scatter_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) { add_around(builder, Ring(nranks, rank, builder.channel()), nranks); }}};
}

std::vector<Stage> ring_all_gather_stages(Rank nranks, Rank rank) {
  return {{0, [=](ScheduleBuilder& builder) {
             pass_around(builder, Ring(nranks, rank, builder.channel()), nranks, BufferId::kInput);
           }}};
}

}  // namespace gimbal
