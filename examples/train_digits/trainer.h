// Synchronous data-parallel training: every rank holds all parameters, takes its slice of each batch, and applies the same
// averaged gradient, so that the parameters stay bitwise equal without ever being sent.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "communicator.h"
#include "dataset.h"
#include "gradient_averager.h"
#include "network.h"
#include "report.h"

namespace digits {

template <typename T>
class Trainer {
 public:
  Trainer(Communicator& communicator, const Dataset& dataset, const Options& options)
      : communicator_(communicator),
        dataset_(dataset),
        options_(options),
        network_(std::vector<size_t>{kPixels, options.hidden, options.hidden, kClasses}, options.seed),
        gradient_(communicator, network_.parameters().size()),
        averager_(communicator, network_.layers(), gradient_.span()),
        velocity_(network_.parameters().size(), T{0}),
        order_(dataset.train.size()),
        random_(options.seed + 1) {
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  Report run() {
    Report report;
    report.ranks = communicator_.size();
    report.parameter_count = network_.parameters().size();
    report.train_examples = dataset_.train.size();
    report.held_out_examples = dataset_.held_out.size();
    if (options_.check_gradient) {
      report.gradient_difference = gradient_difference();
      report.gradient_tolerance = kGradientTolerance;
    }
    const double exposed_before = averager_.exposed_seconds();
    for (size_t epoch = 1; epoch <= options_.epochs; ++epoch) {
      double loss_sum = 0;
      {
        const ScopedTimer timer(report.seconds);
        report.steps += train_epoch(loss_sum);
      }
      report.epoch_losses.push_back(communicator_.sum(loss_sum) / static_cast<double>(order_.size()));
      if (communicator_.rank() == 0) std::printf("epoch %3zu  loss %.6f\n", epoch, report.epoch_losses.back());
    }
    report.exposed_seconds = communicator_.max(averager_.exposed_seconds() - exposed_before);
    report.final_loss = evaluate(dataset_.train).loss_sum / static_cast<double>(dataset_.train.size());
    report.accuracy = static_cast<double>(evaluate(dataset_.held_out).correct) / static_cast<double>(dataset_.held_out.size());
    report.checksums = communicator_.all_gather(checksum());
    return report;
  }

 private:
  static constexpr T kLearningRate = T(0.05);
  static constexpr T kMomentum = T(0.9);
  // Sums of 128 products, split over ranks differently, differ by a few units in the last place of float32 (6e-8) and of
  // float64 (1e-16).
  static constexpr double kGradientTolerance = sizeof(T) == 4 ? 1e-6 : 1e-14;

  std::span<const size_t> batch_at(size_t begin) const {
    return std::span<const size_t>(order_).subspan(begin, std::min(options_.batch, order_.size() - begin));
  }

  // Leaves the gradient averaged over ranks in gradient_; returns this rank's summed loss.
  double average_gradient(std::span<const size_t> batch) {
    const std::span<const size_t> slice = slice_of(batch, communicator_.rank(), communicator_.size());
    averager_.begin(slice.size(), batch.size());
    const double loss_sum = network_.compute_gradient(gather<T>(dataset_.train, slice), gradient_.span(),
                                                      [this](size_t layer) { averager_.start(layer); });
    averager_.finish();
    return loss_sum;
  }

  // Returns the number of steps. loss_sum: over this rank's slices.
  size_t train_epoch(double& loss_sum) {
    shuffle();
    size_t steps = 0;
    for (size_t begin = 0; begin < order_.size(); begin += options_.batch, ++steps) {
      loss_sum += average_gradient(batch_at(begin));
      apply_gradient();
    }
    return steps;
  }

  void apply_gradient() {
    const std::span<T> parameters = network_.parameters();
    const std::span<const T> gradient = gradient_.span();
    for (size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] + gradient[i];
      parameters[i] -= kLearningRate * velocity_[i];
    }
  }

  // Fisher-Yates by the generator's own numbers: the same order on all ranks and with every standard library.
  void shuffle() {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
  }

  // From the initial parameters, over the first batch and the last, shorter one (whose slices are unequal).
  double gradient_difference() {
    const size_t last_begin = (order_.size() - 1) / options_.batch * options_.batch;
    double largest = 0;
    for (const size_t begin : {size_t{0}, last_begin}) {
      average_gradient(batch_at(begin));
      std::vector<T> alone(gradient_.span().size());
      network_.compute_gradient(gather<T>(dataset_.train, batch_at(begin)), alone, [](size_t) {});
      double distance = 0;
      double norm = 0;
      for (size_t i = 0; i < alone.size(); ++i) {
        const double difference = static_cast<double>(gradient_.span()[i]) - static_cast<double>(alone[i]);
        distance += difference * difference;
        norm += static_cast<double>(alone[i]) * static_cast<double>(alone[i]);
      }
      largest = std::max(largest, std::sqrt(distance / norm));
    }
    return communicator_.max(largest);
  }

  Evaluation evaluate(std::span<const Example> examples) {
    std::vector<size_t> all(examples.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const auto slice = slice_of(std::span<const size_t>(all), communicator_.rank(), communicator_.size());
    const Evaluation own = network_.evaluate(gather<T>(examples, slice));
    return {communicator_.sum(own.loss_sum), communicator_.sum(own.correct)};
  }

  // FNV-1a over the bytes.
  uint64_t checksum() const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte byte : std::as_bytes(network_.parameters())) {
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
    return hash;
  }

  Communicator& communicator_;
  const Dataset& dataset_;
  const Options& options_;
  Network<T> network_;
  SharedArray<T> gradient_;
  GradientAverager<T> averager_;
  std::vector<T> velocity_;
  std::vector<size_t> order_;
  std::mt19937_64 random_;
};

}  // namespace digits
