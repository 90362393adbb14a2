#include "runtime/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace gimbal {
namespace {

std::string escaped_label(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

class MetricsWriter {
 public:
  explicit MetricsWriter(const Metrics& metrics)
      : labels_("communicator=\"" + escaped_label(metrics.communicator) + "\",rank=\"" + std::to_string(metrics.rank) + "\"") {}

  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  }
  void sample(const std::string& value, const std::string& more_labels = "") {
    text_.append(name_).append("{").append(labels_).append(more_labels).append("} ").append(value).append("\n");
  }
  void one(const char* name, const char* type, const char* help, const std::string& value) {
    begin(name, type, help);
    sample(value);
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string labels_;
  std::string name_;
  std::string text_;
};

}  // namespace

std::string metrics_text(const Metrics& metrics) {
  MetricsWriter writer(metrics);
  writer.one("gimbal_ranks", "gauge", "Ranks of the communicator.", std::to_string(metrics.size));
  writer.one("gimbal_usable", "gauge", "1 until the communicator has failed.", metrics.usable ? "1" : "0");
  writer.one("gimbal_operations_total", "counter", "Operations that completed.", std::to_string(metrics.operations));
  writer.one("gimbal_payload_bytes_total", "counter", "Bytes of their payloads.", std::to_string(metrics.bytes));
  writer.one("gimbal_errors_total", "counter", "Operations that failed.", std::to_string(metrics.errors));
  writer.one("gimbal_wait_seconds_total", "counter", "Waiting for peers in blocking calls.", number(metrics.wait_seconds));
  writer.one("gimbal_host_memory_bytes", "gauge", "Host memory that the communicator holds.",
             std::to_string(metrics.host_bytes));
  const auto each_peer = [&](auto&& value) {
    for (size_t peer = 0; peer < metrics.peers.size(); ++peer) {
      if (static_cast<Rank>(peer) == metrics.rank) continue;
      writer.sample(value(metrics.peers[peer]), ",peer=\"" + std::to_string(peer) + "\"");
    }
  };
  if (metrics.peers.size() > 1) {
    writer.begin("gimbal_peer_wait_seconds_total", "counter",
                 "Waiting of operations in which this peer was the last to arrive.");
    each_peer([](const PeerMetrics& peer) { return number(peer.wait_seconds); });
    writer.begin("gimbal_peer_late_total", "counter", "Operations that waited for this peer longest.");
    each_peer([](const PeerMetrics& peer) { return std::to_string(peer.late); });
  }
  return writer.take();
}

MetricsFile::MetricsFile(std::string path, int64_t period_ms)
    : path_(std::move(path)), period_ns_(period_ms * 1'000'000), next_ns_(monotonic_ns() + period_ns_) {}

bool MetricsFile::due() const { return monotonic_ns() >= next_ns_.load(std::memory_order_relaxed); }

Status MetricsFile::write(const std::string& text) {
  const std::unique_lock<std::mutex> lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  next_ns_.store(monotonic_ns() + period_ns_, std::memory_order_relaxed);
  const std::string fresh = path_ + "." + std::to_string(getpid()) + ".new";
  const FileDescriptor file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.valid()) return system_error("writing the metrics to " + path_, errno);
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) && rename(fresh.c_str(), path_.c_str()) == 0) return {};
  const int reason = written < 0 || written == static_cast<ssize_t>(text.size()) ? errno : ENOSPC;
  unlink(fresh.c_str());
  return system_error("writing the metrics to " + path_, reason);
}

}  // namespace gimbal
