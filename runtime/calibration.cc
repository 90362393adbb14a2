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
  // Two buffers of kBytes.
  Measurement(Communicator& communicator, float* send, float* recv) : communicator_(communicator), send_(send), recv_(recv) {
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
        ASSIGN_OR_RETURN(const uint64_t took, run_once(static_cast<float>(repetition)));
        if (repetition >= kWarmUps) times[i].push_back(took);
      }
    }
    return times;
  }

 private:
  // As in real use, inputs are fresh in this CPU's cache and outputs are read: with buffers that nobody touches, lines that a
  // peer wrote would look cheap.
  Result<uint64_t> run_once(float value) {
    std::fill_n(send_, call_.count, value);
    Call barrier;
    RETURN_IF_ERROR(communicator_.run(barrier));
    const uint64_t began = ticks();
    RETURN_IF_ERROR(communicator_.run(call_));
    const float expected = value * static_cast<float>(communicator_.size());
    const auto right = static_cast<size_t>(std::count(recv_, recv_ + call_.count, expected));
    const uint64_t took = ticks() - began;
    if (right != call_.count) {
      return Status(Code::kInternal, "an all-reduce returned a wrong sum while it was measured");
    }
    return took;
  }

  Communicator& communicator_;
  float* const send_;
  float* const recv_;
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
  const std::vector<MeasuredChoice> direct_candidates = {{.direct_two_shot = true, .direct_streaming = false},
                                                         {.direct_two_shot = true, .direct_streaming = true},
                                                         {.direct_two_shot = false, .direct_streaming = false},
                                                         {.direct_two_shot = false, .direct_streaming = true}};
  ASSIGN_OR_RETURN(void* const shared, communicator.allocate(2 * kBytes));
  auto* const values = static_cast<float*>(shared);
  Measurement direct(communicator, values, values + kBytes / sizeof(float));
  ASSIGN_OR_RETURN(const auto direct_times, direct.run(direct_candidates));
  RETURN_IF_ERROR(communicator.free(shared));

  MeasuredChoice verdict = direct_candidates[fastest(direct_times)];
  // Writing into the peer's cache wins only where it is near, and by a factor: a clearer sign for staged operations than their
  // own times, which differ by 15 %.
  verdict.near = verdict.direct_two_shot && !verdict.direct_streaming;
  // Numbers of operations, statistics and the flight recorder begin with the caller's first operation.
  communicator.forget_operations();
  return communicator.adopt_first_rank(verdict);
}

}  // namespace gimbal
