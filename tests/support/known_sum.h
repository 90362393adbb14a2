// An all-reduce whose sum every rank knows beforehand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/communicator.h"

namespace gimbal::test {

// In place: rank r brings (r + 1) * (i % 1000 + 1) in element i.
class KnownSum {
 public:
  KnownSum(const Communicator& communicator, size_t count)
      : comm_(communicator.get()), rank_(communicator.rank()), size_(communicator.size()), buffer_(count) {}

  gimbal_status_t run() {
    for (size_t i = 0; i < buffer_.size(); ++i) buffer_[i] = (rank_ + 1) * pattern(i);
    return gimbal_all_reduce(buffer_.data(), buffer_.data(), buffer_.size(), GIMBAL_INT32, GIMBAL_SUM, comm_, nullptr);
  }

  [[nodiscard]] size_t wrong_elements() const {
    size_t wrong = 0;
    for (size_t i = 0; i < buffer_.size(); ++i) wrong += buffer_[i] == size_ * (size_ + 1) / 2 * pattern(i) ? 0 : 1;
    return wrong;
  }

 private:
  static int32_t pattern(size_t i) { return static_cast<int32_t>(i % 1000) + 1; }

  gimbal_comm_t comm_;
  int32_t rank_;
  int32_t size_;
  std::vector<int32_t> buffer_;
};

// Throws std::runtime_error, which fails the test, when it is not exact: what follows would say nothing new.
inline void expect_exact_sum(KnownSum& sum) {
  const gimbal_status_t status = sum.run();
  if (status != GIMBAL_OK) throw std::runtime_error(std::string(gimbal_status_name(status)) + ": " + gimbal_last_error());
  if (sum.wrong_elements() != 0) throw std::runtime_error(std::to_string(sum.wrong_elements()) + " elements are wrong");
}

}  // namespace gimbal::test
