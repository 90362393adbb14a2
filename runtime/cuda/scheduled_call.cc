#include "runtime/cuda/scheduled_call.h"

#include <algorithm>
#include <vector>

#include "collectives/algorithm.h"
#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

// Those that move the fewest bytes: what is small and an all-reduce has kernels of its own.
std::string_view algorithm_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return "ring";
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return "all_pairs";
    case Collective::kBroadcast:
    case Collective::kReduce:
      return "chain";
    case Collective::kGather:
    case Collective::kScatter:
      return "linear";
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return "";
  }
  return "";
}

}  // namespace

// The kernels have returned: the communicator is at its end.
DevicePlans::~DevicePlans() {
  for (void* const allocation : allocations_) cuda_.free(allocation);
}

std::optional<std::string_view> DevicePlans::algorithm_for(const Call& call) const {
  const std::string_view algorithm = algorithm_of(call.collective);
  if (algorithm.empty() || call.weighted || call.count == 0 || setup_.most_blocks() < NativeSetup::kChannels) {
    return std::nullopt;
  }
  return algorithm;
}

PlanKey DevicePlans::key_of(const Call& call, std::string_view algorithm) const {
  PlanKey key;
  key.collective = call.collective;
  key.algorithm = algorithm;
  key.count = call.count;
  key.dtype = call.dtype;
  key.op = call.op;
  key.root = call.root;
  key.channels = NativeSetup::kChannels;
  return key;
}

const DevicePlan* DevicePlans::find(const Call& call, std::string_view algorithm) {
  const PlanKey key = key_of(call, algorithm);
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const DevicePlan& plan) { return plan.key == key; });
  if (found == plans_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, found);  // what is used last is found first
  return &plans_.front();
}

Result<Plan> DevicePlans::build(const Call& call, const PlanKey& key) const {
  const LinkLayout& links = setup_.links();
  const Algorithm& algorithm = *find_algorithm(schedule_collective(call.collective), key.algorithm);
  CollectiveSpec spec;
  spec.collective = algorithm.collective;
  spec.nranks = links.nranks;
  spec.root = std::max(call.root, 0);
  spec.channels = key.channels;
  if (const std::string reason = admits(algorithm, spec); !reason.empty()) return Status(Code::kUnsupported, reason);
  PlanOptions options;
  options.layout.collective = call.collective;
  options.layout.nranks = links.nranks;
  options.layout.rank = setup_.arguments().rank;
  options.layout.root = spec.root;
  options.layout.count = call.count;
  options.dtype = call.dtype;
  options.op = call.op;
  options.slice_bytes = links.slot_bytes;
  options.window = 1 + (links.slot_count - 1) / algorithm.window_runs;
  return make_plan(build_schedule(algorithm, spec, options.layout.rank, Fusion::kFused), options);
}

Result<std::byte*> DevicePlans::allocate(size_t bytes) {
  ASSIGN_OR_RETURN(void* const allocated, cuda_.allocate(bytes));
  allocations_.push_back(allocated);
  return static_cast<std::byte*>(allocated);
}

Result<const DevicePlan*> DevicePlans::make(const Call& call, std::string_view algorithm) {
  DevicePlan made;
  made.key = key_of(call, algorithm);
  ASSIGN_OR_RETURN(made.plan, build(call, made.key));
  std::vector<PlanStep> steps;
  std::vector<device::PlanRun> runs;
  for (const auto& channel : made.plan.steps) {
    for (const std::vector<PlanStep>& list : channel) {
      runs.push_back({static_cast<uint32_t>(steps.size()), static_cast<uint32_t>(list.size())});
      steps.insert(steps.end(), list.begin(), list.end());
    }
  }
  made.plan.steps.clear();
  const size_t steps_bytes = steps.size() * sizeof(PlanStep);
  const size_t runs_bytes = runs.size() * sizeof(device::PlanRun);
  ASSIGN_OR_RETURN(std::byte* const memory, allocate(steps_bytes + runs_bytes));
  RETURN_IF_ERROR(setup_.upload(memory, steps.data(), steps_bytes));
  RETURN_IF_ERROR(setup_.upload(memory + steps_bytes, runs.data(), runs_bytes));
  made.steps = reinterpret_cast<const PlanStep*>(memory);
  made.runs = reinterpret_cast<const device::PlanRun*>(memory + steps_bytes);
  if (made.plan.scratch_bytes > scratch_bytes_) {
    ASSIGN_OR_RETURN(scratch_, allocate(made.plan.scratch_bytes));
    scratch_bytes_ = made.plan.scratch_bytes;
  }
  plans_.push_front(std::move(made));
  return &plans_.front();
}

Status ScheduledCall::launch() {
  const Plan& plan = plan_.plan;
  const bool adds = plan.reduce != nullptr;
  device::InterpreterArguments arguments = {};
  arguments.steps = plan_.steps;
  arguments.runs = plan_.runs;
  arguments.outgoing = setup().outgoing_links();
  arguments.incoming = setup().incoming_links();
  // The kernel only reads the first.
  arguments.buffers = {static_cast<std::byte*>(const_cast<void*>(call().send)), static_cast<std::byte*>(call().recv), scratch_};
  arguments.form_bytes = plan.form_bytes;
  arguments.slice_elements = plan.slice_elements;
  arguments.segment_elements = plan.segment_elements;
  arguments.segments = plan.segments;
  arguments.channels = plan.channels;
  arguments.tag = tag();
  arguments.protocol = device::Protocol::kSimple;
  arguments.weight = 1;
  arguments.divisor = plan.divisor;
  arguments.op = adds ? call().op : ReduceOp::kSum;
  arguments.watch = setup().arguments().watch;
  return linked_device_kernels()->interpret(adds ? call().dtype : DType::kUint8, arguments, DeviceKernels::kMaxThreads,
                                            call().stream);
}

}  // namespace gimbal
