// Sets or unsets an environment variable until the end of the scope. Not while other threads run: the environment is the
// process's.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace gimbal::test {

class ScopedEnvironment {
 public:
  // No value: the variable is unset.
  ScopedEnvironment(std::string name, const std::optional<std::string>& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace gimbal::test
