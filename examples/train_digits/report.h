// What a run found: printed by rank 0 and written as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace digits {

struct Options {
  size_t epochs = 80;
  size_t batch = 256;  // over all ranks
  size_t hidden = 256;
  uint64_t seed = 1;
  std::string dtype = "float";
  std::string data;
  std::string json;
  bool check_gradient = false;
};

struct Report {
  int32_t ranks = 1;
  size_t parameter_count = 0;
  size_t train_examples = 0;
  size_t held_out_examples = 0;
  size_t steps = 0;
  std::vector<double> epoch_losses;  // mean over the epoch's examples, each at its own step's parameters
  double final_loss = 0;             // mean over the training examples at the final parameters
  double accuracy = 0;               // of the held-out examples
  double seconds = 0;                // in training steps
  double exposed_seconds = 0;        // of these, in calls to Gimbal on the rank that spent most there
  std::vector<uint64_t> checksums;   // of the parameters, by rank
  // Largest distance between the averaged gradient and the one that a single rank computes of the same batch, by the norm.
  std::optional<double> gradient_difference;
  double gradient_tolerance = 0;

  [[nodiscard]] bool parameters_equal() const;
  [[nodiscard]] bool gradient_agrees() const;
};

std::string summary(const Report& report);

// Throws std::runtime_error when the file cannot be written.
void write_json(const Options& options, const Report& report);

}  // namespace digits
