#include "collectives/cost.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/accesses.h"
#include "collectives/chunk_space.h"
#include "collectives/direct_steps.h"
#include "collectives/node_shape.h"
#include "collectives/simulator.h"

namespace gimbal {
namespace {

constexpr double kBytesPerUs = 1e3;  // of one GB/s

bool is_shared_memory(LinkClass link_class) {
  return link_class == LinkClass::kCache || link_class == LinkClass::kNuma || link_class == LinkClass::kSocket;
}

// The steps of one way with their bytes.
struct Workload {
  const Algorithm* algorithm = nullptr;
  std::unique_ptr<NodeShape> nodes;  // borrowed by spec
  CollectiveSpec spec;
  Fusion fusion = Fusion::kFused;
  bool pulled = false;       // direct: a chunk is staged once, for all that read it, and added in one pass over all operands
  double chunk_bytes = 0;    // as elements
  double partial_ratio = 1;  // bytes of a partial per byte of an element
  double slice_bytes = 0;    // of one message on a link
  double cached_share = 1;   // of the bytes touched, what the last-level cache holds

  [[nodiscard]] double bytes(const Step& step, Payload payload) const {
    return step.count * chunk_bytes * (payload == Payload::kPartial && !pulled ? partial_ratio : 1);
  }
};

// A mixture of what is found in the cache and what is not.
double rate(double cached_gbps, double memory_gbps, double cached_share) {
  return 1 / (cached_share / cached_gbps + (1 - cached_share) / memory_gbps);
}

// What the CPU of one rank does for its steps.
class RankWork {
 public:
  RankWork(const CostInputs& inputs, const Workload& work, Rank rank)
      : inputs_(inputs),
        work_(work),
        rank_(rank),
        copy_gbps_(rate(inputs.memory.cached_copy_gbps, inputs.memory.copy_gbps, work.cached_share)),
        reduce_gbps_(rate(inputs.memory.cached_reduce_gbps, inputs.memory.reduce_gbps, work.cached_share)) {}

  void add(const Step& step) {
    switch (step.op) {
      case Op::kSend:
        return add_send(step, step.sent);
      case Op::kRecv:
        return add_receive(step, work_.pulled && step.payload == Payload::kRaw ? reduce_gbps_ : copy_gbps_);
      case Op::kRecvReduce:
        return add_receive(step, reduce_gbps_);
      case Op::kRecvSend:
        add_receive(step, copy_gbps_);
        return add_send(step, step.sent);
      case Op::kRecvReduceSend:
        add_receive(step, reduce_gbps_);
        return add_send(step, step.sent);
      case Op::kCopy:
        return move(work_.bytes(step, Payload::kFinal), copy_gbps_);
      case Op::kReduce:
        // In one pass the own operand comes with the first that is read.
        if (!work_.pulled) move(work_.bytes(step, Payload::kFinal), reduce_gbps_);
        return;
    }
  }

  [[nodiscard]] double time_us() const { return time_us_; }
  [[nodiscard]] double bytes() const { return bytes_; }

 private:
  void move(double bytes, double gbps) {
    time_us_ += bytes / (gbps * kBytesPerUs);
    bytes_ += bytes;
  }

  // The simulation charges a message once; a longer one is several slices, each with its flag.
  void add_slices(double bytes, const LinkCost& link) {
    time_us_ += std::max(0.0, bytes / work_.slice_bytes - 1) * link.overhead_us;
  }

  void add_send(const Step& step, Payload sent) {
    const Rank to = sends_to(step);
    if (!is_shared_memory(link_class(inputs_, rank_, to))) return;
    if (work_.pulled && !staged_.insert(step.chunk).second) return;
    const double bytes = work_.bytes(step, sent);
    move(bytes, copy_gbps_);
    add_slices(bytes, link_cost(inputs_, rank_, to));
  }

  void add_receive(const Step& step, double gbps) {
    const double bytes = work_.bytes(step, step.payload);
    const bool adds = step.op == Op::kRecvReduce || step.op == Op::kRecvReduceSend;
    const LinkCost& link = link_cost(inputs_, step.peer, rank_);
    if (is_shared_memory(link_class(inputs_, step.peer, rank_))) {
      move(bytes, std::min(gbps, link.bandwidth_gbps));
      add_slices(bytes, link);
    } else if (adds) {
      move(bytes, gbps);
    }
  }

  const CostInputs& inputs_;
  const Workload& work_;
  const Rank rank_;
  const double copy_gbps_;
  const double reduce_gbps_;
  double time_us_ = 0;
  double bytes_ = 0;
  std::set<uint32_t> staged_;
};

// The longest of: one rank's work, the work of a machine's ranks on the CPUs they have, the bytes that its memory must carry.
double busiest_us(const CostInputs& inputs, const Workload& work) {
  struct MachineWork {
    double time_us = 0;
    double bytes = 0;
  };
  std::map<int32_t, MachineWork> machines;
  double busiest = 0;
  for (Rank rank = 0; rank < work.spec.nranks; ++rank) {
    RankWork own(inputs, work, rank);
    for (const Step& step : build_schedule(*work.algorithm, work.spec, rank, work.fusion).steps) own.add(step);
    busiest = std::max(busiest, own.time_us());
    MachineWork& machine = machines[node_of(inputs, rank)];
    machine.time_us += own.time_us();
    machine.bytes += own.bytes();
  }
  for (const auto& [node, machine] : machines) {
    if (inputs.cpus < inputs.ranks_per_node) busiest = std::max(busiest, machine.time_us / inputs.cpus);
    if (inputs.memory.total_gbps <= 0) continue;
    const double from_memory = machine.bytes * (1 - work.cached_share);
    busiest = std::max(busiest, from_memory / (inputs.memory.total_gbps * kBytesPerUs));
  }
  return busiest;
}

// The most that leaves by one rail.
double busiest_rail_us(const CostInputs& inputs, const Simulation& simulation) {
  std::map<std::pair<int32_t, int32_t>, double> bytes;  // by machine and rail
  for (const LinkLoad& load : simulation.links) {
    if (link_class(inputs, load.from, load.to) != LinkClass::kNetwork) continue;
    bytes[{node_of(inputs, load.from), rail_of(inputs, load.from)}] += static_cast<double>(load.bytes);
  }
  double most = 0;
  for (const auto& [rail, leaving] : bytes) most = std::max(most, leaving);
  return most / (inputs.links[static_cast<size_t>(LinkClass::kNetwork)].bandwidth_gbps * kBytesPerUs);
}

SimulationInput simulation_input(const CostInputs& inputs, const Workload& work) {
  SimulationInput input;
  const double turns = inputs.ranks_per_node / inputs.cpus;
  input.link = [&inputs, turns](Rank from, Rank to) {
    LinkCost cost = link_cost(inputs, from, to);
    if (!is_shared_memory(link_class(inputs, from, to))) return cost;
    constexpr double kUnbounded = 1e9;  // the CPUs' work counts
    cost.bandwidth_gbps = kUnbounded;
    if (turns > 1) cost.latency_us += inputs.handover_us * turns;
    return cost;
  };
  const auto chunk_bytes = static_cast<size_t>(work.chunk_bytes);
  input.chunk_bytes = [chunk_bytes](uint32_t) { return chunk_bytes; };
  input.partial_ratio = work.pulled ? 1 : work.partial_ratio;
  input.slice_bytes = static_cast<size_t>(work.slice_bytes);
  return input;
}

std::unique_ptr<NodeShape> shape_of(const CostInputs& inputs, Rank nranks) {
  std::vector<int32_t> nodes;
  nodes.reserve(static_cast<size_t>(nranks));
  for (Rank rank = 0; rank < nranks; ++rank) nodes.push_back(node_of(inputs, rank));
  return std::make_unique<NodeShape>(nodes);
}

Result<Workload> workload_of(const Way& way, Collective collective, const CostInputs& inputs, Rank nranks, size_t bytes) {
  Workload work;
  work.pulled = way.algorithm == kDirectAlgorithm;
  const std::string subject = describe(way) + " for " + std::string(collective_name(collective));
  if (work.pulled && !direct_serves(collective, way.protocol, bytes)) {
    return Status(Code::kUnsupported, subject + " does not exist for " + std::to_string(bytes) + " bytes");
  }
  work.algorithm = work.pulled ? direct_steps(collective, way.protocol) : find_algorithm(collective, way.algorithm);
  if (work.algorithm == nullptr) return Status(Code::kUnsupported, subject + " does not exist");
  work.nodes = shape_of(inputs, nranks);
  work.spec = {.collective = work.algorithm->collective, .nranks = nranks, .channels = way.channels, .nodes = work.nodes.get()};
  if (std::string why = admits(*work.algorithm, work.spec); !why.empty()) return Status(Code::kUnsupported, std::move(why));
  const Schedule first = build_schedule(*work.algorithm, work.spec, 0, work.fusion);
  if (first.steps.size() * static_cast<size_t>(nranks) > CostModel::kMostSteps) {
    return Status(Code::kUnsupported,
                  subject + " over " + std::to_string(nranks) + " ranks has too many steps to be simulated");
  }
  const uint32_t blocks = block_count(collective, nranks);
  const double vector_bytes = static_cast<double>(bytes) * (blocks > 1 ? blocks : 1);
  work.chunk_bytes = vector_bytes / first.chunk_count;
  constexpr double kDefaultSlice = 32 << 10;
  work.slice_bytes = way.chunk_bytes > 0 ? static_cast<double>(way.chunk_bytes) : kDefaultSlice;
  return work;
}

}  // namespace

Result<Cost> CostModel::cost(const Way& way, Collective collective, size_t bytes, DType dtype) const {
  ASSIGN_OR_RETURN(Workload work, workload_of(way, schedule_collective(collective), inputs_, nranks_, bytes));
  if (reduces(collective)) {
    work.partial_ratio =
        static_cast<double>(dtype_size(accumulator_type(dtype, ReduceOp::kSum))) / static_cast<double>(dtype_size(dtype));
  }
  // Input and output of all ranks of a machine.
  const double blocks = has_blocks(work.spec.collective) ? nranks_ : 1;
  const double touched = 2.0 * static_cast<double>(bytes) * blocks * inputs_.ranks_per_node;
  work.cached_share = std::min(1.0, static_cast<double>(inputs_.cache_bytes) / std::max(1.0, touched));
  ASSIGN_OR_RETURN(const Simulation simulation,
                   simulate(*work.algorithm, work.spec, work.fusion, simulation_input(inputs_, work)));
  return Cost{std::max(simulation.time_us, busiest_rail_us(inputs_, simulation)), busiest_us(inputs_, work)};
}

double bus_bandwidth_gbps(Collective collective, Rank nranks, size_t bytes, double time_us) {
  if (time_us <= 0) return 0;
  const double n = nranks;
  double moved = static_cast<double>(bytes);
  switch (collective) {
    case Collective::kAllReduce:
      moved *= 2 * (n - 1) / n;
      break;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      moved *= n - 1;  // n blocks, (n-1)/n of which travel
      break;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kBarrier:
      break;
  }
  return moved / (time_us * kBytesPerUs);
}

}  // namespace gimbal
