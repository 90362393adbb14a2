#include "runtime/scheduled_operations.h"

#include <numeric>
#include <optional>
#include <span>

#include "base/deadline.h"
#include "collectives/algorithm.h"
#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

constexpr size_t kCachedPlans = 64;
// For a few bytes between any ranks: logarithmic in their number.
constexpr std::string_view kSynchronisationAlgorithm = "halving_doubling";
constexpr std::string_view kWeightsAlgorithm = "bruck";

// How long a rank that got another operation's message waits to hear what its sender called.
constexpr int64_t kDisputeMs = 2000;

// What ranks of several nodes do before the schedule itself: they gather their weights, or, where the schedule lets a rank end
// without having heard of others, meet.
struct FirstExchange {
  std::shared_ptr<const Plan> plan;
  Binding binding;
  std::span<const double> weights;  // by rank, once it is done; empty where they only meet
};

class ScheduledOperation final : public Operation {
 public:
  struct Parts {
    std::shared_ptr<const Plan> plan;
    Binding binding;
    std::optional<FirstExchange> first;
  };
  ScheduledOperation(NodeContext& context, RemoteNews* news, Rank rank, const Call& call, const Signature& signature,
                     CpuExecutor& executor, Parts parts)
      : context_(context),
        news_(news),
        rank_(rank),
        call_(call),
        signature_(signature),
        executor_(executor),
        parts_(std::move(parts)) {}

  Result<Progress> progress() override {
    if (disputed_) return settle();
    if (stage_ != Stage::kMove) {
      ASSIGN_OR_RETURN(const bool ready, prepare());
      if (!ready) return Progress::kAgain;
    }
    return run_executor();
  }

  [[nodiscard]] uint64_t moves() const override {
    return moved_before_ + (stage_ == Stage::kAnnounce ? 0 : executor_.slices() + 1);
  }

  [[nodiscard]] Rank waiting_for() const override {
    if (stage_ == Stage::kAnnounce) return next_ < context_.nranks ? context_.members[static_cast<size_t>(next_)] : -1;
    const std::optional<BlockedStep> blocked = executor_.blocked();
    return blocked ? blocked->peer : -1;
  }

 private:
  enum class Stage : uint8_t { kAnnounce, kMeet, kMove };

  Result<bool> prepare() {
    if (!announced_) {
      announce(context_.memory.control(context_.rank), signature_, call_.weight, 0, 0);
      context_.memory.ring_all();
      announced_ = true;
    }
    if (parts_.first) {
      ASSIGN_OR_RETURN(const bool met, exchange_first());
      if (!met) return false;
      moved_before_ = executor_.slices();
    } else if (call_.weighted) {
      ASSIGN_OR_RETURN(const bool known, read_weights());
      if (!known) return false;
    }
    if (call_.weighted) {
      const std::span<const double> weights = parts_.first ? parts_.first->weights : std::span(context_.weights);
      parts_.binding.weight = call_.weight;
      ASSIGN_OR_RETURN(parts_.binding.divisor, weights_divisor(weights, call_.normalize));
    }
    RETURN_IF_ERROR(executor_.bind(parts_.binding));
    stage_ = Stage::kMove;
    return true;
  }

  // From the boards of the node, when all its ranks have announced the operation.
  Result<bool> read_weights() {
    for (; next_ < context_.nranks; ++next_) {
      const Announcement& entry = context_.memory.control(next_).board[signature_.sequence % kBoardEntries];
      if (static_cast<uint32_t>(entry.word.load(std::memory_order_acquire) >> 32) != signature_.sequence) return false;
    }
    RETURN_IF_ERROR(compare_announcements(context_, signature_));
    return true;
  }

  Result<bool> exchange_first() {
    if (stage_ == Stage::kAnnounce) {
      RETURN_IF_ERROR(executor_.bind(parts_.first->binding));
      stage_ = Stage::kMeet;
    }
    ASSIGN_OR_RETURN(const Progress progress, run_executor());
    return progress == Progress::kDone;
  }

  Result<Progress> run_executor() {
    Result<Progress> progress = executor_.progress();
    if (progress.ok() || progress.status().code() != Code::kMismatch) return progress;
    // The executor saw a foreign tag; what the peer called stands on its board, or is told by a peer on another node.
    RETURN_IF_ERROR(compare_announcements(context_, signature_));
    if (news_ == nullptr) return progress;
    news_->announce(signature_);
    disputed_ = progress.status();
    dispute_deadline_ = Deadline::after_ms(kDisputeMs);
    return settle();
  }

  Result<Progress> settle() {
    RETURN_IF_ERROR(news_->update());
    if (const auto difference = news_->find_difference(signature_)) {
      return mismatch(rank_, signature_, difference->peer, difference->theirs);
    }
    // Whoever hears of both calls first tells all ranks; then that is the error.
    if (news_->fault() || dispute_deadline_.passed()) return *disputed_;
    return Progress::kAgain;
  }

  NodeContext& context_;
  RemoteNews* const news_;
  const Rank rank_;
  const Call& call_;
  const Signature& signature_;
  CpuExecutor& executor_;
  Parts parts_;
  Stage stage_ = Stage::kAnnounce;
  Rank next_ = 0;  // in the node: the first rank not yet seen to have announced the operation
  bool announced_ = false;
  uint64_t moved_before_ = 0;  // slices of the first exchange
  std::optional<Status> disputed_;
  Deadline dispute_deadline_ = Deadline::never();
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

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

bool is_v_form(Collective collective) { return collective == Collective::kAllGatherV || collective == Collective::kAllToAllV; }

}  // namespace

ScheduledOperations::ScheduledOperations(const Settings& settings, const NodeShape& nodes, NodeContext& context,
                                         RemoteNews* news, Links& links)
    : settings_(settings),
      nodes_(nodes),
      context_(context),
      news_(news),
      links_(links),
      plans_(kCachedPlans),
      endpoints_(static_cast<size_t>(settings.size)),
      weights_(static_cast<size_t>(settings.size)) {
  synchronisation_.collective = Collective::kAllReduce;
  synchronisation_.op = ReduceOp::kMax;
  synchronisation_.count = 1;
  synchronisation_.send = &synchronised_;
  synchronisation_.recv = &synchronised_;
}

Result<std::unique_ptr<Operation>> ScheduledOperations::make(const Call& call, const Signature& signature,
                                                             std::string_view algorithm) {
  const uint64_t tag = pack_word(signature.sequence, hash_signature(signature));
  ScheduledOperation::Parts parts;
  ASSIGN_OR_RETURN(parts.plan, plan_for(call, algorithm));
  if (scratch_.size() < parts.plan->scratch_bytes) scratch_.resize(parts.plan->scratch_bytes);
  if (news_ != nullptr && (call.weighted || has_root(call.collective))) {
    Call exchange = synchronisation_;
    if (call.weighted) {
      exchange.collective = Collective::kAllGather;
      exchange.dtype = DType::kFloat64;
      exchange.send = &call.weight;
      exchange.recv = weights_.data();
    }
    FirstExchange& first = parts.first.emplace();
    ASSIGN_OR_RETURN(first.plan, plan_for(exchange, call.weighted ? kWeightsAlgorithm : kSynchronisationAlgorithm));
    if (scratch_.size() < first.plan->scratch_bytes) scratch_.resize(first.plan->scratch_bytes);
    ASSIGN_OR_RETURN(first.binding, bind(*first.plan, exchange, tag));
    if (call.weighted) first.weights = weights_;
  }
  ASSIGN_OR_RETURN(parts.binding, bind(*parts.plan, call, tag));
  return std::unique_ptr<Operation>(
      new ScheduledOperation(context_, news_, settings_.rank, call, signature, executor_, std::move(parts)));
}

Result<std::unique_ptr<Operation>> ScheduledOperations::make_synchronisation(const Signature& signature) {
  return make(synchronisation_, signature, kSynchronisationAlgorithm);
}

Result<Binding> ScheduledOperations::bind(const Plan& plan, const Call& call, uint64_t tag) {
  for (const Rank peer : plan.peers) {
    ASSIGN_OR_RETURN(endpoints_[static_cast<size_t>(peer)], links_.endpoint(peer));
  }
  Binding binding;
  binding.plan = &plan;
  binding.input = static_cast<const std::byte*>(call.send);
  binding.output = static_cast<std::byte*>(call.recv);
  binding.scratch = scratch_;
  binding.endpoints = endpoints_;
  binding.tag = tag;
  return binding;
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
  key.channels = Links::kChannels;
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
  spec.nodes = &nodes_;
  if (const std::string reason = admits(algorithm, spec); !reason.empty()) return Status(Code::kUnsupported, reason);
  const Schedule schedule = build_schedule(algorithm, spec, settings_.rank, Fusion::kFused);
  PlanOptions options;
  options.layout = layout_of(call, settings_.rank, settings_.size);
  options.dtype = call.dtype;
  options.op = call.op;
  options.slice_bytes = settings_.slot_bytes;
  // The plan's parts fill the window less one slot; this algorithm has so many of them in flight at once.
  options.window = 1 + (Links::window(settings_.size) - 1) / algorithm.window_runs;
  options.element_partials = settings_.element_precision;
  options.weighted = call.weighted;
  ASSIGN_OR_RETURN(Plan plan, make_plan(schedule, options));
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace gimbal
