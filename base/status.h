// Status and Result<T>: how every function below the C boundary reports failure. No exceptions of our own.
//
// Success is one null pointer, so that returning it costs nothing. The function that first knows the cause writes the sentence;
// the rest pass it on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace gimbal {

// Values equal gimbal_status_t.
enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,
  kInvalidUsage = 2,
  kUnsupported = 3,
  kNoMemory = 10,
  kSystem = 11,
  kDevice = 12,
  kRemote = 20,
  kTimeout = 21,
  kMismatch = 22,
  kAborted = 23,
  kInternal = 24,
};

// "GIMBAL_OK", "GIMBAL_TIMEOUT", ...; "GIMBAL_UNKNOWN" for a value that is none.
const char* code_name(int code);

// What is lost with an error of this code: the communicator (its first error sticks) or only the call.
inline bool loses_communicator(Code code) { return code >= Code::kNoMemory; }

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : state_(std::make_unique<State>(State{code, std::move(message)})) {}
  Status(const Status& other) : state_(other.state_ ? std::make_unique<State>(*other.state_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) state_ = other.state_ ? std::make_unique<State>(*other.state_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  [[nodiscard]] bool ok() const { return state_ == nullptr; }
  [[nodiscard]] Code code() const { return state_ ? state_->code : Code::kOk; }
  // The sentence; empty for success.
  [[nodiscard]] const std::string& message() const;

 private:
  struct State {
    Code code;
    std::string message;
  };
  std::unique_ptr<State> state_;
};

// A Status with the text of errno: "<what>: No such file or directory".
Status system_error(const std::string& what, int error_number);

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that `return value;` and `return status;` both work.
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace internal {
inline Status to_status(Status status) { return status; }
template <typename T>
Status to_status(const Result<T>& result) {
  return result.status();
}
}  // namespace internal

}  // namespace gimbal

#define RETURN_IF_ERROR(expression)                                  \
  do {                                                               \
    if (auto status_or = (expression); !status_or.ok()) [[unlikely]] \
      return ::gimbal::internal::to_status(std::move(status_or));    \
  } while (false)

#define GIMBAL_CONCATENATE_INNER(a, b) a##b
#define GIMBAL_CONCATENATE(a, b) GIMBAL_CONCATENATE_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(GIMBAL_CONCATENATE(result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                   \
  if (!(result).ok()) [[unlikely]]                              \
    return (result).status();                                   \
  declaration = std::move(result).value()

#ifdef NDEBUG
#define GIMBAL_DCHECK(condition) ((void)0)
#else
#include <cassert>
#define GIMBAL_DCHECK(condition) assert(condition)
#endif
