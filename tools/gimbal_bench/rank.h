// One rank of the benchmark: its communicator, its buffers, and what the ranks tell each other between measurements.
//
// Used by one thread. A rank is a process, or a thread of a process with --threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "gimbal/gimbal.h"
#include "tools/gimbal_bench/collectives.h"
#include "tools/gimbal_bench/device_memory.h"
#include "tools/gimbal_bench/options.h"

namespace gimbal::bench {

// Where a rank runs, as the head of the table and the JSON say it.
struct RankPlace {
  int64_t pid;
  char host[64];
  char cpus[56];    // its affinity mask as a list
  char device[96];  // with --memory cuda
};

// Which rank this is to become: -1 and -1 from the launcher's environment.
struct RankIdentity {
  Rank rank = -1;
  Rank ranks = -1;
  std::string rendezvous;
};

class BenchRank {
 public:
  static Result<std::unique_ptr<BenchRank>> create(const Options& options, const RankIdentity& identity);
  BenchRank(const BenchRank&) = delete;
  BenchRank& operator=(const BenchRank&) = delete;
  ~BenchRank();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] Rank ranks() const { return ranks_; }
  [[nodiscard]] gimbal_comm_t comm() const { return comm_; }

  // Two areas of the host that hold the largest array each.
  [[nodiscard]] std::byte* first() const { return areas_[0]; }
  [[nodiscard]] std::byte* second() const { return areas_[1]; }

  // The same places in the memory that calls are made on, and its stream.
  [[nodiscard]] Buffers called(const Buffers& host) const;
  // Null without --memory cuda.
  [[nodiscard]] DeviceMemory* device() const { return device_.get(); }
  // Between the host's areas and the device's, where there is one; the first bytes of both. What went wrong on the device's
  // stream is an error here.
  Status upload(size_t bytes) const;
  Status download(size_t bytes) const;

  Status barrier() const;
  // values of rank 0, then of rank 1, ...; each rank gives as many.
  Result<std::vector<double>> gather(const std::vector<double>& values) const;
  Result<std::vector<RankPlace>> gather_places() const;
  // What the library says of an all-reduce of so many bytes: the algorithm, and the transport between nodes.
  Result<std::string> explain(size_t bytes) const;
  // Host memory that the communicator holds, at the rank that holds most.
  Result<size_t> most_host_bytes() const;

 private:
  BenchRank() = default;
  Status create_communicator(const Options& options, const RankIdentity& identity);
  Status allocate(const Options& options);

  gimbal_comm_t comm_ = nullptr;
  Rank rank_ = 0;
  Rank ranks_ = 0;
  bool registered_ = false;
  std::unique_ptr<DeviceMemory> device_;
  size_t area_bytes_ = 0;
  std::byte* areas_[2] = {nullptr, nullptr};
};

}  // namespace gimbal::bench
