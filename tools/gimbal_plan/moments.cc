#include "tools/gimbal_plan/moments.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "collectives/chunk_space.h"
#include "collectives/cursors.h"

namespace gimbal {
namespace {

// What one buffer of a rank holds of a chunk: inputs added up; 0: nothing.
using Inputs = uint16_t;

struct RankView {
  std::vector<Inputs> input;
  std::vector<Inputs> scratch;
  std::vector<Inputs> output;
  std::vector<ChannelCursors> channels;
};

struct Message {
  size_t moment;
  std::vector<Inputs> inputs;
};

class Walker {
 public:
  Walker(const CollectiveSpec& spec, std::span<const Schedule> schedules) : schedules_(schedules) {
    const uint32_t chunks = schedules[0].chunk_count;
    const ChunkSpace space(spec, chunks);
    for (Rank rank = 0; rank < spec.nranks; ++rank) {
      RankView view;
      view.scratch.resize(chunks);
      view.output.resize(chunks);
      for (uint32_t c = 0; c < chunks; ++c) view.input.push_back(space.in_input(rank, c) ? 1 : 0);
      const Schedule& schedule = schedules[static_cast<size_t>(rank)];
      for (uint8_t channel = 0; channel < schedule.channels; ++channel) view.channels.emplace_back(schedule.steps, channel);
      ranks_.push_back(std::move(view));
    }
  }

  Result<std::vector<Moment>> walk() {
    std::vector<Moment> moments = {Moment{states(), {}}};
    const uint64_t cells_each = ranks_.size() * schedules_[0].chunk_count;
    while (!is_done()) {
      if ((moments.size() + 1) * cells_each > kMostCells) {
        return Status(Code::kUnsupported, "a drawing of more than " + std::to_string(kMostCells) +
                                              " cells (moments x ranks x chunks) shows nothing; ask for fewer ranks or pieces");
      }
      now_ = moments.size();
      Moment moment;
      bool moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) moved |= advance(rank, moment);
      if (!moved) return Status(Code::kInternal, "the schedules wait for each other for ever; verify tells why");
      moment.chunks = states();
      moments.push_back(std::move(moment));
    }
    return moments;
  }

 private:
  [[nodiscard]] bool is_done() const {
    for (const RankView& view : ranks_) {
      for (const ChannelCursors& cursors : view.channels) {
        if (!cursors.at_end(ChannelCursors::kOthers) || !cursors.at_end(ChannelCursors::kSends)) return false;
      }
    }
    return true;
  }

  bool advance(size_t rank, Moment& moment) {
    bool moved = false;
    for (ChannelCursors& cursors : ranks_[rank].channels) {
      // Judged before either moves: what completes now is there at the next moment.
      std::array<bool, 2> may_move = {};
      for (const size_t cursor : ChannelCursors::kBoth) {
        may_move[cursor] = !cursors.at_end(cursor) && cursors.may_begin(cursor) && is_there(rank, cursors.step(cursor));
      }
      for (const size_t cursor : ChannelCursors::kBoth) {
        if (!may_move[cursor]) continue;
        take(rank, cursors.step(cursor), moment);
        cursors.complete(cursor);
        moved = true;
      }
    }
    return moved;
  }

  std::deque<Message>& queue(Rank from, Rank to, uint8_t channel) { return queues_[{from, to, channel}]; }

  // Whether the message of a receive left at an earlier moment.
  bool is_there(size_t rank, const Step& step) {
    if (receives_from(step) == kNoRank) return true;
    const std::deque<Message>& messages = queue(step.peer, static_cast<Rank>(rank), step.channel);
    return !messages.empty() && messages.front().moment < now_;
  }

  void take(size_t rank, const Step& step, Moment& moment) {
    RankView& view = ranks_[rank];
    std::vector<Inputs> values(step.count);
    if (receives_from(step) != kNoRank) {
      std::deque<Message>& messages = queue(step.peer, static_cast<Rank>(rank), step.channel);
      values = std::move(messages.front().inputs);
      messages.pop_front();
    }
    for (uint32_t i = 0; i < step.count; ++i) {
      const uint32_t chunk = step.chunk + i;
      if (step.src == BufferId::kInput) values[i] += view.input[chunk];
      if (step.src == BufferId::kScratch || step.op == Op::kReduce) values[i] += view.scratch[chunk];
      if (step.src == BufferId::kOutput) values[i] += view.output[chunk];
      if (step.dst == BufferId::kScratch) view.scratch[chunk] = values[i];
      if (step.dst == BufferId::kOutput) view.output[chunk] = values[i];
    }
    if (sends_to(step) == kNoRank) return;
    moment.messages.push_back({static_cast<Rank>(rank), sends_to(step), step.sent, step.chunk, step.count});
    queue(static_cast<Rank>(rank), sends_to(step), step.channel).push_back({now_, std::move(values)});
  }

  [[nodiscard]] std::vector<std::vector<ChunkState>> states() const {
    std::vector<std::vector<ChunkState>> result;
    for (const RankView& view : ranks_) {
      std::vector<ChunkState> chunks;
      for (size_t c = 0; c < view.input.size(); ++c) {
        const bool is_final = view.output[c] > 0;
        chunks.push_back({is_final ? view.output[c] : std::max(view.input[c], view.scratch[c]), is_final});
      }
      result.push_back(std::move(chunks));
    }
    return result;
  }

  std::span<const Schedule> schedules_;
  std::vector<RankView> ranks_;
  std::map<std::tuple<Rank, Rank, uint8_t>, std::deque<Message>> queues_;
  size_t now_ = 0;
};

}  // namespace

Result<std::vector<Moment>> moments_of(const CollectiveSpec& spec, std::span<const Schedule> schedules) {
  const uint64_t cells = uint64_t{static_cast<uint32_t>(spec.nranks)} * schedules[0].chunk_count;
  if (cells > kMostCells) {
    return Status(Code::kUnsupported, "a drawing of " + std::to_string(spec.nranks) + " ranks with " +
                                          std::to_string(schedules[0].chunk_count) + " chunks shows nothing; ask for fewer");
  }
  return Walker(spec, schedules).walk();
}

}  // namespace gimbal
