// Records the steps of one rank. Algorithms are written against this and nothing else.
//
// Authors think in *units*: the blocks of a collective that has them (block b belongs to rank b; see schedule.h), else the
// parts into which the algorithm cuts the full vector. The builder repeats the algorithm for every channel and piece and turns
// units into chunks, so that each lane (channel, piece) works on chunks of its own:
//
//   with blocks:  unit u of lane l is chunk u * lanes + l   (a block's chunks are neighbours)
//   without:      unit u of lane l is chunk l * units + u   (a lane's chunks are neighbours, so that runs stay whole)
//
// What is sent follows from where it lies: input is raw, scratch partial, output final; all is final where nothing is added.
//
// A rank that sends its own input and copies it to the output records the copy last: in place the copy is a write to what is
// sent, and recorded first it would hold up the send.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "collectives/chunk_space.h"
#include "collectives/node_shape.h"
#include "collectives/schedule.h"

namespace gimbal {

struct Units {
  uint32_t first;
  uint32_t count = 1;
};

// The carriers of one slice (node_shape.h), which run an algorithm of their own between the nodes: what it calls rank i is the
// carrier on node i, its unit u is unit first_unit + u (with blocks: that of node u's member number `slice`; nothing is
// recorded where there is none), and its input is what the node has added up, a partial in kScratch, unless the node has one
// rank only.
struct SliceRail {
  const NodeShape* nodes;
  Rank slice;
  uint32_t first_unit = 0;
};

inline Units unit(Rank index) { return {static_cast<uint32_t>(index)}; }

class ScheduleBuilder {
 public:
  // `units` per lane; for a collective with blocks it must be their number.
  ScheduleBuilder(const CollectiveSpec& spec, uint32_t units);

  // Steps recorded from here on belong to this lane. Steps of one channel keep the order of recording.
  void enter(uint8_t channel, uint32_t piece);
  [[nodiscard]] uint8_t channel() const { return channel_; }

  // Until left, peers, units and inputs are those of the rail, as `rank`'s algorithm on it names them.
  void enter_rail(const SliceRail& rail, Rank rank);
  void leave_rail() { rail_.nodes = nullptr; }
  // Whether the input is a sum of several ranks', so that scratch is in use from the start.
  [[nodiscard]] bool input_is_sum() const { return input_is_sum(rail_rank_); }

  void send(Rank peer, Units units, BufferId src);
  void recv(Rank peer, Units units, Payload payload, BufferId dst);
  void recv_reduce(Rank peer, Units units, Payload payload, BufferId src, BufferId dst);
  void copy(Units units, BufferId src, BufferId dst);
  void reduce(Units units, BufferId dst);  // dst = scratch ⊕ input

  // The unlinked schedule: every `after` is kNoStep until link() sets it.
  [[nodiscard]] Schedule take() { return std::move(schedule_); }

 private:
  [[nodiscard]] bool input_is_sum(Rank rank) const {
    return reduces_ && rail_.nodes != nullptr && rail_.nodes->size_of(rank) > 1;
  }
  void add(Step step, Units units);
  void add_on_rail(Step step, Units units);
  void record(Step step, Units units);

  bool has_blocks_;
  bool reduces_;
  uint32_t lanes_;
  uint32_t pieces_;
  uint32_t units_;
  uint8_t channel_ = 0;
  uint32_t lane_ = 0;
  SliceRail rail_ = {nullptr, 0};
  Rank rail_rank_ = 0;
  Schedule schedule_;
};

// The usual algorithm: the same for every lane, one piece after the other.
template <typename Body>
Schedule build_lanes(const CollectiveSpec& spec, uint32_t units, const Body& body) {
  ScheduleBuilder builder(spec, units);
  for (uint8_t channel = 0; channel < spec.channels; ++channel) {
    for (uint32_t piece = 0; piece < spec.pieces; ++piece) {
      builder.enter(channel, piece);
      body(builder);
    }
  }
  return builder.take();
}

// A part of an algorithm, for one piece. `lag`: when it comes, counted in stages after the piece's first.
struct Stage {
  uint32_t lag;
  std::function<void(ScheduleBuilder&)> record;
};

// Pieces follow one another like waves: at each moment every stage is recorded for the piece whose turn it is, in the order of
// the list. A rank's stages must come after what they wait for, be it earlier in the list or with a smaller lag.
Schedule build_waves(const CollectiveSpec& spec, uint32_t units, const std::vector<Stage>& stages);

}  // namespace gimbal
