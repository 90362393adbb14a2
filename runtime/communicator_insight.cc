// What a communicator tells about itself: its recent operations, its numbers, and who is late.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "runtime/communicator.h"

namespace gimbal {
namespace {

// In the unit that people read: "4.1 ms", "230 us".
std::string duration_text(double ns) {
  char text[32];
  if (ns < 1e6) {
    std::snprintf(text, sizeof(text), "%.0f us", ns / 1e3);
  } else {
    std::snprintf(text, sizeof(text), "%.1f ms", ns / 1e6);
  }
  return text;
}

std::string host_name() {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace

std::string Communicator::expand_path(const std::string& pattern) const {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string two = pattern.substr(i, 2);
    if (two == "%r") {
      path += std::to_string(rank());
    } else if (two == "%p") {
      path += std::to_string(getpid());
    } else if (two == "%h") {
      path += host_name();
    } else if (two == "%n") {
      path += name();
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

void Communicator::write_flight_recorder() const {
  if (settings_.flight_recorder.empty()) return;
  if (Status written = dump(expand_path(settings_.flight_recorder)); !written.ok()) log_.warning(written.message());
}

Status Communicator::dump(const std::string& path) const {
  Status current;
  {
    const std::lock_guard<std::mutex> lock(status_mutex_);
    current = status_;
  }
  return recorder_.write_json(path, {.communicator = name(),
                                     .rank = rank(),
                                     .size = size(),
                                     .host = host_name(),
                                     .clock = clock_,
                                     .status = std::move(current)});
}

void Communicator::read_stats(gimbal_stats_t& stats) const {
  stats.operations = own_count_.operations() + background_count_.operations();
  stats.bytes = own_count_.bytes() + background_count_.bytes();
  stats.wait_ns = waits_.total_ns();
  const WaitStatistics::Latest latest = waits_.latest();
  stats.last_arrived_rank = latest.rank;
  stats.last_arrived_ns = latest.mean_ns;
  stats.window_waits = latest.all_waits;
  stats.last_arrived_waits = latest.waits;
  stats.clock_offset_ns = clock_.offset_ns;
  stats.clock_error_ns = clock_.uncertainty_ns;
  stats.errors = errors_.load(std::memory_order_relaxed);
  stats.host_bytes = sizeof(*this) + allocations_.resident_bytes();
  if (memory_ != nullptr) stats.host_bytes += memory_->segment().resident_bytes() / static_cast<size_t>(context_->nranks);
}

// An operation takes 120 ns and a look at the clock 20: one in a few looks.
void Communicator::look_at_metrics() {
  constexpr uint32_t kOperationsPerLook = 16;
  if (!waited_ && ++unlooked_ < kOperationsPerLook) return;
  unlooked_ = 0;
  write_metrics_if_due();
}

void Communicator::write_metrics_if_due() {
  if (metrics_ != nullptr && metrics_->due()) write_metrics();
}

void Communicator::write_metrics() {
  gimbal_stats_t stats = GIMBAL_STATS_INIT;
  read_stats(stats);
  Metrics metrics = {.communicator = name(),
                     .rank = rank(),
                     .size = size(),
                     .usable = !failed_.load(std::memory_order_acquire),
                     .operations = stats.operations,
                     .bytes = stats.bytes,
                     .errors = stats.errors,
                     .wait_seconds = static_cast<double>(stats.wait_ns) / 1e9,
                     .host_bytes = stats.host_bytes,
                     .peers = {}};
  for (Rank peer = 0; peer < size(); ++peer) {
    const WaitStatistics::OfPeer waits = waits_.of_peer(peer);
    metrics.peers.push_back({.wait_seconds = waits.seconds, .late = waits.times});
  }
  if (Status written = metrics_->write(metrics_text(metrics)); !written.ok() && !metrics_warned_.exchange(true)) {
    log_.warning(written.message());
  }
}

// Every rank but the late one finds it; one of them says so.
// What two ranks of small messages wait for each other is the latency of their machine, and nobody's lateness.
constexpr double kLeastLatenessNs = 100'000;

void Communicator::report(const Straggler& straggler) {
  if (waits_.to_ns(straggler.mean_ticks) < kLeastLatenessNs) return;
  const Rank speaker = straggler.rank == 0 ? 1 : 0;
  const LogLevel level = rank() == speaker ? LogLevel::kWarning : LogLevel::kDebug;
  if (!log_.enabled(level)) return;
  char share[16];
  std::snprintf(share, sizeof(share), "%.0f %%", straggler.share * 100);
  std::string line = describe_rank(straggler.rank) + " is late: " + std::to_string(straggler.waits) + " of the last " +
                     std::to_string(straggler.window) + " waits were for it, " +
                     duration_text(waits_.to_ns(straggler.mean_ticks)) + " each";
  if (straggler.others_mean_ticks > 0) line += " (" + duration_text(waits_.to_ns(straggler.others_mean_ticks)) + " for others)";
  log_.write(level, line + " and " + share + " of the time");
}

}  // namespace gimbal
