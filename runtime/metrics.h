// One communicator's numbers as a Prometheus text file, for a node exporter's textfile collector.
//
// Thread safety: write_if_due and write from any thread; one writes, another that comes meanwhile goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace gimbal {

struct PeerMetrics {
  double wait_seconds = 0;  // waits that were for this peer
  uint64_t late = 0;        // how many
};

struct Metrics {
  std::string communicator;
  Rank rank = 0;
  Rank size = 1;
  bool usable = true;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  double wait_seconds = 0;
  uint64_t host_bytes = 0;
  std::vector<PeerMetrics> peers;  // by rank; this one's own is not written
};

// The exposition format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
std::string metrics_text(const Metrics& metrics);

class MetricsFile {
 public:
  MetricsFile(std::string path, int64_t period_ms);

  // Whether a period has passed since the last writing: a look at the clock.
  [[nodiscard]] bool due() const;
  // Whoever reads the file sees the old or the new text, whole.
  Status write(const std::string& text);

 private:
  const std::string path_;
  const int64_t period_ns_;
  std::atomic<int64_t> next_ns_;
  std::mutex writing_;
};

}  // namespace gimbal
