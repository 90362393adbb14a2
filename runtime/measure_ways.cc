#include "runtime/measure_ways.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/ticks.h"
#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

// A way's repetitions follow one another in turns of this many: code and tables of a way that has just run are warm, as in a
// program that uses one.
constexpr size_t kTurn = 5;

class WayTimer {
 public:
  WayTimer(Communicator& communicator, Collective collective, size_t bytes) : communicator_(communicator) {
    call_.collective = collective;
    call_.dtype = DType::kFloat32;
    call_.count = std::max<size_t>(1, bytes / sizeof(float));
    call_.root = 0;
    const size_t blocks = has_blocks(schedule_collective(collective)) ? static_cast<size_t>(communicator.size()) : 1;
    send_.resize(call_.count * blocks, 1.0F);
    recv_.resize(call_.count * blocks);
    call_.send = send_.data();
    call_.recv = recv_.data();
    // A broadcast is in place.
    if (collective == Collective::kBroadcast) call_.send = recv_.data();
  }
  ~WayTimer() { communicator_.override_way(std::nullopt); }
  WayTimer(const WayTimer&) = delete;
  WayTimer& operator=(const WayTimer&) = delete;

  // Ticks that one operation took on this rank.
  Result<double> run(const Way& way) {
    communicator_.override_way(way);
    value_ += 1;
    std::vector<float>& input = call_.send == recv_.data() ? recv_ : send_;
    std::fill(input.begin(), input.end(), value_);
    Call barrier;
    RETURN_IF_ERROR(communicator_.run(barrier));
    const uint64_t began = ticks();
    RETURN_IF_ERROR(communicator_.run(call_));
    const uint64_t took = ticks() - began;
    sum_ = std::accumulate(recv_.begin(), recv_.end(), 0.0F);
    return static_cast<double>(took);
  }

  // The greatest over ranks, in place.
  Status slowest(std::vector<double>& values) {
    communicator_.override_way(std::nullopt);
    Call max;
    max.collective = Collective::kAllReduce;
    max.dtype = DType::kFloat64;
    max.op = ReduceOp::kMax;
    max.count = values.size();
    max.send = values.data();
    max.recv = values.data();
    return communicator_.run(max);
  }

 private:
  Communicator& communicator_;
  Call call_;
  std::vector<float> send_;
  std::vector<float> recv_;
  float value_ = 0;
  volatile float sum_ = 0;  // so that the output is read
};

// The least of the medians of parts that follow one another: what disturbs for a moment slows one part down.
double steady_median(std::span<double> values) {
  constexpr size_t kParts = 3;
  double least = std::numeric_limits<double>::infinity();
  for (size_t part = 0; part < kParts; ++part) {
    const size_t begin = part * values.size() / kParts;
    const size_t end = (part + 1) * values.size() / kParts;
    if (begin == end) continue;
    const std::span<double> sorted = values.subspan(begin, end - begin);
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    least = std::min(least, *middle);
  }
  return least;
}

}  // namespace

Result<std::vector<double>> measure_ways(Communicator& communicator, Collective collective, size_t bytes,
                                         std::span<const Way> ways, const MeasureBudget& budget) {
  const TickScale scale;
  WayTimer timer(communicator, collective, bytes);
  // The first run makes plans and touches pages; the second says how many fit into the budget, on all ranks alike.
  std::vector<double> repetition_us;
  for (const Way& way : ways) {
    RETURN_IF_ERROR(timer.run(way).status());
    const int64_t began = monotonic_ns();
    RETURN_IF_ERROR(timer.run(way).status());
    repetition_us.push_back(static_cast<double>(monotonic_ns() - began) / 1e3);
  }
  RETURN_IF_ERROR(timer.slowest(repetition_us));
  std::vector<size_t> repetitions;
  for (const double us : repetition_us) {
    const auto fitting = static_cast<size_t>(budget.each_us / std::max(us, 1e-3));
    repetitions.push_back(std::clamp(fitting, budget.least, budget.most));
  }
  std::vector<std::vector<double>> times(ways.size());
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (size_t i = 0; i < ways.size(); ++i) {
      for (size_t k = 0; k < kTurn && times[i].size() < repetitions[i]; ++k) {
        ASSIGN_OR_RETURN(const double took, timer.run(ways[i]));
        times[i].push_back(took);
      }
      goes_on = goes_on || times[i].size() < repetitions[i];
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& way_times : times) {
    RETURN_IF_ERROR(timer.slowest(way_times));
    medians.push_back(steady_median(way_times) * scale.ns_per_tick() / 1e3);
  }
  // One clock's scale for all.
  RETURN_IF_ERROR(timer.slowest(medians));
  return medians;
}

}  // namespace gimbal
