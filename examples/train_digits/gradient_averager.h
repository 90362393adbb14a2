// Averages a gradient over ranks, one bucket per layer, while the rest of the backward pass is still being computed.
//
// start(layer) is called by every rank in the same order; finish() before the optimizer reads the gradient.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "communicator.h"
#include "network.h"

namespace digits {

template <typename T>
constexpr gimbal_dtype_t kDType = sizeof(T) == 4 ? GIMBAL_FLOAT32 : GIMBAL_FLOAT64;

// Adds the time until its end to a sum of seconds.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& seconds) : seconds_(seconds) {}
  ~ScopedTimer() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

template <typename T>
class GradientAverager {
 public:
  // gradient is averaged in place; both live as long as this object.
  GradientAverager(Communicator& communicator, std::span<const LayerShape> layers, std::span<T> gradient)
      : communicator_(communicator), layers_(layers), gradient_(gradient) {}

  // This rank's gradient is the mean over slice_size examples of the batch's batch_size. All slices equal: a plain mean;
  // otherwise each rank's gradient weighs as much as its slice.
  void begin(size_t slice_size, size_t batch_size) {
    weight_ = static_cast<double>(slice_size);
    weighted_ = batch_size % static_cast<size_t>(communicator_.size()) != 0;
  }

  void start(size_t layer) {
    const ScopedTimer timer(exposed_seconds_);
    T* bucket = gradient_.data() + layers_[layer].offset;
    const size_t count = layers_[layer].parameter_count();
    gimbal_request_t& request = requests_.emplace_back(nullptr);
    if (weighted_) {
      gimbal_reduce_options_t options = GIMBAL_REDUCE_OPTIONS_INIT;
      options.weight = weight_;
      options.normalize = 1;
      check(gimbal_all_reduce_options_start(bucket, bucket, count, kDType<T>, GIMBAL_SUM, &options, communicator_.get(),
                                            nullptr, &request));
    } else {
      check(gimbal_all_reduce_start(bucket, bucket, count, kDType<T>, GIMBAL_AVG, communicator_.get(), nullptr, &request));
    }
  }

  void finish() {
    const ScopedTimer timer(exposed_seconds_);
    for (gimbal_request_t& request : requests_) check(gimbal_wait(&request));
    requests_.clear();
  }

  // Time that this rank spent in calls to Gimbal instead of computing, waits for slower ranks included.
  [[nodiscard]] double exposed_seconds() const { return exposed_seconds_; }

 private:
  Communicator& communicator_;
  std::span<const LayerShape> layers_;
  std::span<T> gradient_;
  std::vector<gimbal_request_t> requests_;
  double weight_ = 0;
  bool weighted_ = false;
  double exposed_seconds_ = 0;
};

}  // namespace digits
