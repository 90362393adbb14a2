// A communicator of those that are left: the loop that sends, hears and waits around Survivors.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/survivors.h"

namespace gimbal {
namespace {

// Tags of derived meshes: split's count up from 1.
constexpr uint64_t kShrinkTag = uint64_t{1} << 62;

// Makes the communicator of these members, and says whether all of them have made theirs. An error of `made` is this rank's
// last word; after an error of `whole` some may have heard from everybody.
struct Attempt {
  Result<std::shared_ptr<Communicator>> made;
  Status whole;
};
using MakeAttempt = std::function<Attempt(std::span<const Rank> members, uint64_t tag, Deadline deadline)>;

class Shrink {
 public:
  Shrink(Bootstrap& mesh, const Settings& settings, std::function<Status()> aborted, MakeAttempt make_attempt)
      : mesh_(mesh),
        silence_ms_(settings.shrink_wait_ms),
        deadline_(Deadline::after_ms(settings.connect_timeout_ms)),
        aborted_(std::move(aborted)),
        make_attempt_(std::move(make_attempt)),
        survivors_(settings.rank, settings.size) {
    mesh_.watch([this] { return look(); });
  }
  ~Shrink() {
    mesh_.watch([] { return Status(); });
  }
  Shrink(const Shrink&) = delete;
  Shrink& operator=(const Shrink&) = delete;

  Result<std::shared_ptr<Communicator>> run() {
    Result<std::shared_ptr<Communicator>> result = run_rounds();
    tell(result.ok() ? survivors_.decision(survivors_.decided().value_or(survivors_.round())) : survivors_.resignation());
    return result;
  }

 private:
  Result<std::shared_ptr<Communicator>> run_rounds() {
    for (;;) {
      tell(survivors_.begin_round());
      RETURN_IF_ERROR(hear_round());
      if (std::shared_ptr<Communicator> decided = find_decided()) return decided;
      RETURN_IF_ERROR(survivors_.check_included());
      if (!survivors_.agreed()) continue;
      RETURN_IF_ERROR(survivors_.check_quorum());
      const std::vector<Rank> members = survivors_.members();
      Attempt attempt = make_attempt_(members, kShrinkTag | survivors_.round(), soon());
      if (!attempt.made.ok()) {
        // A peer's end, or its going on to the next round, is looked into there; what is this rank's own trouble stays.
        const Code code = attempt.made.status().code();
        if (code != Code::kRemote && code != Code::kTimeout) return attempt.made.status();
        continue;
      }
      if (attempt.whole.ok()) return attempt.made;
      attempts_.emplace_back(survivors_.round(), *std::move(attempt.made));
    }
  }

  void tell(const SurvivorMessage& message) { mesh_.tell_survivors(encode(message)); }

  // Until everybody who is not gone has spoken in this round, or it is known that the round does not matter any more.
  Status hear_round() {
    const Deadline silence = soon();
    for (;;) {
      const std::vector<Rank> awaited = survivors_.awaited();
      if (awaited.empty() || survivors_.decided() || !survivors_.check_included().ok()) return {};
      RETURN_IF_ERROR(aborted_());
      if (deadline_.passed()) {
        return {Code::kTimeout, "the ranks that are left did not agree before the connect deadline; " +
                                    describe_ranks(awaited) + " had not answered"};
      }
      hear(awaited, Deadline::after_ms(std::min(kLookAgainMs, silence.remaining_ms())));
      if (!silence.passed()) continue;
      for (const Rank rank : survivors_.awaited()) survivors_.mark(rank, RankState::kSilent);
    }
  }

  void hear(std::span<const Rank> awaited, Deadline deadline) {
    for (const Bootstrap::Heard& heard : mesh_.hear_survivors(awaited, deadline)) {
      const std::optional<SurvivorMessage> message = heard.message ? parse_survivor_message(*heard.message) : std::nullopt;
      // Who speaks nonsense is of no use for more.
      if (message) {
        survivors_.hear(heard.from, *message);
      } else {
        survivors_.mark(heard.from, heard.silent ? RankState::kSilent : RankState::kGone);
      }
    }
  }

  // While this rank makes a communicator.
  Status look() {
    RETURN_IF_ERROR(aborted_());
    hear({}, Deadline::after_ms(0));
    return survivors_.attempt_stands() ? Status() : Status(Code::kRemote, "a peer has given this attempt up");
  }

  std::shared_ptr<Communicator> find_decided() const {
    const auto found = std::find_if(attempts_.begin(), attempts_.end(),
                                    [this](const auto& attempt) { return attempt.first == survivors_.decided(); });
    return found == attempts_.end() ? nullptr : found->second;
  }

  // A rank that answers at all does so within this time, and making a communicator takes less.
  [[nodiscard]] Deadline soon() const { return Deadline::after_ms(std::min<int64_t>(silence_ms_, deadline_.remaining_ms())); }

  static constexpr int kLookAgainMs = 50;

  Bootstrap& mesh_;
  const int64_t silence_ms_;
  const Deadline deadline_;
  const std::function<Status()> aborted_;
  const MakeAttempt make_attempt_;
  Survivors survivors_;
  std::vector<std::pair<uint32_t, std::shared_ptr<Communicator>>> attempts_;  // this rank's part was whole; by round
};

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::shrink() {
  if (size() == 1) return derive(std::array{rank()}, settings_, 0, Deadline::after_ms(settings_.connect_timeout_ms));
  if (status().ok()) {
    const Status dead = find_dead_peer();
    if (dead.ok()) {
      return Status(Code::kInvalidUsage, "communicator \"" + name() +
                                             "\" has not failed: gimbal_comm_shrink is for the ranks " +
                                             "that are left after a failure");
    }
    static_cast<void>(fail(dead, nullptr));  // the others are to come here too
  }
  aborted_.store(false, std::memory_order_release);  // it may be why the ranks are here; from now on it ends this call
  const auto aborted = [this]() -> Status {
    if (!aborted_.load(std::memory_order_acquire)) return {};
    return {Code::kAborted, "communicator \"" + name() + "\" was aborted by rank " + std::to_string(rank())};
  };
  const auto make_attempt = [this](std::span<const Rank> members, uint64_t tag, Deadline deadline) {
    Attempt attempt{.made = derive(members, settings_, tag, deadline), .whole = {}};
    if (!attempt.made.ok() || members.size() == 1) return attempt;
    const Result<std::vector<std::vector<std::byte>>> all = (*attempt.made)->bootstrap_->all_gather({}, deadline);
    attempt.whole = all.status();
    return attempt;
  };
  Result<std::shared_ptr<Communicator>> child = Shrink(*bootstrap_, settings_, aborted, make_attempt).run();
  if (child.ok()) log_.info("goes on as rank " + std::to_string((*child)->rank()) + " of " + std::to_string((*child)->size()));
  return child;
}

}  // namespace gimbal
