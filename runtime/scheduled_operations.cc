#include "runtime/scheduled_operations.h"

#include "collectives/algorithm.h"
#include "collectives/chunk_space.h"
#include "transport/shm_endpoint.h"

namespace gimbal {
namespace {

constexpr size_t kCachedPlans = 64;
// Channels that run beside each other let one lane fill while another is reduced.
constexpr Channel kChannels = 2;

// A schedule under way: with weights, first everybody's weight is awaited.
class ScheduledOperation final : public Operation {
 public:
  ScheduledOperation(NodeContext& context, const Call& call, const Signature& signature, std::shared_ptr<const Plan> plan,
                     CpuExecutor& executor, const Binding& binding)
      : context_(context), call_(call), signature_(signature), plan_(std::move(plan)), executor_(executor), binding_(binding) {}

  Result<Progress> progress() override {
    if (!bound_) {
      ASSIGN_OR_RETURN(const bool ready, prepare());
      if (!ready) return Progress::kAgain;
    }
    Result<Progress> progress = executor_.progress();
    if (progress.ok() || progress.status().code() != Code::kMismatch) return progress;
    // The executor saw a foreign tag; what the peer called stands on its board.
    RETURN_IF_ERROR(compare_announcements(context_, signature_));
    return progress;
  }

  [[nodiscard]] uint64_t moves() const override { return bound_ ? executor_.slices() + 1 : 0; }

  [[nodiscard]] Rank waiting_for() const override {
    if (!bound_) return next_;
    const std::optional<BlockedStep> blocked = executor_.blocked();
    return blocked ? blocked->peer : -1;
  }

 private:
  Result<bool> prepare() {
    if (!announced_) {
      announce(context_.memory.control(context_.rank), signature_, call_.weight, 0, 0);
      context_.memory.ring_all();
      announced_ = true;
    }
    if (call_.weighted) {
      for (; next_ < context_.nranks; ++next_) {
        const Announcement& entry = context_.memory.control(next_).board[signature_.sequence % kBoardEntries];
        if (static_cast<uint32_t>(entry.word.load(std::memory_order_acquire) >> 32) != signature_.sequence) return false;
      }
      RETURN_IF_ERROR(compare_announcements(context_, signature_));
      binding_.weight = call_.weight;
      ASSIGN_OR_RETURN(binding_.divisor, final_divisor(context_, call_.op, call_.normalize));
    }
    RETURN_IF_ERROR(executor_.bind(binding_));
    bound_ = true;
    return true;
  }

  NodeContext& context_;
  const Call& call_;
  const Signature& signature_;
  const std::shared_ptr<const Plan> plan_;
  CpuExecutor& executor_;
  Binding binding_;
  Rank next_ = 0;
  bool announced_ = false;
  bool bound_ = false;
};

BufferLayout layout_of(const Call& call, Rank rank, Rank nranks) {
  BufferLayout layout;
  layout.collective = call.collective;
  layout.nranks = nranks;
  layout.rank = rank;
  layout.root = call.root < 0 ? 0 : call.root;
  layout.count = call.count;
  const auto span_of = [nranks](const size_t* array) {
    return array == nullptr ? std::span<const size_t>() : std::span<const size_t>(array, static_cast<size_t>(nranks));
  };
  layout.send_counts = span_of(call.send_counts);
  layout.send_displacements = span_of(call.send_displacements);
  layout.recv_counts = span_of(call.recv_counts);
  layout.recv_displacements = span_of(call.recv_displacements);
  return layout;
}

bool is_v_form(Collective collective) { return collective == Collective::kAllGatherV || collective == Collective::kAllToAllV; }

}  // namespace

size_t LaneSet::window(Rank size) {
  // The lanes of all pairs are address space only until they are used; still, 64 ranks should not reserve many GiB.
  constexpr Rank kManyRanks = 16;
  return size > kManyRanks ? 4 : 8;
}

size_t LaneSet::lane_bytes(const Settings& settings) {
  return ShmEndpoint::lane_bytes(kChannels, settings.slot_bytes, window(settings.size));
}

LaneSet::LaneSet(const Settings& settings, NodeMemory& memory, size_t lane_set)
    : settings_(settings), memory_(memory), lane_set_(lane_set), endpoints_(static_cast<size_t>(settings.size)) {}

LaneSet::~LaneSet() = default;

Endpoint& LaneSet::endpoint(Rank peer) {
  std::unique_ptr<Endpoint>& endpoint = endpoints_[static_cast<size_t>(peer)];
  if (endpoint == nullptr) {
    ShmEndpointOptions options;
    options.peer = peer;
    options.channels = kChannels;
    options.slot_bytes = settings_.slot_bytes;
    options.window = window(settings_.size);
    endpoint = std::make_unique<ShmEndpoint>(options, memory_.lane(lane_set_, settings_.rank, peer),
                                             memory_.lane(lane_set_, peer, settings_.rank), memory_.lot(),
                                             memory_.doorbells()[static_cast<size_t>(peer)]);
  }
  return *endpoint;
}

ScheduledOperations::ScheduledOperations(const Settings& settings, NodeContext& context)
    : settings_(settings),
      context_(context),
      lanes_(settings, context.memory, 0),
      plans_(kCachedPlans),
      endpoints_(static_cast<size_t>(settings.size)) {}

Result<std::unique_ptr<Operation>> ScheduledOperations::make(const Call& call, const Signature& signature,
                                                             std::string_view algorithm) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, plan_for(call, algorithm));
  for (const Rank peer : plan->peers) endpoints_[static_cast<size_t>(peer)] = &lanes_.endpoint(peer);
  if (scratch_.size() < plan->scratch_bytes) scratch_.resize(plan->scratch_bytes);
  Binding binding;
  binding.plan = plan.get();
  binding.input = static_cast<const std::byte*>(call.send);
  binding.output = static_cast<std::byte*>(call.recv);
  binding.scratch = scratch_;
  binding.endpoints = endpoints_;
  binding.tag = pack_word(signature.sequence, hash_signature(signature));
  return std::unique_ptr<Operation>(new ScheduledOperation(context_, call, signature, std::move(plan), executor_, binding));
}

Result<std::shared_ptr<const Plan>> ScheduledOperations::plan_for(const Call& call, std::string_view algorithm) {
  const Algorithm* const found = find_algorithm(schedule_collective(call.collective), algorithm);
  if (found == nullptr) {
    return Status(Code::kUnsupported, "there is no algorithm \"" + std::string(algorithm) + "\" for " +
                                          std::string(collective_name(call.collective)));
  }
  PlanKey key;
  key.collective = call.collective;
  key.algorithm = found->name;
  key.count = call.count;
  key.dtype = call.dtype;
  key.op = call.op;
  key.root = call.root;
  key.channels = kChannels;
  key.weighted = call.weighted;
  if (is_v_form(call.collective)) return build_plan(call, key);
  if (std::shared_ptr<const Plan> cached = plans_.find(key)) return cached;
  ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, build_plan(call, key));
  plans_.insert(key, plan);
  return plan;
}

Result<std::shared_ptr<const Plan>> ScheduledOperations::build_plan(const Call& call, const PlanKey& key) {
  const Algorithm& algorithm = *find_algorithm(schedule_collective(call.collective), key.algorithm);
  CollectiveSpec spec;
  spec.collective = algorithm.collective;
  spec.nranks = settings_.size;
  spec.root = call.root < 0 ? 0 : call.root;
  spec.channels = key.channels;
  if (const std::string reason = admits(algorithm, spec); !reason.empty()) return Status(Code::kUnsupported, reason);
  const Schedule schedule = build_schedule(algorithm, spec, settings_.rank, Fusion::kFused);
  PlanOptions options;
  options.layout = layout_of(call, settings_.rank, settings_.size);
  options.dtype = call.dtype;
  options.op = call.op;
  options.slice_bytes = settings_.slot_bytes;
  // The plan's parts fill the window less one slot; this algorithm has so many of them in flight at once.
  options.window = 1 + (LaneSet::window(settings_.size) - 1) / algorithm.window_runs;
  options.element_partials = settings_.element_precision;
  options.weighted = call.weighted;
  ASSIGN_OR_RETURN(Plan plan, make_plan(schedule, options));
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace gimbal
