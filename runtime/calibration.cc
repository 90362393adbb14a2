#include "runtime/calibration.h"

#include <algorithm>

#include "base/ticks.h"
#include "runtime/communicator.h"

namespace gimbal {
namespace {

// Larger than a second-level cache's half, smaller than a share of the last level: where the candidates differ most
// (bench/results, node_direct).
constexpr size_t kBytes = size_t{512} << 10;
constexpr size_t kRepetitions = 5;
constexpr size_t kWarmUps = 2;

class Measurement {
 public:
  Measurement(Communicator& communicator, const void* send, void* recv) : communicator_(communicator) {
    call_.collective = Collective::kAllReduce;
    call_.send = send;
    call_.recv = recv;
    call_.dtype = DType::kFloat32;
    call_.count = kBytes / sizeof(float);
  }

  // Ticks of each repetition; candidates take turns, so that a disturbance hits all of them.
  Result<std::vector<std::vector<uint64_t>>> run(const std::vector<MeasuredChoice>& candidates) {
    std::vector<std::vector<uint64_t>> times(candidates.size());
    for (size_t repetition = 0; repetition < kWarmUps + kRepetitions; ++repetition) {
      for (size_t i = 0; i < candidates.size(); ++i) {
        communicator_.choose(candidates[i]);
        const uint64_t began = ticks();
        RETURN_IF_ERROR(communicator_.run(call_));
        if (repetition >= kWarmUps) times[i].push_back(ticks() - began);
      }
    }
    return times;
  }

 private:
  Communicator& communicator_;
  Call call_;
};

}  // namespace

size_t fastest(const std::vector<std::vector<uint64_t>>& times) {
  size_t best = 0;
  uint64_t best_median = UINT64_MAX;
  for (size_t i = 0; i < times.size(); ++i) {
    std::vector<uint64_t> sorted = times[i];
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    if (*middle < best_median) {
      best_median = *middle;
      best = i;
    }
  }
  return best;
}

Result<MeasuredChoice> calibrate(Communicator& communicator) {
  std::vector<MeasuredChoice> candidates(2);
  candidates[1].staged_two_shot = true;
  candidates[1].direct_two_shot = true;
  std::vector<float> ordinary(2 * kBytes / sizeof(float), 1.0F);
  Measurement staged(communicator, ordinary.data(), ordinary.data() + kBytes / sizeof(float));
  ASSIGN_OR_RETURN(const auto staged_times, staged.run(candidates));

  ASSIGN_OR_RETURN(void* const shared, communicator.allocate(2 * kBytes));
  Measurement direct(communicator, shared, static_cast<std::byte*>(shared) + kBytes);
  ASSIGN_OR_RETURN(const auto direct_times, direct.run(candidates));
  RETURN_IF_ERROR(communicator.free(shared));

  MeasuredChoice verdict;
  verdict.staged_two_shot = fastest(staged_times) == 1;
  verdict.direct_two_shot = fastest(direct_times) == 1;
  // Numbers of operations, statistics and the flight recorder begin with the caller's first operation.
  communicator.forget_operations();
  return communicator.adopt_first_rank(verdict);
}

}  // namespace gimbal
