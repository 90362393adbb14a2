#include "tools/gimbal_bench/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/deadline.h"
#include "tools/gimbal_bench/check_data.h"

namespace gimbal::bench {
namespace {

class HalfMeasurement {
 public:
  HalfMeasurement(const Options& options, const BenchRank& rank, const Operation& operation, const Buffers& buffers)
      : options_(options), rank_(rank), operation_(operation), buffers_(buffers), called_(rank.called(buffers)) {}

  Result<Half> measure() {
    Half half = {};
    // Numbers that are usual for the type, so that no denormal or NaN is what is timed.
    write_inputs(operation_, rank_.rank(), rank_.ranks(), 0, buffers_);
    RETURN_IF_ERROR(rank_.upload(area_bytes()));
    RETURN_IF_ERROR(measure_batch(half));
    RETURN_IF_ERROR(measure_calls(half));
    return half;
  }

  // Every round has inputs of its own, and all ranks' results are compared to the last element.
  Result<size_t> count_wrong_elements() {
    size_t wrong = 0;
    for (size_t round = 1; round <= options_.check_rounds; ++round) {
      write_inputs(operation_, rank_.rank(), rank_.ranks(), round, buffers_);
      RETURN_IF_ERROR(rank_.upload(area_bytes()));
      RETURN_IF_ERROR(call(operation_, called_, rank_.comm(), rank_.rank(), rank_.ranks(), 1));
      RETURN_IF_ERROR(rank_.download(area_bytes()));
      wrong += count_wrong(operation_, rank_.rank(), rank_.ranks(), round, buffers_);
    }
    ASSIGN_OR_RETURN(const std::vector<double> all, rank_.gather({static_cast<double>(wrong)}));
    return static_cast<size_t>(std::accumulate(all.begin(), all.end(), 0.0));
  }

 private:
  Status call_iteration() const {
    return call(operation_, called_, rank_.comm(), rank_.rank(), rank_.ranks(), options_.aggregate);
  }

  [[nodiscard]] size_t area_bytes() const { return array_elements(operation_, rank_.ranks()) * dtype_size(operation_.dtype); }

  // Of so many iterations back to back: by the device's clock where the memory is a device's.
  Result<double> time_us(size_t iterations) const {
    const auto iterate = [&]() -> Status {
      for (size_t i = 0; i < iterations; ++i) RETURN_IF_ERROR(call_iteration());
      return {};
    };
    if (DeviceMemory* const device = rank_.device()) {
      const size_t launches = options_.graph_launches;
      if (launches == 0) return device->time_us(iterate);
      ASSIGN_OR_RETURN(const double elapsed_us, device->time_graph_us(iterate, launches));
      return elapsed_us / static_cast<double>(launches);
    }
    const int64_t begin_ns = monotonic_ns();
    RETURN_IF_ERROR(iterate());
    return static_cast<double>(monotonic_ns() - begin_ns) / 1e3;
  }

  // nccl-tests' time: n calls back to back, divided by n.
  Status measure_batch(Half& half) const {
    // A communicator's first call on device memory cannot be captured.
    const size_t warmup = std::max<size_t>(options_.warmup, options_.graph_launches > 0 ? 1 : 0);
    for (size_t i = 0; i < warmup; ++i) RETURN_IF_ERROR(call_iteration());
    if (rank_.device() != nullptr) RETURN_IF_ERROR(rank_.download(0));
    RETURN_IF_ERROR(rank_.barrier());
    ASSIGN_OR_RETURN(const double batch_us, time_us(options_.iterations));
    const double own_us = batch_us / static_cast<double>(options_.iterations * options_.aggregate);
    ASSIGN_OR_RETURN(const std::vector<double> all, rank_.gather({own_us}));
    half.time_us = average(all);
    const auto bytes = static_cast<double>(array_elements(operation_, rank_.ranks()) * dtype_size(operation_.dtype));
    half.algbw_gbps = bytes / half.time_us / 1e3;
    half.busbw_gbps = half.algbw_gbps * bus_factor(operation_.kind, rank_.ranks());
    return {};
  }

  Status measure_calls(Half& half) const {
    std::vector<double> own_us(options_.iterations);
    for (double& own : own_us) {
      RETURN_IF_ERROR(rank_.barrier());
      ASSIGN_OR_RETURN(const double call_us, time_us(1));
      own = call_us / static_cast<double>(options_.aggregate);
    }
    ASSIGN_OR_RETURN(const std::vector<double> all, rank_.gather(own_us));
    std::vector<double> slowest_us(options_.iterations, 0);
    for (size_t i = 0; i < all.size(); ++i) {
      double& slowest = slowest_us[i % options_.iterations];
      slowest = std::max(slowest, all[i]);
    }
    half.calls = summarize(std::move(slowest_us));
    return {};
  }

  [[nodiscard]] double average(const std::vector<double>& of_ranks) const {
    switch (options_.average) {
      case Average::kRankZero:
        return of_ranks.front();
      case Average::kMean:
        return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) / static_cast<double>(of_ranks.size());
      case Average::kMinimum:
        return *std::min_element(of_ranks.begin(), of_ranks.end());
      case Average::kMaximum:
        return *std::max_element(of_ranks.begin(), of_ranks.end());
    }
    return 0;
  }

  const Options& options_;
  const BenchRank& rank_;
  const Operation& operation_;
  const Buffers& buffers_;  // the host's: inputs, and what is compared
  const Buffers called_;
};

Result<Half> measure_half(const Options& options, const BenchRank& rank, const Operation& operation, const Buffers& buffers) {
  HalfMeasurement measurement(options, rank, operation, buffers);
  ASSIGN_OR_RETURN(Half half, measurement.measure());
  if (options.check_rounds > 0) {
    ASSIGN_OR_RETURN(half.wrong, measurement.count_wrong_elements());
  }
  return half;
}

}  // namespace

CallTimes summarize(std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  // Nearest rank: the smallest time that so many percent of the calls did not exceed.
  const auto percentile = [&](double percent) {
    const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(times_us.size())));
    return times_us[std::max<size_t>(rank, 1) - 1];
  };
  const auto count = static_cast<double>(times_us.size());
  const double mean = std::accumulate(times_us.begin(), times_us.end(), 0.0) / count;
  const double squares = std::accumulate(times_us.begin(), times_us.end(), 0.0,
                                         [mean](double sum, double time) { return sum + (time - mean) * (time - mean); });
  return {times_us.front(), times_us.back(), mean, percentile(50), percentile(95), percentile(99), std::sqrt(squares / count)};
}

Result<Row> measure_row(const Options& options, const BenchRank& rank, const Operation& operation) {
  Row row = {operation, array_elements(operation, rank.ranks()) * dtype_size(operation.dtype), std::nullopt, std::nullopt};
  ASSIGN_OR_RETURN(row.out_of_place, measure_half(options, rank, operation, {rank.first(), rank.second()}));
  if (!has_in_place(operation.kind)) return row;
  ASSIGN_OR_RETURN(row.in_place, measure_half(options, rank, operation, in_place(operation, rank.rank(), rank.second())));
  return row;
}

}  // namespace gimbal::bench
