// A gradient synchronizer of float32 parameters, with a communicator of its own, for the length of a test.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "gimbal/gradsync.h"
#include "tests/support/communicator.h"

namespace gimbal::test {

class GradientSynchronizer {
 public:
  // Parameters are called p0, p1, ... without names.
  GradientSynchronizer(const RankContext& context, const std::vector<size_t>& counts, const gimbal_gradsync_options_t& options,
                       const std::vector<std::string>& names = {})
      : GradientSynchronizer(rank_config(context), counts, options, names) {}
  GradientSynchronizer(const gimbal_config_t& config, const std::vector<size_t>& counts,
                       const gimbal_gradsync_options_t& options, std::vector<std::string> names = {})
      : comm_(config), counts_(counts) {
    while (names.size() < counts.size()) names.push_back("p" + std::to_string(names.size()));
    std::vector<gimbal_gradsync_parameter_t> parameters;
    for (size_t i = 0; i < counts.size(); ++i) parameters.push_back({names[i].c_str(), counts[i], GIMBAL_FLOAT32});
    EXPECT_EQ(gimbal_gradsync_create(comm_.get(), parameters.data(), parameters.size(), &options, &sync_), GIMBAL_OK)
        << gimbal_last_error();
  }
  ~GradientSynchronizer() { EXPECT_EQ(gimbal_gradsync_destroy(sync_), GIMBAL_OK) << gimbal_last_error(); }
  GradientSynchronizer(const GradientSynchronizer&) = delete;
  GradientSynchronizer& operator=(const GradientSynchronizer&) = delete;

  [[nodiscard]] gimbal_gradsync_t get() const { return sync_; }
  [[nodiscard]] gimbal_comm_t comm() const { return comm_.get(); }
  [[nodiscard]] int32_t rank() const { return comm_.rank(); }
  [[nodiscard]] std::span<float> gradient(size_t parameter) const {
    void* memory = nullptr;
    EXPECT_EQ(gimbal_gradsync_gradient(sync_, parameter, &memory), GIMBAL_OK) << gimbal_last_error();
    return {static_cast<float*>(memory), counts_[parameter]};
  }
  void ready(size_t parameter) {
    ASSERT_EQ(gimbal_gradsync_ready(sync_, parameter, nullptr), GIMBAL_OK) << gimbal_last_error();
  }
  void end(double weight = 1) {
    ASSERT_EQ(gimbal_gradsync_step_end(sync_, weight), GIMBAL_OK) << gimbal_last_error();
    ASSERT_EQ(gimbal_gradsync_wait(sync_, GIMBAL_GRADSYNC_ALL), GIMBAL_OK) << gimbal_last_error();
  }
  [[nodiscard]] gimbal_gradsync_stats_t stats() const {
    gimbal_gradsync_stats_t stats = GIMBAL_GRADSYNC_STATS_INIT;
    EXPECT_EQ(gimbal_gradsync_stats(sync_, &stats), GIMBAL_OK) << gimbal_last_error();
    return stats;
  }
  [[nodiscard]] std::vector<std::byte> saved_state() const {
    size_t bytes = 0;
    EXPECT_EQ(gimbal_gradsync_state_bytes(sync_, &bytes), GIMBAL_OK) << gimbal_last_error();
    std::vector<std::byte> state(bytes);
    EXPECT_EQ(gimbal_gradsync_state_save(sync_, state.data(), bytes), GIMBAL_OK) << gimbal_last_error();
    return state;
  }

 private:
  Communicator comm_;
  std::vector<size_t> counts_;
  gimbal_gradsync_t sync_ = nullptr;
};

}  // namespace gimbal::test
