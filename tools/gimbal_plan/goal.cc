#include "tools/gimbal_plan/goal.h"

#include <array>
#include <cmath>
#include <vector>

#include "collectives/accesses.h"

namespace gimbal {
namespace {

class RankText {
 public:
  RankText(const Schedule& schedule, const GoalOptions& options)
      : schedule_(schedule), options_(options), last_(schedule.channels, {kNoStep, kNoStep}), end_of_(schedule.steps.size()) {}

  std::string write() {
    for (size_t i = 0; i < schedule_.steps.size(); ++i) write_step(i);
    return text_;
  }

 private:
  [[nodiscard]] uint64_t bytes(const Step& step, Payload payload) const {
    const double ratio = payload == Payload::kPartial ? options_.partial_ratio : 1;
    return static_cast<uint64_t>(std::llround(static_cast<double>(step.count * options_.chunk_bytes) * ratio));
  }

  // One line of its own label, after the lines before of the same step.
  void line(const std::string& what) {
    const std::string label = "l" + std::to_string(++labels_);
    text_ += label + ": " + what + "\n";
    for (const int32_t earlier : requires_) text_ += label + " requires l" + std::to_string(earlier) + "\n";
    requires_ = {labels_};
  }

  void calculate(uint64_t bytes, double gbps) {
    line("calc " + std::to_string(std::llround(static_cast<double>(bytes) / gbps)));  // bytes per GB/s are nanoseconds
  }

  void write_step(size_t index) {
    const Step& step = schedule_.steps[index];
    const std::string tag = " tag " + std::to_string(step.channel);
    int32_t& before = last_[step.channel][on_send_cursor(step) ? 1 : 0];
    requires_.clear();
    if (before != kNoStep) requires_.push_back(end_of_[static_cast<size_t>(before)]);
    if (step.after != kNoStep && step.after != before) requires_.push_back(end_of_[static_cast<size_t>(step.after)]);
    if (receives_from(step) != kNoRank) {
      line("recv " + std::to_string(bytes(step, step.payload)) + "b from " + std::to_string(step.peer) + tag);
    }
    switch (step.op) {
      case Op::kCopy:
        calculate(bytes(step, Payload::kFinal), options_.memory.copy_gbps);
        break;
      case Op::kReduce:
      case Op::kRecvReduce:
      case Op::kRecvReduceSend:
        calculate(bytes(step, step.op == Op::kReduce ? Payload::kFinal : step.payload), options_.memory.reduce_gbps);
        break;
      case Op::kSend:
      case Op::kRecv:
      case Op::kRecvSend:
        break;
    }
    if (sends_to(step) != kNoRank) {
      line("send " + std::to_string(bytes(step, step.sent)) + "b to " + std::to_string(sends_to(step)) + tag);
    }
    before = static_cast<int32_t>(index);
    end_of_[index] = labels_;
  }

  const Schedule& schedule_;
  const GoalOptions& options_;
  std::vector<std::array<int32_t, 2>> last_;  // by channel and cursor: the step before
  std::vector<int32_t> end_of_;               // of each step, its last label
  std::vector<int32_t> requires_;
  int32_t labels_ = 0;
  std::string text_;
};

}  // namespace

std::string goal_text(const Algorithm& algorithm, const CollectiveSpec& spec, Fusion fusion, const GoalOptions& options) {
  std::string text = "num_ranks " + std::to_string(spec.nranks) + "\n";
  for (Rank rank = 0; rank < spec.nranks; ++rank) {
    const Schedule schedule = build_schedule(algorithm, spec, rank, fusion);
    text += "\nrank " + std::to_string(rank) + " {\n" + RankText(schedule, options).write() + "}\n";
  }
  return text;
}

}  // namespace gimbal
