#include "tools/gimbal_bench/rank.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/environment.h"
#include "tools/gimbal_bench/collectives.h"
#include "tools/support/binding.h"

namespace gimbal::bench {
namespace {

constexpr size_t kPageBytes = 4096;

// The option names the algorithm of the collective that is measured; the others, by which the ranks exchange their times, stay
// free.
std::string forced_algorithm(const Options& options) {
  if (options.algorithm.empty() || options.algorithm.find(':') != std::string::npos) return options.algorithm;
  const std::string collective = options.kind == Kind::kSendRecv ? "send" : std::string(kind_name(options.kind));
  return collective + ":" + options.algorithm;
}

const char* text_or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

template <size_t kSize>
void copy_text(const std::string& from, char (&to)[kSize]) {
  from.copy(to, kSize - 1);
}

}  // namespace

Result<std::unique_ptr<BenchRank>> BenchRank::create(const Options& options, const RankIdentity& identity) {
  std::unique_ptr<BenchRank> rank(new BenchRank);
  RETURN_IF_ERROR(rank->create_communicator(options, identity));
  RETURN_IF_ERROR(rank->allocate(options));
  return rank;
}

Status BenchRank::create_communicator(const Options& options, const RankIdentity& identity) {
  const std::string algorithm = forced_algorithm(options);
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = identity.rank;
  config.size = identity.ranks;
  config.rendezvous = text_or_null(identity.rendezvous);
  config.deterministic = options.deterministic ? 1 : -1;
  config.timeout_ms = options.timeout_ms;
  config.algorithm = text_or_null(algorithm);
  config.transport = text_or_null(options.transport);
  config.name = "bench";
  RETURN_IF_ERROR(to_status(gimbal_comm_create(&config, &comm_), "comm_create"));
  RETURN_IF_ERROR(to_status(gimbal_comm_rank(comm_, &rank_), "comm_rank"));
  return to_status(gimbal_comm_size(comm_, &ranks_), "comm_size");
}

Status BenchRank::allocate(const Options& options) {
  registered_ = options.registered;
  const size_t most = options.kind == Kind::kBarrier ? 0 : options.max_bytes;
  area_bytes_ = std::max<size_t>(1, (most + kPageBytes - 1) / kPageBytes) * kPageBytes;
  const size_t bytes = area_bytes_;
  for (std::byte*& area : areas_) {
    void* memory = nullptr;
    if (registered_) {
      RETURN_IF_ERROR(to_status(gimbal_mem_alloc(comm_, GIMBAL_MEMORY_HOST, bytes, &memory), "mem_alloc"));
    } else {
      memory = std::aligned_alloc(kPageBytes, bytes);
      if (memory == nullptr) return {Code::kNoMemory, "-e: no memory for an array of " + std::to_string(bytes) + " bytes"};
    }
    area = static_cast<std::byte*>(memory);
    std::memset(area, 0, bytes);
  }
  if (!options.on_device) return {};
  ASSIGN_OR_RETURN(const int64_t local, environment_integer("LOCAL_RANK", rank_, 0, ranks_));
  ASSIGN_OR_RETURN(device_, DeviceMemory::create(static_cast<size_t>(local), bytes));
  return {};
}

Buffers BenchRank::called(const Buffers& host) const {
  if (device_ == nullptr) return host;
  // Places within an area may be anywhere up to its end; the areas do not touch.
  const auto on_device = [this](const std::byte* place) {
    const size_t area = place >= areas_[1] && place <= areas_[1] + area_bytes_ ? 1 : 0;
    return device_->area(area) + (place - areas_[area]);
  };
  return {on_device(host.send), on_device(host.receive), device_->stream()};
}

Status BenchRank::upload(size_t bytes) const {
  return device_ == nullptr ? Status() : device_->upload({areas_[0], areas_[1]}, bytes);
}

Status BenchRank::download(size_t bytes) const {
  if (device_ == nullptr) return {};
  RETURN_IF_ERROR(device_->download({areas_[0], areas_[1]}, bytes));
  return to_status(gimbal_comm_status(comm_), "comm_status");
}

BenchRank::~BenchRank() {
  if (comm_ != nullptr && device_ != nullptr) {
    // Freeing device memory waits for peers' streams on the device, which may wait for this rank: not before all are done.
    (void)gimbal_barrier(comm_, nullptr);
  }
  if (!registered_) {
    for (std::byte* area : areas_) std::free(area);
  }
  // Registered areas go with it. There is nobody left to tell an error.
  if (comm_ != nullptr) (void)gimbal_comm_destroy(comm_);
}

Status BenchRank::barrier() const { return to_status(gimbal_barrier(comm_, nullptr), "barrier"); }

Result<std::vector<double>> BenchRank::gather(const std::vector<double>& values) const {
  std::vector<double> all(values.size() * static_cast<size_t>(ranks_));
  RETURN_IF_ERROR(to_status(gimbal_all_gather(values.data(), all.data(), values.size(), GIMBAL_FLOAT64, comm_, nullptr),
                            "all_gather of the ranks' times"));
  return all;
}

Result<std::vector<RankPlace>> BenchRank::gather_places() const {
  RankPlace own = {};
  own.pid = getpid();
  char host[sizeof(own.host)] = {};
  gethostname(host, sizeof(host) - 1);
  copy_text(host, own.host);
  copy_text(format_cpu_list(allowed_cpus()), own.cpus);
  if (device_ != nullptr) copy_text(device_->describe(), own.device);
  std::vector<RankPlace> all(static_cast<size_t>(ranks_));
  RETURN_IF_ERROR(to_status(gimbal_all_gather(&own, all.data(), sizeof(own), GIMBAL_UINT8, comm_, nullptr),
                            "all_gather of the ranks' places"));
  return all;
}

Result<std::string> BenchRank::explain(size_t bytes) const {
  std::array<char, 4096> text = {};
  RETURN_IF_ERROR(
      to_status(gimbal_explain(comm_, GIMBAL_ALL_REDUCE, bytes, GIMBAL_FLOAT32, text.data(), text.size()), "explain"));
  return std::string(text.data());
}

Result<size_t> BenchRank::most_host_bytes() const {
  gimbal_stats_t stats = GIMBAL_STATS_INIT;
  RETURN_IF_ERROR(to_status(gimbal_comm_stats(comm_, &stats), "comm_stats"));
  ASSIGN_OR_RETURN(const std::vector<double> all, gather({static_cast<double>(stats.host_bytes)}));
  return static_cast<size_t>(*std::max_element(all.begin(), all.end()));
}

}  // namespace gimbal::bench
