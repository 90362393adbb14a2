// What ranks agree on when a synchronizer is made, and what it checks over the ranks later.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/deadline.h"
#include "gradsync/calls.h"
#include "gradsync/synchronizer.h"
#include "gradsync/wire_blocks.h"

namespace gimbal::gradsync {
namespace {

// FNV-1a over 8 bytes at a time: whether two ranks have the same bits, not against an adversary.
uint64_t hash_of(std::span<const std::byte> bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;  // multiplication carries upward only
    bytes = bytes.subspan(sizeof word);
  }
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * kPrime;
  return hash;
}

std::string list_ranks(std::span<const int32_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

// The median time of an all-reduce in place, in seconds.
Result<double> measure_all_reduce(gimbal_comm_t comm, std::span<float> values) {
  constexpr int kTimes = 5;
  std::array<double, kTimes> seconds = {};
  for (double& each : seconds) {
    const int64_t begun = monotonic_ns();
    RETURN_IF_ERROR(
        from_c(gimbal_all_reduce(values.data(), values.data(), values.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm, nullptr)));
    each = static_cast<double>(monotonic_ns() - begun) * 1e-9;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTimes / 2];
}

}  // namespace

Result<std::unique_ptr<Synchronizer>> Synchronizer::create(gimbal_comm_t comm, std::vector<Parameter> parameters,
                                                           const Options& options) {
  auto made = std::unique_ptr<Synchronizer>(new Synchronizer(comm, std::move(parameters), options));
  RETURN_IF_ERROR(from_c(gimbal_comm_rank(comm, &made->rank_)));
  RETURN_IF_ERROR(from_c(gimbal_comm_size(comm, &made->size_)));
  RETURN_IF_ERROR(made->compare_manifests());
  RETURN_IF_ERROR(made->choose_bucket_bytes());
  RETURN_IF_ERROR(made->allocate());
  return made;
}

Status Synchronizer::compare_manifests() {
  const std::string mine = manifest_of(parameters_, options_);
  std::array<uint64_t, 2> own = {hash_of(std::as_bytes(std::span(mine))), mine.size()};
  std::vector<std::array<uint64_t, 2>> all(static_cast<size_t>(size_));
  RETURN_IF_ERROR(from_c(gimbal_all_gather(own.data(), all.data(), own.size(), GIMBAL_UINT64, comm_, nullptr)));
  std::vector<int32_t> others;
  for (int32_t rank = 0; rank < size_; ++rank) {
    if (all[static_cast<size_t>(rank)] != all[0]) others.push_back(rank);
  }
  if (others.empty()) return {};
  std::string of_rank_0 = mine;
  of_rank_0.resize(static_cast<size_t>(all[0][1]));
  RETURN_IF_ERROR(from_c(gimbal_broadcast(of_rank_0.data(), of_rank_0.size(), GIMBAL_UINT8, 0, comm_, nullptr)));
  const std::string differs = first_difference(mine, of_rank_0);
  if (differs.empty()) return {Code::kMismatch, "the parameters of " + list_ranks(others) + " are not this rank's"};
  return {Code::kMismatch, "the parameters differ: " + differs};
}

Status Synchronizer::choose_bucket_bytes() {
  if (options_.bucket_bytes != 0) return {};
  constexpr double kLatencyShare = 0.02;
  constexpr uint64_t kLeast = uint64_t{8} << 20;
  constexpr uint64_t kMost = uint64_t{128} << 20;
  std::vector<float> values(size_t{1} << 20);
  ASSIGN_OR_RETURN(const double latency, measure_all_reduce(comm_, std::span(values).first(2)));
  ASSIGN_OR_RETURN(const double whole, measure_all_reduce(comm_, values));
  const double seconds_per_byte = std::max(whole - latency, 1e-9) / (static_cast<double>(values.size()) * sizeof(float));
  const double bytes =
      std::clamp(latency / kLatencyShare / seconds_per_byte, static_cast<double>(kLeast), static_cast<double>(kMost));
  auto chosen = static_cast<uint64_t>(bytes);
  RETURN_IF_ERROR(from_c(gimbal_broadcast(&chosen, 1, GIMBAL_UINT64, 0, comm_, nullptr)));
  options_.bucket_bytes = chosen;
  return {};
}

Status Synchronizer::allocate() {
  const bool in_background = options_.compress() && size_ > 1;
  Placement placement;
  placement.split = !options_.codec.has_value();
  if (in_background && placement.split) placement.block_elements = kBlockElements;
  layout_ = lay_out(parameters_, options_.first_bucket_bytes, options_.bucket_bytes, placement);
  void* memory = nullptr;
  RETURN_IF_ERROR(from_c(gimbal_mem_alloc(comm_, GIMBAL_MEMORY_HOST, layout_.bytes, &memory)));
  memory_ = static_cast<std::byte*>(memory);
  std::memset(memory_, 0, layout_.bytes);
  has_gradient_.resize(parameters_.size());
  is_ready_.resize(parameters_.size());
  missing_.resize(layout_.buckets.size());
  requests_.resize(layout_.buckets.size());
  jobs_.resize(layout_.buckets.size());
  times_.resize(layout_.buckets.size());
  arrivals_ns_.resize(static_cast<size_t>(size_));
  gimbal_stats_t engine = GIMBAL_STATS_INIT;
  RETURN_IF_ERROR(from_c(gimbal_comm_stats(comm_, &engine)));
  clock_offset_ns_ = engine.clock_offset_ns;
  // Between any two ranks; the largest is everybody's.
  RETURN_IF_ERROR(
      from_c(gimbal_all_reduce(&engine.clock_error_ns, &clock_error_ns_, 1, GIMBAL_INT64, GIMBAL_MAX, comm_, nullptr)));
  clock_error_ns_ *= 2;
  stats_.buckets = layout_.buckets.size();
  for (const Parameter& parameter : parameters_) stats_.bytes += parameter.bytes();
  if (in_background) RETURN_IF_ERROR(make_reducer());
  return {};
}

Status Synchronizer::check(std::span<const void* const> values) {
  RETURN_IF_ERROR(require_between_steps("check"));
  std::vector<uint64_t> own(parameters_.size());
  for (size_t i = 0; i < own.size(); ++i) {
    own[i] =
        hash_of(values.empty() ? bytes_of(i) : std::span(static_cast<const std::byte*>(values[i]), parameters_[i].bytes()));
  }
  std::vector<uint64_t> all(own.size() * static_cast<size_t>(size_));
  RETURN_IF_ERROR(from_c(gimbal_all_gather(own.data(), all.data(), own.size(), GIMBAL_UINT64, comm_, nullptr)));
  for (size_t i = 0; i < own.size(); ++i) {
    std::vector<int32_t> others;
    for (int32_t rank = 1; rank < size_; ++rank) {
      if (all[static_cast<size_t>(rank) * own.size() + i] != all[i]) others.push_back(rank);
    }
    if (others.empty()) continue;
    return {Code::kMismatch, "parameter " + std::to_string(i) + " (\"" + parameters_[i].name +
                                 "\") is the first that differs: on " + list_ranks(others) + " from rank 0"};
  }
  return {};
}

}  // namespace gimbal::gradsync
