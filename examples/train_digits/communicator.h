// The trainer's use of Gimbal: a communicator, its small reductions, and zero-copy memory, with errors as exceptions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gimbal/gimbal.h"

namespace digits {

// Throws std::runtime_error with Gimbal's own sentence unless status is GIMBAL_OK.
void check(gimbal_status_t status);

class Communicator {
 public:
  // From the launcher's environment; without a launcher, one rank alone.
  Communicator();
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] gimbal_comm_t get() const { return comm_; }
  [[nodiscard]] int32_t rank() const { return rank_; }
  [[nodiscard]] int32_t size() const { return size_; }

  double sum(double value);
  int64_t sum(int64_t value);
  double max(double value);
  std::vector<uint64_t> all_gather(uint64_t value);

 private:
  gimbal_comm_t comm_ = nullptr;
  int32_t rank_ = 0;
  int32_t size_ = 1;
};

// An array that all ranks of the node map, so that reductions of it copy nothing. Collective to make and to free.
template <typename T>
class SharedArray {
 public:
  SharedArray(Communicator& communicator, size_t count) : communicator_(communicator), count_(count) {
    void* memory = nullptr;
    check(gimbal_mem_alloc(communicator.get(), GIMBAL_MEMORY_HOST, count * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  // The status is not looked at: after an error of the communicator nothing is left to free, and there is nobody to tell.
  ~SharedArray() { gimbal_mem_free(communicator_.get(), data_); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  [[nodiscard]] std::span<T> span() { return {data_, count_}; }

 private:
  Communicator& communicator_;
  T* data_ = nullptr;
  size_t count_;
};

}  // namespace digits
