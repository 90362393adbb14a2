#include "tests/process/soak/rank.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "gimbal/gimbal.h"
#include "tests/support/leftovers.h"

namespace gimbal::test {
namespace {

constexpr int64_t kOperationTimeoutMs = 60'000;  // only a death may end a wait
constexpr int64_t kConnectTimeoutMs = 15'000;    // a rank that died before it joined is missed for so long

void require(gimbal_status_t status, const char* what) {
  if (status == GIMBAL_OK) return;
  throw std::runtime_error(std::string(what) + ": " + gimbal_status_name(status) + ": " + gimbal_last_error());
}

// A communicator, and sums on it whose order and sizes are equal on all ranks.
class Member {
 public:
  Member(gimbal_comm_t comm, const SoakPlan& plan, int32_t generation)
      : comm_(comm), random_(plan.seed + static_cast<uint64_t>(generation)) {
    require(gimbal_comm_rank(comm, &rank_), "rank");
    require(gimbal_comm_size(comm, &size_), "size");
    spoils_ = plan.plant == Plant::kWrongSum && generation > 0 && rank_ == 0;
  }

  [[nodiscard]] int32_t size() const { return size_; }

  // Throws when it is wrong. Blocking and started, small and large ones in turn.
  gimbal_status_t sum() {
    constexpr size_t kCounts[] = {1, 3, 1'000, 70'000, 700'000};
    data_.resize(kCounts[random_() % std::size(kCounts)]);
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = (rank_ + 1) * pattern(i);
    if (spoils_) ++data_.back();
    const gimbal_status_t status = random_() % 2 == 0 ? sum_blocking() : sum_started();
    if (status != GIMBAL_OK) return status;
    for (size_t i = 0; i < data_.size(); ++i) {
      if (data_[i] == size_ * (size_ + 1) / 2 * pattern(i)) continue;
      throw std::runtime_error("wrong sum of " + std::to_string(size_) + " ranks: element " + std::to_string(i) + " of " +
                               std::to_string(data_.size()) + " is " + std::to_string(data_[i]));
    }
    return GIMBAL_OK;
  }

 private:
  static int32_t pattern(size_t i) { return static_cast<int32_t>(i % 1000) + 1; }

  gimbal_status_t sum_blocking() {
    return gimbal_all_reduce(data_.data(), data_.data(), data_.size(), GIMBAL_INT32, GIMBAL_SUM, comm_, nullptr);
  }
  gimbal_status_t sum_started() {
    gimbal_request_t request = nullptr;
    const gimbal_status_t started =
        gimbal_all_reduce_start(data_.data(), data_.data(), data_.size(), GIMBAL_INT32, GIMBAL_SUM, comm_, nullptr, &request);
    return started == GIMBAL_OK ? gimbal_wait(&request) : started;
  }

  gimbal_comm_t comm_;
  std::mt19937_64 random_;
  int32_t rank_ = -1;
  int32_t size_ = -1;
  bool spoils_ = false;
  std::vector<int32_t> data_;
};

gimbal_comm_t create(const SoakPlan& plan, int32_t rank, int32_t size, RankBoard& board) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.rendezvous = plan.rendezvous.c_str();
  config.transport = plan.transport.c_str();
  config.timeout_ms = kOperationTimeoutMs;
  config.connect_timeout_ms = kConnectTimeoutMs;
  gimbal_comm_t comm = nullptr;
  const gimbal_status_t status = gimbal_comm_create(&config, &comm);
  if (status != GIMBAL_OK && plan.may_be_refused) {
    if (status != GIMBAL_REMOTE && status != GIMBAL_TIMEOUT) require(status, "create beside a death");
    board.refused.store(true);
    return nullptr;
  }
  require(status, "create");
  return comm;
}

void sum_and_shrink(const SoakPlan& plan, gimbal_comm_t comm, RankBoard& board) {
  for (int32_t generation = 0;; ++generation) {
    Member member(comm, plan, generation);
    gimbal_status_t status = GIMBAL_OK;
    constexpr int kSumsBeforeReady = 3;
    for (int sums = 0; status == GIMBAL_OK; ++sums) {
      status = member.sum();
      if (sums == kSumsBeforeReady) board.size.store(member.size());
      if (sums > kSumsBeforeReady && member.size() == 1) {
        require(gimbal_comm_destroy(comm), "destroy of the last");
        return;
      }
    }
    if (status != GIMBAL_REMOTE) require(status, "a sum beside a death");
    gimbal_comm_t smaller = nullptr;
    require(gimbal_comm_shrink(comm, &smaller), "shrink");
    require(gimbal_comm_destroy(comm), "destroy");
    comm = smaller;
    if (plan.plant == Plant::kLeak && fcntl(0, F_DUPFD_CLOEXEC, 0) < 0) throw std::runtime_error("nothing to leak");
  }
}

}  // namespace

int live(const SoakPlan& plan, int32_t rank, int32_t size, RankBoard& board) {
  try {
    const Resources before = current_resources();
    if (gimbal_comm_t comm = create(plan, rank, size, board); comm != nullptr) sum_and_shrink(plan, comm, board);
    const std::string left = leftovers(before, current_resources());
    if (!left.empty()) throw std::runtime_error("left behind: " + left);
    return 0;
  } catch (const std::exception& error) {
    std::strncpy(board.problem, error.what(), sizeof(board.problem) - 1);
    board.has_problem.store(true);
    return 1;
  }
}

}  // namespace gimbal::test
