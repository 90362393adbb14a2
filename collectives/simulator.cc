#include "collectives/simulator.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "collectives/cursors.h"
#include "collectives/printer.h"

namespace gimbal {
namespace {

struct Arrival {
  double first_us;  // the first slice is there
  double last_us;
};

// One channel of a directed link.
struct Lane {
  double free_us = 0;
  std::deque<Arrival> arrivals;
};

struct Link {
  LinkCost cost;
  uint64_t bytes = 0;
  uint64_t messages = 0;
  std::vector<Lane> lanes;  // per channel
};

struct RankState {
  Schedule schedule;
  std::vector<double> done_us;  // per step
  std::vector<ChannelCursors> channels;
};

class Simulator {
 public:
  Simulator(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion, const SimulationInput& input)
      : algorithm_(algorithm),
        spec_(spec),
        fusion_(fusion),
        input_(input),
        ranks_(static_cast<size_t>(spec.nranks)),
        is_done_(static_cast<size_t>(spec.nranks)),
        is_queued_(static_cast<size_t>(spec.nranks)) {}

  Result<Simulation> run() {
    // Ranks that a message reaches come first, so that they are done and dropped before new ones are built.
    for (Rank rank = 0; rank < spec_.nranks; ++rank) {
      wake(rank);
      while (!ready_.empty()) {
        const Rank next = ready_.front();
        ready_.pop_front();
        is_queued_[static_cast<size_t>(next)] = false;
        advance(next);
      }
    }
    for (const auto& state : ranks_) {
      if (state != nullptr) return stuck(*state);
    }
    return result();
  }

 private:
  void wake(Rank rank) {
    const auto index = static_cast<size_t>(rank);
    if (is_done_[index] || is_queued_[index]) return;
    is_queued_[index] = true;
    ready_.push_back(rank);
  }

  void start(Rank rank) {
    auto state = std::make_unique<RankState>();
    state->schedule = build_schedule(algorithm_, spec_, rank, fusion_);
    state->done_us.resize(state->schedule.steps.size());
    for (uint8_t channel = 0; channel < spec_.channels; ++channel) state->channels.emplace_back(state->schedule.steps, channel);
    ranks_[static_cast<size_t>(rank)] = std::move(state);
  }

  Link& link(Rank from, Rank to) {
    const uint64_t key = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
    const auto [found, is_new] = links_.try_emplace(key);
    if (is_new) {
      found->second.cost = input_.link(from, to);
      found->second.lanes.resize(spec_.channels);
    }
    return found->second;
  }

  // Goes on with a rank as far as the messages that are there allow.
  void advance(Rank rank) {
    std::unique_ptr<RankState>& state = ranks_[static_cast<size_t>(rank)];
    if (state == nullptr) start(rank);
    bool done = true;
    for (ChannelCursors& cursors : state->channels) {
      for (bool moved = true; moved;) {
        moved = false;
        for (const size_t cursor : ChannelCursors::kBoth) {
          while (!cursors.at_end(cursor) && cursors.may_begin(cursor) && has_message(rank, cursors.step(cursor))) {
            time_step(rank, *state, cursors, cursor);
            cursors.complete(cursor);
            moved = true;
          }
        }
      }
      for (const size_t cursor : ChannelCursors::kBoth) done = done && cursors.at_end(cursor);
    }
    if (!done) return;
    is_done_[static_cast<size_t>(rank)] = true;
    state.reset();
  }

  bool has_message(Rank rank, const Step& step) {
    return receives_from(step) == kNoRank || !link(step.peer, rank).lanes[step.channel].arrivals.empty();
  }

  [[nodiscard]] double bytes_of(const Step& step, Payload payload) const {
    size_t bytes = 0;
    for (uint32_t c = step.chunk; c < step.chunk + step.count; ++c) bytes += input_.chunk_bytes(c);
    return static_cast<double>(bytes) * (payload == Payload::kPartial ? input_.partial_ratio : 1);
  }

  void time_step(Rank rank, RankState& state, const ChannelCursors& cursors, size_t cursor) {
    const Step& step = cursors.step(cursor);
    double begin =
        cursors.last_completed(cursor) == kNoStep ? 0 : state.done_us[static_cast<size_t>(cursors.last_completed(cursor))];
    if (step.after != kNoStep) begin = std::max(begin, state.done_us[static_cast<size_t>(step.after)]);
    Arrival arrival = {begin, begin};
    if (receives_from(step) != kNoRank) {
      Link& from = link(step.peer, rank);
      std::deque<Arrival>& arrivals = from.lanes[step.channel].arrivals;
      arrival = {std::max(begin, arrivals.front().first_us) + from.cost.overhead_us,
                 std::max(begin, arrivals.front().last_us) + from.cost.overhead_us};
      arrivals.pop_front();
    }
    const double end = sends_to(step) == kNoRank ? arrival.last_us : send(rank, step, arrival);
    state.done_us[cursors.index(cursor)] = end;
    time_us_ = std::max(time_us_, end);
  }

  // Puts the step's message on its way, its bytes being there from `available`. Returns when the last has left.
  double send(Rank rank, const Step& step, const Arrival& available) {
    Link& to = link(rank, sends_to(step));
    Lane& lane = to.lanes[step.channel];
    const double bytes = bytes_of(step, step.sent);
    const double bytes_per_us = to.cost.bandwidth_gbps * 1e3 / spec_.channels;
    const double slice_us = std::min(bytes, static_cast<double>(input_.slice_bytes)) / bytes_per_us;
    const double start = std::max(available.first_us, lane.free_us) + to.cost.overhead_us;
    const double end = std::max(start + bytes / bytes_per_us, available.last_us + to.cost.overhead_us + slice_us);
    lane.free_us = end;
    lane.arrivals.push_back({start + slice_us + to.cost.latency_us, end + to.cost.latency_us});
    to.bytes += static_cast<uint64_t>(bytes);
    ++to.messages;
    wake(sends_to(step));
    return end;
  }

  [[nodiscard]] Status stuck(const RankState& state) const {
    for (const ChannelCursors& cursors : state.channels) {
      for (const size_t cursor : ChannelCursors::kBoth) {
        if (cursors.at_end(cursor)) continue;
        return {Code::kInternal, std::string(algorithm_.name) + " over " + std::to_string(spec_.nranks) + " ranks: step " +
                                     std::to_string(cursors.index(cursor)) + " (" + describe(cursors.step(cursor)) +
                                     ") waits for ever; verify() tells why"};
      }
    }
    return {};
  }

  [[nodiscard]] Simulation result() const {
    Simulation simulation;
    simulation.time_us = time_us_;
    for (const auto& [key, link] : links_) {
      simulation.links.push_back(
          {static_cast<Rank>(key >> 32), static_cast<Rank>(key & 0xffffffff), link.bytes, link.messages});
    }
    std::sort(simulation.links.begin(), simulation.links.end(),
              [](const LinkLoad& a, const LinkLoad& b) { return a.from != b.from ? a.from < b.from : a.to < b.to; });
    return simulation;
  }

  const Algorithm& algorithm_;
  CollectiveSpec spec_;
  Fusion fusion_;
  const SimulationInput& input_;
  std::vector<std::unique_ptr<RankState>> ranks_;  // null before the start and after the end
  std::vector<bool> is_done_;
  std::vector<bool> is_queued_;
  std::deque<Rank> ready_;
  std::unordered_map<uint64_t, Link> links_;
  double time_us_ = 0;
};

}  // namespace

Result<Simulation> simulate(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion,
                            const SimulationInput& input) {
  if (std::string why = admits(algorithm, spec); !why.empty()) return Status(Code::kUnsupported, std::move(why));
  return Simulator(algorithm, spec, fusion, input).run();
}

}  // namespace gimbal
