#include "collectives/node_phases.h"

#include "collectives/rank_order_sum.h"

namespace gimbal {

NodePlace::NodePlace(const CollectiveSpec& spec, const NodeShape& shape, Rank rank, uint32_t units_per_slice)
    : shape_(&shape),
      has_blocks_(gimbal::has_blocks(spec.collective)),
      node_(shape.node_of(rank)),
      local_(shape.local_rank(rank)),
      units_(units_per_slice),
      turns_((shape.slices() + size() - 1) / size()),
      rounds_(has_blocks_ ? turns_ * shape.nodes() : turns_) {}

std::optional<Units> NodePlace::part(Rank round, Rank local) const {
  const Rank slice = round % turns_ * size() + local;
  if (!has_blocks_) return slice < shape_->slices() ? std::optional(units_of_slice(slice)) : std::nullopt;
  // From the own node on, so that equal nodes do the same but for a turn.
  const std::span<const Rank> members = shape_->members((node_ + round / turns_) % shape_->nodes());
  return static_cast<size_t>(slice) < members.size() ? std::optional(unit(members[static_cast<size_t>(slice)])) : std::nullopt;
}

// All send everybody's part of one round before anybody's of the next, as it is received: with a short window a member would
// else wait for one that waits for it.
void add_in_node(ScheduleBuilder& builder, const NodePlace& place, BufferId dst) {
  for (Rank round = 0; round < place.rounds(); ++round) {
    for (Rank i = 1; i < place.size(); ++i) {
      const Rank to = (place.local() + i) % place.size();
      if (const auto units = place.part(round, to)) builder.send(place.member(to), *units, BufferId::kInput);
    }
  }
  const auto peer = [&](Rank source) { return place.member(source); };
  place.for_each_part(place.local(),
                      [&](Units units) { add_in_rank_order(builder, place.size(), place.local(), peer, units, dst); });
}

void add_in_node_by_halving(ScheduleBuilder& builder, const NodePlace& place, BufferId dst) {
  for (Rank distance = 1; distance < place.size(); distance *= 2) {
    const Rank peer = place.local() ^ distance;
    const Rank low_bits = 2 * distance - 1;
    const BufferId src = distance == 1 ? BufferId::kInput : BufferId::kScratch;
    const Payload payload = distance == 1 ? Payload::kRaw : Payload::kPartial;
    const BufferId sum = 2 * distance == place.size() ? dst : BufferId::kScratch;
    for (Rank local = peer & low_bits; local < place.size(); local += 2 * distance) {
      place.for_each_part(local, [&](Units units) { builder.send(place.member(peer), units, src); });
    }
    for (Rank local = place.local() & low_bits; local < place.size(); local += 2 * distance) {
      place.for_each_part(local, [&](Units units) { builder.recv_reduce(place.member(peer), units, payload, src, sum); });
    }
  }
}

void spread_in_node(ScheduleBuilder& builder, const NodePlace& place, Rank except) {
  const Rank self = place.member(place.local());
  for (Rank i = 1; i < place.size(); ++i) {
    const Rank to = (place.local() + i) % place.size();
    const Rank from = (place.local() - i + place.size()) % place.size();
    place.for_each_part(place.local(), [&](Units units) {
      if (place.member(to) == except) return;
      const bool is_own_block = place.has_blocks() && units.first == static_cast<uint32_t>(self);
      builder.send(place.member(to), units, is_own_block || self == except ? BufferId::kInput : BufferId::kOutput);
    });
    place.for_each_part(from, [&](Units units) {
      if (self != except) builder.recv(place.member(from), units, Payload::kFinal, BufferId::kOutput);
    });
  }
}

Stage on_rails(const NodePlace& place, const Stage& between) {
  return {between.lag + 1, [place, between](ScheduleBuilder& builder) {
            place.for_each_slice([&](Rank slice) {
              builder.enter_rail({&place.shape(), slice, place.units_of_slice(slice).first}, place.node());
              between.record(builder);
              builder.leave_rail();
            });
          }};
}

}  // namespace gimbal
