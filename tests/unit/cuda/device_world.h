// A collective's ranks on simulated devices: plans, buffers and links in device memory, one stream and one kernel for each
// rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/unit/cuda/device.h"
#include "tests/unit/runtime/collective_case.h"

namespace gimbal::test {

// What kernels tell the host, in memory that both reach.
class Report {
 public:
  Report() : state_(1) {
    cudaHostAlloc(&report_, sizeof(*report_), cudaHostAllocMapped);
    *report_ = {};
  }
  ~Report() { cudaFreeHost(report_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  [[nodiscard]] device::Watch watch(uint64_t timeout_ns) const { return {state_.get(), report_, timeout_ns}; }
  [[nodiscard]] device::DeviceReport& get() const { return *report_; }
  // What a host thread that polls does.
  [[nodiscard]] device::DeviceError error() const {
    return static_cast<device::DeviceError>(std::atomic_ref<uint32_t>(report_->error).load(std::memory_order_acquire));
  }

 private:
  DeviceArray<device::DeviceState> state_;
  device::DeviceReport* report_ = nullptr;
};

struct DeviceOptions {
  device::Protocol protocol = device::Protocol::kSimple;
  unsigned threads = 32;
  uint64_t timeout_ns = 20'000'000'000;
  Rank absent = kNoRank;     // never launches
  Rank other_tag = kNoRank;  // is in another operation
  bool aborts = false;       // the host aborts the ranks while they wait
};

class DeviceWorld {
 public:
  // The case's plans must have been made for slices of at least the protocol's payload.
  DeviceWorld(const CollectiveCase& c, const InputFunction& input, const DeviceOptions& options);
  ~DeviceWorld();
  DeviceWorld(const DeviceWorld&) = delete;
  DeviceWorld& operator=(const DeviceWorld&) = delete;

  // Launches all ranks, and waits. False when CUDA refused.
  bool run();
  [[nodiscard]] std::vector<std::byte> output(Rank rank) const;
  [[nodiscard]] const Report& report(Rank rank) const;

 private:
  struct OneRank;
  void connect(Rank from, Rank to);

  CollectiveCase case_;
  DeviceOptions options_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
};

}  // namespace gimbal::test
