// Lines for people: one sentence each, at a level. The library prints nothing else.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace gimbal {

enum class LogLevel : uint8_t { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

Result<LogLevel> parse_log_level(std::string_view name);  // error, warn, info, debug

class Log {
 public:
  using Sink = std::function<void(LogLevel, const std::string& line)>;

  // Standard error, one write(2) per line, lines up to `level`.
  explicit Log(LogLevel level = LogLevel::kWarning);
  // The caller's sink, which gets every level.
  explicit Log(Sink sink);

  // Put before every line, for example "gimbal[world rank 3/8]".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  [[nodiscard]] bool enabled(LogLevel level) const { return level <= level_; }
  void write(LogLevel level, std::string_view message) const;

  void error(std::string_view message) const { write(LogLevel::kError, message); }
  void warning(std::string_view message) const { write(LogLevel::kWarning, message); }
  void info(std::string_view message) const { write(LogLevel::kInfo, message); }
  void debug(std::string_view message) const { write(LogLevel::kDebug, message); }

 private:
  LogLevel level_;
  std::string prefix_ = "gimbal";
  Sink sink_;
};

}  // namespace gimbal
