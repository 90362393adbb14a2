#include "collectives/simulator.h"

#include <algorithm>
#include <array>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include "collectives/cursors.h"
#include "collectives/printer.h"

namespace gimbal {
namespace {

constexpr double kBytesPerUs = 1e3;  // of one GB/s

double duration_us(double bytes, double gbps) { return gbps > 0 ? bytes / (gbps * kBytesPerUs) : 0; }

// When the first slice of a message is there, and the last.
struct Arrival {
  double first_us;
  double last_us;
};

class ArrivalQueue {
 public:
  void push(const Arrival& arrival) { arrivals_.push_back(arrival); }
  [[nodiscard]] bool empty() const { return first_ == arrivals_.size(); }
  [[nodiscard]] const Arrival& front() const { return arrivals_[first_]; }
  void pop() {
    if (++first_ < arrivals_.size()) return;
    arrivals_.clear();
    first_ = 0;
  }

 private:
  std::vector<Arrival> arrivals_;
  size_t first_ = 0;
};

// One channel of a directed link.
struct Lane {
  double free_us = 0;
  ArrivalQueue arrivals;
};

struct Link {
  LinkCost cost;
  Passage passage;
  uint64_t bytes = 0;
  uint64_t messages = 0;
  std::vector<Lane> lanes;  // per channel
};

// One channel of one rank.
struct Walk {
  explicit Walk(std::span<const Step> steps, uint8_t channel) : cursors(steps, channel) {}

  ChannelCursors cursors;
  std::array<double, 2> end_us = {0, 0};  // of the step under way on each cursor
  std::array<bool, 2> is_under_way = {false, false};
  bool awaits_message = false;  // one that is not on its way yet
  bool is_done = false;
};

struct RankState {
  Schedule schedule;
  std::vector<Walk> channels;
  size_t channels_done = 0;
};

struct Event {
  double time_us;
  uint32_t walk;  // channel * ranks + rank, so that a tie does not depend on how the ranks are turned

  bool operator>(const Event& other) const { return time_us != other.time_us ? time_us > other.time_us : walk > other.walk; }
};

class Simulator {
 public:
  Simulator(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion, const SimulationInput& input)
      : algorithm_(algorithm),
        spec_(spec),
        fusion_(fusion),
        input_(input),
        looked_at_(input.period > 0 ? input.period : spec.nranks),
        ranks_(static_cast<size_t>(looked_at_)),
        is_done_(static_cast<size_t>(looked_at_)),
        cpu_free_us_(static_cast<size_t>(looked_at_)),
        part_free_us_(input.part_gbps.size()) {}

  Result<Simulation> run() {
    const auto walks = static_cast<uint32_t>(looked_at_) * spec_.channels;
    for (uint32_t walk = 0; walk < walks; ++walk) events_.push({0, walk});
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      advance(event);
    }
    for (const auto& state : ranks_) {
      if (state != nullptr) return stuck(*state);
    }
    return result();
  }

 private:
  void start(Rank rank) {
    auto state = std::make_unique<RankState>();
    state->schedule = build_schedule(algorithm_, spec_, rank, fusion_);
    state->schedule.steps.shrink_to_fit();
    for (uint8_t channel = 0; channel < spec_.channels; ++channel) state->channels.emplace_back(state->schedule.steps, channel);
    if (bytes_before_.empty()) add_up_chunks(state->schedule.chunk_count);
    steps_ += state->schedule.steps.size();
    ranks_[static_cast<size_t>(rank)] = std::move(state);
  }

  void add_up_chunks(uint32_t chunk_count) {
    bytes_before_.assign(1, 0);
    for (uint32_t c = 0; c < chunk_count; ++c) bytes_before_.push_back(bytes_before_.back() + input_.chunk_bytes(c));
  }

  // With a period, a pair of ranks is the pair that is turned so that it ends at one of those that stand for all.
  Link& link(Rank from, Rank to) {
    if (to >= looked_at_) {
      const Rank turn = to - to % looked_at_;
      to -= turn;
      from = (from - turn + spec_.nranks) % spec_.nranks;
    }
    const uint64_t key = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
    const auto [found, is_new] = links_.try_emplace(key);
    if (is_new) {
      found->second.cost = input_.link(from, to);
      if (input_.passage) found->second.passage = input_.passage(from, to);
      found->second.lanes.resize(spec_.channels);
    }
    return found->second;
  }

  // What a rank can complete and begin on one channel at this moment.
  void advance(const Event& event) {
    const auto rank = static_cast<Rank>(event.walk % static_cast<uint32_t>(looked_at_));
    std::unique_ptr<RankState>& state = ranks_[static_cast<size_t>(rank)];
    if (is_done_[static_cast<size_t>(rank)]) return;
    if (state == nullptr) start(rank);
    Walk& walk = state->channels[event.walk / static_cast<uint32_t>(looked_at_)];
    walk.awaits_message = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (const size_t cursor : ChannelCursors::kBoth) moved |= advance_cursor(rank, walk, cursor, event);
    }
    for (const size_t cursor : ChannelCursors::kBoth) {
      if (!walk.cursors.at_end(cursor)) return;
    }
    if (std::exchange(walk.is_done, true) || ++state->channels_done < spec_.channels) return;
    is_done_[static_cast<size_t>(rank)] = true;
    state.reset();
  }

  bool advance_cursor(Rank rank, Walk& walk, size_t cursor, const Event& event) {
    bool moved = false;
    while (true) {
      if (walk.is_under_way[cursor]) {
        if (walk.end_us[cursor] > event.time_us) return moved;
        walk.is_under_way[cursor] = false;
        walk.cursors.complete(cursor);
        moved = true;
      }
      if (walk.cursors.at_end(cursor) || !walk.cursors.may_begin(cursor)) return moved;
      const Step& step = walk.cursors.step(cursor);
      if (!message_is_there(rank, step, walk, event)) return moved;
      walk.is_under_way[cursor] = true;
      walk.end_us[cursor] = time_step(rank, step, event.time_us);
      time_us_ = std::max(time_us_, walk.end_us[cursor]);
      if (walk.end_us[cursor] > event.time_us) events_.push({walk.end_us[cursor], event.walk});
    }
  }

  bool message_is_there(Rank rank, const Step& step, Walk& walk, const Event& event) {
    if (receives_from(step) == kNoRank) return true;
    const ArrivalQueue& arrivals = link(step.peer, rank).lanes[step.channel].arrivals;
    if (arrivals.empty()) {
      walk.awaits_message = true;
      return false;
    }
    if (arrivals.front().first_us <= event.time_us) return true;
    events_.push({arrivals.front().first_us, event.walk});
    return false;
  }

  [[nodiscard]] double bytes_of(const Step& step, Payload payload) const {
    const uint64_t bytes = bytes_before_[step.chunk + step.count] - bytes_before_[step.chunk];
    return static_cast<double>(bytes) * (payload == Payload::kPartial ? input_.partial_ratio : 1);
  }

  // The end of a step that begins now.
  double time_step(Rank rank, const Step& step, double begin) {
    Arrival there = {begin, begin};
    if (receives_from(step) != kNoRank) there = receive(rank, step, begin);
    if (step.op == Op::kCopy) there = work(rank, bytes_of(step, Payload::kFinal), input_.copy_gbps, there);
    if (step.op == Op::kReduce) there = work(rank, bytes_of(step, Payload::kFinal), input_.reduce_gbps, there);
    return sends_to(step) == kNoRank ? there.last_us : send(rank, step, there);
  }

  Arrival receive(Rank rank, const Step& step, double begin) {
    Link& from = link(step.peer, rank);
    ArrivalQueue& arrivals = from.lanes[step.channel].arrivals;
    const Arrival arrival = {std::max(begin, arrivals.front().first_us) + from.cost.overhead_us,
                             std::max(begin, arrivals.front().last_us) + from.cost.overhead_us};
    arrivals.pop();
    const bool adds = step.op == Op::kRecvReduce || step.op == Op::kRecvReduceSend;
    return work(rank, bytes_of(step, step.payload), adds ? from.passage.reduce_gbps : from.passage.copy_out_gbps, arrival);
  }

  // The CPU of a rank goes over bytes that come like this, slice by slice.
  Arrival work(Rank rank, double bytes, double gbps, const Arrival& there) {
    if (gbps <= 0) return there;
    double& free_us = cpu_free_us_[static_cast<size_t>(rank)];
    const double slice_us = duration_us(std::min(bytes, static_cast<double>(input_.slice_bytes)), gbps);
    const double start = std::max(there.first_us, free_us);
    free_us = start + duration_us(bytes, gbps);
    return {start + slice_us, std::max(free_us, there.last_us + slice_us)};
  }

  // Puts the step's message on its way, its bytes being there like this. Returns when the last has left.
  double send(Rank rank, const Step& step, const Arrival& there) {
    Link& to = link(rank, sends_to(step));
    Lane& lane = to.lanes[step.channel];
    const double bytes = bytes_of(step, step.sent);
    const Arrival available = work(rank, bytes, to.passage.copy_in_gbps, there);
    const double bytes_per_us = to.cost.bandwidth_gbps * kBytesPerUs / spec_.channels;
    const double slice_us = std::min(bytes, static_cast<double>(input_.slice_bytes)) / bytes_per_us;
    double start = std::max(available.first_us, lane.free_us) + to.cost.overhead_us;
    double end = std::max(start + bytes / bytes_per_us, available.last_us + to.cost.overhead_us + slice_us);
    for (const int32_t part : {sender_part(rank, step, to), to.passage.receiver_part}) {
      if (part == kNoPart) continue;
      double& free_us = part_free_us_[static_cast<size_t>(part)];
      start = std::max(start, free_us);
      free_us = start + duration_us(bytes, input_.part_gbps[static_cast<size_t>(part)]);
      end = std::max({end, free_us, start + bytes / bytes_per_us});
    }
    lane.free_us = end;
    lane.arrivals.push({start + slice_us + to.cost.latency_us, end + to.cost.latency_us});
    to.bytes += static_cast<uint64_t>(bytes);
    ++to.messages;
    wake(sends_to(step) % looked_at_, step.channel, lane.arrivals.front().first_us);
    return end;
  }

  // The link is one of those that end at a rank that stands for all; its sender may stand for nobody.
  [[nodiscard]] int32_t sender_part(Rank rank, const Step& step, const Link& to) const {
    if (input_.period == 0 || !input_.passage) return to.passage.sender_part;
    return input_.passage(rank, sends_to(step)).sender_part;
  }

  // The receiver finds the message by itself unless it has looked for it in vain.
  void wake(Rank rank, uint8_t channel, double time_us) {
    const RankState* state = ranks_[static_cast<size_t>(rank)].get();
    if (state == nullptr || !state->channels[channel].awaits_message) return;
    events_.push({time_us, static_cast<uint32_t>(channel) * static_cast<uint32_t>(looked_at_) + static_cast<uint32_t>(rank)});
  }

  [[nodiscard]] Status stuck(const RankState& state) const {
    for (const Walk& walk : state.channels) {
      for (const size_t cursor : ChannelCursors::kBoth) {
        if (walk.cursors.at_end(cursor)) continue;
        return {Code::kInternal, std::string(algorithm_.name) + " over " + std::to_string(spec_.nranks) + " ranks: step " +
                                     std::to_string(walk.cursors.index(cursor)) + " (" + describe(walk.cursors.step(cursor)) +
                                     ") waits for ever; verify() tells why"};
      }
    }
    return {};
  }

  [[nodiscard]] Simulation result() const {
    Simulation simulation;
    simulation.time_us = time_us_;
    simulation.steps = steps_;
    simulation.links.reserve(links_.size());
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
  Rank looked_at_;
  std::vector<std::unique_ptr<RankState>> ranks_;  // null before the start and after the end
  std::vector<bool> is_done_;
  std::vector<double> cpu_free_us_;
  std::vector<double> part_free_us_;
  std::vector<uint64_t> bytes_before_;  // of each chunk
  std::unordered_map<uint64_t, Link> links_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double time_us_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace

Result<Simulation> simulate(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion,
                            const SimulationInput& input) {
  if (std::string why = admits(algorithm, spec); !why.empty()) return Status(Code::kUnsupported, std::move(why));
  return Simulator(algorithm, spec, fusion, input).run();
}

}  // namespace gimbal
