#include "base/log.h"

#include <unistd.h>

#include <array>

namespace gimbal {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warn", "info", "debug"};

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  if (name == "warning") return LogLevel::kWarning;
  return Status(Code::kInvalidArgument, "\"" + std::string(name) + "\" is not one of error, warn, info, debug");
}

Log::Log(LogLevel level) : level_(level) {}
Log::Log(Sink sink) : level_(LogLevel::kDebug), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view message) const {
  if (!enabled(level)) return;
  if (sink_) {
    sink_(level, std::string(message));
    return;
  }
  std::string line = prefix_;
  line.append(" ").append(kLevelNames[static_cast<size_t>(level)]).append(": ").append(message).append("\n");
  // One write, so that lines of several ranks do not mix. Nothing sensible is left to do when it fails.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace gimbal
