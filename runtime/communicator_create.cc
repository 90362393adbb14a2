// How a communicator comes to be: first contact, agreement on settings, and the node's shared memory; and what is made from it.
#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/cpu.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/process_registry.h"
#include "runtime/calibration.h"
#include "runtime/clock_offset.h"
#include "runtime/communicator.h"
#include "runtime/links.h"
#include "runtime/node_setup.h"
#include "runtime/rendezvous.h"
#include "runtime/scheduled_operations.h"
#include "runtime/started_operations.h"
#include "runtime/version.h"
#include "transport/stores.h"

namespace gimbal {
namespace {

// What ranks tell each other at the start. Fixed size: a peer's message of another size is refused.
struct RankSettings {
  int32_t node_name;
  cpu_set_t affinity;
  double quota_cpus;
  uint64_t chunk_bytes;
  uint64_t slot_bytes;
  uint32_t deterministic;
  uint32_t element_precision;
  uint64_t algorithms_hash;
  uint64_t transport_hash;
  uint32_t verbs_queue_pairs;
  uint32_t verbs_mtu;
  uint32_t strict;
  uint64_t tuning_digest;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

std::string algorithms_text(const std::map<Collective, std::string>& algorithms) {
  std::string text;
  for (const auto& [collective, name] : algorithms)
    text.append(collective_name(collective)).append(":").append(name).append(";");
  return text;
}

Status differs(const std::string& what, uint64_t first, Rank rank, uint64_t other) {
  return {Code::kMismatch, what + " is " + std::to_string(first) + " on rank 0, but " + std::to_string(other) + " on rank " +
                               std::to_string(rank) + ": it must be equal on all ranks"};
}

Status compare_settings(const RankSettings& first, Rank rank, const RankSettings& other) {
  if (first.deterministic != other.deterministic) {
    return differs("deterministic (GIMBAL_DETERMINISTIC)", first.deterministic, rank, other.deterministic);
  }
  if (first.element_precision != other.element_precision) {
    return differs("GIMBAL_PRECISION=element", first.element_precision, rank, other.element_precision);
  }
  if (first.chunk_bytes != other.chunk_bytes) return differs("GIMBAL_CHUNK_BYTES", first.chunk_bytes, rank, other.chunk_bytes);
  if (first.slot_bytes != other.slot_bytes) return differs("GIMBAL_SLOT_BYTES", first.slot_bytes, rank, other.slot_bytes);
  if (first.transport_hash != other.transport_hash) {
    return {Code::kMismatch, "the transports (GIMBAL_TRANSPORT) of rank 0 and rank " + std::to_string(rank) +
                                 " differ: they must be equal on all ranks"};
  }
  if (first.verbs_queue_pairs != other.verbs_queue_pairs) {
    return differs("GIMBAL_IB_QUEUE_PAIRS", first.verbs_queue_pairs, rank, other.verbs_queue_pairs);
  }
  if (first.verbs_mtu != other.verbs_mtu) return differs("GIMBAL_IB_MTU", first.verbs_mtu, rank, other.verbs_mtu);
  if (first.strict != other.strict) return differs("GIMBAL_STRICT", first.strict, rank, other.strict);
  if (first.algorithms_hash != other.algorithms_hash) {
    return {Code::kMismatch, "the forced algorithms (GIMBAL_ALGORITHM) of rank 0 and rank " + std::to_string(rank) +
                                 " differ: they must be equal on all ranks"};
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::create(const gimbal_config_t* config) {
  ASSIGN_OR_RETURN(Settings settings, resolve_settings(config));
  ASSIGN_OR_RETURN(Log log, make_log(config, settings));
  for (const std::string& sentence : unknown_environment_variables()) log.warning(sentence);
  if (!settings.launcher_conflict.empty()) log.warning(settings.launcher_conflict);
  auto communicator = std::shared_ptr<Communicator>(new Communicator(std::move(settings), std::move(log)));
  Settings& resolved = communicator->settings_;
  RETURN_IF_ERROR(communicator->choice_.configure(resolved, resolved.size));
  ASSIGN_OR_RETURN(communicator->machine_, read_machine_knowledge(resolved, communicator->log_));
  if (resolved.size == 1) return communicator;

  const Deadline deadline = Deadline::after_ms(resolved.connect_timeout_ms);
  std::unique_ptr<Store> store;
  if (config != nullptr && config->store != nullptr) {
    ASSIGN_OR_RETURN(store, make_callback_store(*config->store));
  } else {
    ASSIGN_OR_RETURN(store, open_rendezvous(resolved, deadline));
    if (resolved.rank == 0 && resolved.job_key.empty() && resolved.rendezvous.starts_with("tcp:")) {
      communicator->log_.warning("without GIMBAL_JOB_KEY, whoever reaches the job's ports can take part in it");
    }
  }
  BootstrapOptions options;
  options.rank = resolved.rank;
  options.size = resolved.size;
  options.job_key = resolved.job_key;
  options.name = resolved.name;
  options.version = library_version();
  options.interfaces = resolved.interfaces;
  options.link_timeout_ms = resolved.link_timeout_ms;
  ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, Bootstrap::connect(*store, options, communicator->log_, deadline));
  // Rank 0's store is gone before any rank can have heard rank 0 in connect(): a next communicator at the same address meets a
  // new store.
  store.reset();
  return connect(std::move(communicator), std::move(bootstrap), deadline);
}

Result<std::shared_ptr<Communicator>> Communicator::connect(std::shared_ptr<Communicator> communicator,
                                                            std::unique_ptr<Bootstrap> bootstrap, Deadline deadline) {
  communicator->bootstrap_ = std::move(bootstrap);
  if (Status status = communicator->make_ready(deadline); !status.ok()) {
    communicator->bootstrap_->tell_fault(status);
    return status;
  }
  // An abort, or a fault that a peer raised, ends what waits on the control connections too.
  communicator->bootstrap_->watch([self = communicator.get()]() -> Status {
    if (self->spans_nodes()) RETURN_IF_ERROR(self->hear_other_nodes());
    return self->faulted() ? self->adopt_fault() : Status();
  });
  return communicator;
}

Status Communicator::make_ready(Deadline deadline) {
  RETURN_IF_ERROR(agree_on_settings(deadline));
  RETURN_IF_ERROR(map_node(deadline));
  if (!spans_nodes() && choice_.wants_calibration(size(), oversubscribed_)) {
    ASSIGN_OR_RETURN(const MeasuredChoice measured, calibrate(*this));
    choose(measured);
  }
  if (spans_nodes()) {
    ASSIGN_OR_RETURN(clock_, measure_clock(*bootstrap_, rank(), deadline));
  }
  return {};
}

void Communicator::forget_operations() {
  for (Announcement& entry : control(rank()).board) entry.word.store(0, std::memory_order_relaxed);
  sequence_ = 0;
  recorder_.clear();
  waits_.clear();
  own_count_.clear();
}

Result<MeasuredChoice> Communicator::adopt_first_rank(const MeasuredChoice& mine) {
  const std::array<uint8_t, 3> packed = {mine.near, mine.direct_two_shot, mine.direct_streaming};
  ASSIGN_OR_RETURN(const auto values, bootstrap_->all_gather(bytes_of(packed), Deadline::after_ms(settings_.timeout_ms)));
  std::array<uint8_t, 3> first = {};
  if (values[0].size() != sizeof(first)) return Status(Code::kMismatch, "rank 0 runs another build of Gimbal");
  std::memcpy(first.data(), values[0].data(), sizeof(first));
  return MeasuredChoice{first[0] != 0, first[1] != 0, first[2] != 0};
}

Status Communicator::agree_on_settings(Deadline deadline) {
  const CpuAllowance allowance = read_cpu_allowance();
  RankSettings mine = {};
  mine.node_name = node_name(*bootstrap_, settings_);
  mine.affinity = allowance.affinity;
  mine.quota_cpus = allowance.quota_cpus;
  mine.chunk_bytes = settings_.chunk_bytes.value_or(0);
  mine.slot_bytes = settings_.slot_bytes;
  mine.deterministic = settings_.deterministic ? 1 : 0;
  mine.element_precision = settings_.element_precision ? 1 : 0;
  mine.algorithms_hash = hash_text(algorithms_text(settings_.algorithms));
  mine.transport_hash = hash_text(settings_.transport);
  mine.verbs_queue_pairs = settings_.verbs.queue_pairs;
  mine.verbs_mtu = settings_.verbs.mtu;
  mine.strict = settings_.strict ? 1 : 0;
  mine.tuning_digest = machine_->tuning_digest;
  ASSIGN_OR_RETURN(const auto values, bootstrap_->all_gather(bytes_of(mine), deadline));
  cpu_set_t usable;
  CPU_ZERO(&usable);
  double quota = mine.quota_cpus;
  Rank node_ranks = 0;
  std::vector<int32_t> node_names;
  Rank differently_tuned = 0;
  RankSettings first = {};
  for (Rank peer = 0; peer < size(); ++peer) {
    const std::vector<std::byte>& value = values[static_cast<size_t>(peer)];
    RankSettings theirs = {};
    if (value.size() != sizeof(theirs)) {
      return {Code::kMismatch, "rank " + std::to_string(peer) + " runs another build of Gimbal: its settings have " +
                                   std::to_string(value.size()) + " bytes, not " + std::to_string(sizeof(theirs))};
    }
    std::memcpy(&theirs, value.data(), sizeof(theirs));
    if (peer == 0) first = theirs;
    RETURN_IF_ERROR(compare_settings(first, peer, theirs));
    if (theirs.tuning_digest != first.tuning_digest) differently_tuned = peer;
    node_names.push_back(theirs.node_name);
    if (theirs.node_name != mine.node_name) continue;
    ++node_ranks;
    CPU_OR(&usable, &usable, &theirs.affinity);
    quota = std::min(quota, theirs.quota_cpus);
  }
  nodes_ = NodeShape(node_names);
  if (nodes_.nodes() > 1 && !settings_.slot_bytes_forced) settings_.slot_bytes = Links::kSlotBytesBetweenNodes;
  RETURN_IF_ERROR(check_transport(*bootstrap_, nodes_, settings_));
  RETURN_IF_ERROR(choice_.place(nodes_, settings_));
  const double cpus = std::min(static_cast<double>(CPU_COUNT(&usable)), quota);
  policy_ = choose_wait_policy(node_ranks, cpus);
  if (settings_.spin_ns) policy_.spin_ns = *settings_.spin_ns;
  adaptive_policy_ = AdaptiveWaitPolicy(policy_);
  // A progress thread shares the CPUs with the computing threads: it is one more runner per rank.
  background_policy_ = choose_wait_policy(2 * node_ranks, cpus);
  oversubscribed_ = node_ranks > cpus;
  adopt_tuning(differently_tuned, cpus);
  log_.info(std::to_string(node_ranks) + " ranks on " + std::to_string(cpus) + " usable CPUs" +
            (nodes_.nodes() > 1
                 ? ", on node " + std::to_string(nodes_.node_of(rank())) + " of " + std::to_string(nodes_.nodes())
                 : ""));
  return {};
}

// Ranks that choose differently would wait for each other for ever: all go by equal measurements, or none by any.
void Communicator::adopt_tuning(Rank differently_tuned, double cpus) {
  if (differently_tuned != 0) {
    if (rank() == 0) {
      log_.warning("rank 0 and rank " + std::to_string(differently_tuned) +
                   " have different tune caches (GIMBAL_TUNE_CACHE): no rank uses what was measured");
    }
    auto untuned = std::make_shared<MachineKnowledge>(*machine_);
    untuned->tuning.reset();
    untuned->tuning_digest = 0;
    machine_ = std::move(untuned);
  }
  cpus_ = cpus;
  if (!machine_->tuning || nodes_.nodes() > 1) return;
  const TunedRun* run = find_run(*machine_->tuning, size(), cpus);
  if (run == nullptr) return;
  choice_.use_tables(TunedTables(*run, size(), settings_.deterministic));
  log_.info("chooses as measured with " + std::to_string(run->ranks()) + " ranks by gimbal-topo tune");
}

Status Communicator::map_node(Deadline deadline) {
  NodeLayout layout;
  const std::span<const Rank> members = nodes_.members(nodes_.node_of(rank()));
  layout.nranks = static_cast<Rank>(members.size());
  layout.chunk_bytes = choice_.stage_slot_bytes();
  layout.lane_bytes = Links::lane_bytes(settings_);
  ASSIGN_OR_RETURN(std::shared_ptr<SharedSegment> segment,
                   share_segment(*bootstrap_, nodes_, rank(), layout.segment_bytes(), "node", deadline));
  memory_ = std::make_unique<NodeMemory>(std::move(segment), layout);
  context_ = std::make_unique<NodeContext>(*memory_, nodes_.local_rank(rank()),
                                           settings_.deterministic ? SumOrder::kTree : SumOrder::kRankOrder);
  context_->members.assign(members.begin(), members.end());
  if (!oversubscribed_) context_->first_looks = NodeContext::kLooksWithOwnCpu;
  spreader_ = CpuSpreader(context_->rank);
  allocations_ = Allocations(context_->rank);
  if (nodes_.nodes() > 1) RETURN_IF_ERROR(meet_other_nodes(deadline));
  collective_links_ = std::make_unique<Links>(settings_, nodes_, *memory_, remote_links_.get(), 0);
  message_links_ = std::make_unique<Links>(settings_, nodes_, *memory_, remote_links_.get(), 1);
  scheduled_ = std::make_unique<ScheduledOperations>(settings_, nodes_, *context_, news_.get(), *collective_links_);
  return {};
}

Status Communicator::meet_other_nodes(Deadline deadline) {
  ASSIGN_OR_RETURN(remote_links_,
                   RemoteLinks::connect(*bootstrap_, nodes_, settings_, Links::shape(settings_), log_, deadline));
  log_.info("between nodes: " + remote_links_->describe());
  for (std::unique_ptr<PollSleeper>& sleeper : sleepers_) {
    ASSIGN_OR_RETURN(sleeper, PollSleeper::create({bootstrap_->arrival_descriptor(), remote_links_->descriptor(0),
                                                   remote_links_->descriptor(1)}));
  }
  news_ = std::make_unique<RemoteNews>(*bootstrap_, nodes_, rank());
  return {};
}

Result<std::shared_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  Result<std::shared_ptr<Communicator>> child = split_members(color, key);
  if (!child.ok()) return fail(child.status(), nullptr);
  return child;
}

Result<std::shared_ptr<Communicator>> Communicator::split_members(int32_t color, int32_t key) {
  const Deadline deadline = Deadline::after_ms(settings_.connect_timeout_ms);
  Settings settings = settings_;
  settings.name = name() + "." + std::to_string(color);
  if (settings.metrics_file.find("%n") == std::string::npos) settings.metrics_file.clear();  // it is the parent's
  if (size() == 1) {
    if (color < 0) return std::shared_ptr<Communicator>();
    return derive(std::array{rank()}, std::move(settings), 0, deadline);
  }
  const std::array<int32_t, 2> mine = {color, key};
  ASSIGN_OR_RETURN(const auto values, bootstrap_->all_gather(bytes_of(mine), deadline));
  const uint64_t tag = ++children_;
  struct Member {
    int32_t key;
    Rank rank;
  };
  std::vector<Member> group;
  for (Rank peer = 0; peer < size(); ++peer) {
    const std::vector<std::byte>& value = values[static_cast<size_t>(peer)];
    std::array<int32_t, 2> theirs = {};
    if (value.size() != sizeof(theirs)) {
      return Status(Code::kMismatch, "rank " + std::to_string(peer) + " is not in gimbal_comm_split");
    }
    std::memcpy(theirs.data(), value.data(), sizeof(theirs));
    if (theirs[0] == color) group.push_back({theirs[1], peer});
  }
  if (color < 0) return std::shared_ptr<Communicator>();
  std::stable_sort(group.begin(), group.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
  std::vector<Rank> members;
  members.reserve(group.size());
  for (const Member& member : group) members.push_back(member.rank);
  return derive(members, std::move(settings), tag, deadline);
}

Result<std::shared_ptr<Communicator>> Communicator::derive(std::span<const Rank> members, Settings settings, uint64_t tag,
                                                           Deadline deadline) {
  settings.size = static_cast<Rank>(members.size());
  settings.rank = static_cast<Rank>(std::find(members.begin(), members.end(), rank()) - members.begin());
  Log log = log_;
  log.set_prefix("gimbal[" + settings.name + " rank " + std::to_string(settings.rank) + "/" + std::to_string(settings.size) +
                 "]");
  auto child = std::shared_ptr<Communicator>(new Communicator(settings, std::move(log)));
  child->machine_ = machine_;
  RETURN_IF_ERROR(child->choice_.configure(settings, settings.size));
  if (settings.size == 1) return child;
  ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, bootstrap_->derive(members, settings.name, tag, deadline));
  return connect(std::move(child), std::move(bootstrap), deadline);
}

Result<void*> Communicator::allocate(size_t bytes) {
  constexpr size_t kPage = 4096;
  // Operations under way look at the allocations.
  if (started_ != nullptr) RETURN_IF_ERROR(started_->wait_for_collectives());
  if (allocations_.next_number() == 0)
    return Status(Code::kUnsupported, "65535 allocations have been made on this communicator");
  Allocations::Entry entry;
  entry.part_bytes = (bytes + kPage - 1) / kPage * kPage;
  if (entry.part_bytes < bytes || entry.part_bytes > SIZE_MAX / 2 / static_cast<size_t>(size())) {
    return Status(Code::kInvalidArgument,
                  std::to_string(bytes) + " bytes on each of " + std::to_string(size()) + " ranks exceed the address space");
  }
  Result<std::shared_ptr<SharedSegment>> segment =
      size() == 1 ? SharedSegment::create("gimbal-memory", entry.part_bytes) : share_allocation(bytes, entry.part_bytes);
  if (!segment.ok()) return fail(segment.status(), nullptr);
  entry.segment = std::move(segment).value();
  return allocations_.add(std::move(entry));
}

Result<std::shared_ptr<SharedSegment>> Communicator::share_allocation(size_t bytes, size_t part_bytes) {
  const Deadline deadline = Deadline::after_ms(settings_.timeout_ms);
  ASSIGN_OR_RETURN(const auto sizes, bootstrap_->all_gather(bytes_of(bytes), deadline));
  for (Rank peer = 0; peer < size(); ++peer) {
    const std::vector<std::byte>& value = sizes[static_cast<size_t>(peer)];
    size_t theirs = 0;
    if (value.size() != sizeof(theirs)) {
      return Status(Code::kMismatch, "rank " + std::to_string(peer) + " is not in gimbal_mem_alloc");
    }
    std::memcpy(&theirs, value.data(), sizeof(theirs));
    if (theirs != bytes) {
      return Status(Code::kMismatch, "gimbal_mem_alloc: rank " + std::to_string(rank()) + " asked for " +
                                         std::to_string(bytes) + " bytes, rank " + std::to_string(peer) + " for " +
                                         std::to_string(theirs));
    }
  }
  const size_t parts = nodes_.members(nodes_.node_of(rank())).size();
  return share_segment(*bootstrap_, nodes_, rank(), part_bytes * parts, "memory", deadline);
}

Status Communicator::free(void* pointer) {
  // A failed operation no longer uses the memory either.
  if (started_ != nullptr) static_cast<void>(started_->wait_for_collectives());
  return allocations_.remove(pointer);
}

// Shared memory gains nothing from memory that is announced; the announcement is kept so that its end can be checked.
Status Communicator::register_memory(void* pointer, size_t bytes) {
  if (registered_.emplace(pointer, bytes).second) return {};
  return {Code::kInvalidArgument, "this pointer is already registered; gimbal_deregister it first"};
}

Status Communicator::deregister_memory(void* pointer) {
  if (registered_.erase(pointer) == 1) return {};
  return {Code::kInvalidArgument, "the pointer was not registered with gimbal_register on this communicator"};
}

}  // namespace gimbal
