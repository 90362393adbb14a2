// The agreement on who is left, with ranks that die and fall silent at every moment: whoever goes on goes on together.
#include "runtime/survivors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>

namespace gimbal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SurvivorMessage said(uint32_t round, std::vector<RankState> states) { return {round, false, std::move(states)}; }
constexpr RankState kHere = RankState::kPresent;
constexpr RankState kMute = RankState::kSilent;
constexpr RankState kDead = RankState::kGone;

TEST(Survivors, AgreeWhenAllHaveSaidTheSame) {
  Survivors survivors(0, 3);
  EXPECT_EQ(survivors.begin_round(), said(1, {kHere, kHere, kHere}));
  survivors.hear(1, said(1, {kHere, kHere, kDead}));
  EXPECT_TRUE(survivors.awaited().empty()) << "what one knows all know";
  EXPECT_FALSE(survivors.agreed());
  EXPECT_EQ(survivors.begin_round(), said(2, {kHere, kHere, kDead}));
  EXPECT_THAT(survivors.awaited(), ElementsAre(1));
  survivors.hear(1, said(2, {kHere, kHere, kDead}));
  EXPECT_TRUE(survivors.awaited().empty());
  EXPECT_TRUE(survivors.agreed());
  EXPECT_THAT(survivors.members(), ElementsAre(0, 1));
}

TEST(Survivors, KeepWhatWasSaidForALaterRound) {
  Survivors survivors(0, 3);
  survivors.begin_round();
  survivors.hear(2, said(1, {kHere, kHere, kHere}));
  survivors.hear(2, said(2, {kHere, kDead, kHere}));
  EXPECT_TRUE(survivors.awaited().empty());
  survivors.begin_round();
  EXPECT_TRUE(survivors.awaited().empty());
  EXPECT_TRUE(survivors.agreed());
  EXPECT_TRUE(survivors.attempt_stands());
}

TEST(Survivors, GiveAnAttemptUpWhenAPeerHasGoneOn) {
  Survivors survivors(0, 2);
  survivors.begin_round();
  survivors.hear(1, said(1, {kHere, kHere}));
  EXPECT_TRUE(survivors.attempt_stands());
  survivors.hear(1, said(2, {kHere, kHere}));
  EXPECT_FALSE(survivors.attempt_stands());
}

TEST(Survivors, TellARankThatTheOthersWentOnWithout) {
  Survivors survivors(2, 3);
  survivors.begin_round();
  survivors.hear(1, said(2, {kHere, kHere, kMute}));
  EXPECT_EQ(survivors.check_included().code(), Code::kRemote);
  EXPECT_THAT(survivors.check_included().message(), HasSubstr("rank 1 went on without rank 2"));
}

TEST(Survivors, GoOnOnlyWithMoreThanHalfOfTheLiving) {
  const auto go_on = [](Rank rank, const std::vector<RankState>& others) {
    Survivors survivors(rank, static_cast<Rank>(others.size()));
    for (size_t peer = 0; peer < others.size(); ++peer) survivors.mark(static_cast<Rank>(peer), others[peer]);
    return survivors.check_quorum();
  };
  EXPECT_TRUE(go_on(0, {kHere, kHere, kMute}).ok());
  EXPECT_TRUE(go_on(1, {kDead, kHere, kDead, kDead}).ok()) << "the dead do not go on elsewhere";
  EXPECT_TRUE(go_on(0, {kHere, kMute}).ok());
  EXPECT_EQ(go_on(1, {kMute, kHere}).code(), Code::kTimeout);
  EXPECT_THAT(go_on(2, {kMute, kMute, kHere}).message(), HasSubstr("ranks 0 and 1 live but do not answer; rank 2 are too few"));
}

// ---- A job of ranks over channels that keep their order, stepped one random event at a time.

struct Sent {
  enum class Kind : uint8_t { kWord, kWhole } kind = Kind::kWord;  // kWhole: this rank has made its own part of a round
  SurvivorMessage word;
  uint32_t round = 0;
};

struct Trouble {
  int deaths = 0;
  bool silence = false;  // ranks are taken for silent that are only slow
};

constexpr uint32_t kJobs = 4'000;

class Job {
 public:
  Job(Rank size, uint32_t seed, const Trouble& trouble) : random_(seed), trouble_(trouble) {
    for (Rank rank = 0; rank < size; ++rank) ranks_.emplace_back(rank, size);
    channels_.resize(static_cast<size_t>(size) * static_cast<size_t>(size));
    for (Rank rank = 0; rank < size; ++rank) begin_round(rank);
  }

  // Random steps until nobody can move; deaths and silences fall between any two of them, and within a telling.
  void run() {
    for (int step = 0; step < kMostSteps; ++step) {
      if (trouble_.deaths > 0 && chance(40)) kill(static_cast<Rank>(random_() % ranks_.size()));
      std::vector<Rank> movable;
      for (Rank rank = 0; rank < size(); ++rank) {
        if (at(rank).lives && !at(rank).over) movable.push_back(rank);
      }
      if (movable.empty()) return;
      move(movable[random_() % movable.size()]);
    }
  }

  using Result = std::pair<uint32_t, std::vector<Rank>>;  // round and members of the communicator
  [[nodiscard]] bool lives(Rank rank) const { return ranks_[static_cast<size_t>(rank)].lives; }
  [[nodiscard]] bool over(Rank rank) const { return ranks_[static_cast<size_t>(rank)].over; }
  [[nodiscard]] std::optional<Result> result(Rank rank) const { return ranks_[static_cast<size_t>(rank)].result; }

 private:
  static constexpr int kMostSteps = 20'000;

  struct Process {
    Process(Rank rank, Rank size) : survivors(rank, size) {}
    Survivors survivors;
    bool lives = true;
    bool over = false;
    bool making = false;                          // an attempt of this round
    std::map<uint32_t, std::set<Rank>> whole;     // who has said so, by round
    std::map<uint32_t, std::vector<Rank>> parts;  // attempts whose own part was whole: the members
    std::optional<Result> result;
  };

  [[nodiscard]] Rank size() const { return static_cast<Rank>(ranks_.size()); }
  Process& at(Rank rank) { return ranks_[static_cast<size_t>(rank)]; }
  std::deque<Sent>& channel(Rank from, Rank to) {
    return channels_[static_cast<size_t>(from) * ranks_.size() + static_cast<size_t>(to)];
  }
  bool chance(uint32_t one_in) { return random_() % one_in == 0; }

  void kill(Rank victim) {
    if (!at(victim).lives) return;
    at(victim).lives = false;
    --trouble_.deaths;
  }

  // A rank may die having told only some.
  void tell(Rank from, const Sent& sent) {
    for (Rank to = 0; to < size(); ++to) {
      if (!at(from).lives) return;
      if (to == from) continue;
      channel(from, to).push_back(sent);
      if (trouble_.deaths > 0 && chance(30)) kill(from);
    }
  }
  void tell(Rank from, const SurvivorMessage& word) { tell(from, Sent{Sent::Kind::kWord, word, 0}); }

  void begin_round(Rank rank) {
    at(rank).making = false;
    tell(rank, at(rank).survivors.begin_round());
  }

  void move(Rank rank) {
    receive(rank);
    Process& self = at(rank);
    if (const auto decided = self.survivors.decided(); decided && self.parts.contains(*decided)) {
      finish(rank, *decided);
    } else if (!self.survivors.check_included().ok()) {
      resign(rank);
    } else if (self.making) {
      step_attempt(rank);
    } else if (self.survivors.awaited().empty()) {
      end_round(rank);
    } else if (trouble_.silence && chance(200)) {
      for (const Rank peer : self.survivors.awaited()) self.survivors.mark(peer, kMute);
    }
  }

  // One message of one peer, or the news of its end, which comes after all that it has sent.
  void receive(Rank rank) {
    const auto from = static_cast<Rank>(random_() % ranks_.size());
    if (from == rank) return;
    std::deque<Sent>& queue = channel(from, rank);
    Process& self = at(rank);
    if (queue.empty()) {
      if (!at(from).lives) self.survivors.mark(from, kDead);
      return;
    }
    const Sent sent = queue.front();
    queue.pop_front();
    if (sent.kind == Sent::Kind::kWord) {
      self.survivors.hear(from, sent.word);
    } else {
      self.whole[sent.round].insert(from);
    }
  }

  void end_round(Rank rank) {
    Process& self = at(rank);
    if (!self.survivors.agreed()) return begin_round(rank);
    if (!self.survivors.check_quorum().ok()) return resign(rank);
    if (chance(10)) return begin_round(rank);  // this rank's own part failed
    self.making = true;
    const uint32_t round = self.survivors.round();
    self.parts[round] = self.survivors.members();
    self.whole[round].insert(rank);
    tell(rank, Sent{Sent::Kind::kWhole, {}, round});
  }

  void step_attempt(Rank rank) {
    Process& self = at(rank);
    const uint32_t round = self.survivors.round();
    const std::vector<Rank>& members = self.parts[round];
    const auto is_whole = [&](Rank member) { return self.whole[round].contains(member); };
    if (std::all_of(members.begin(), members.end(), is_whole)) return finish(rank, round);
    const auto is_lost = [&](Rank member) { return !is_whole(member) && !at(member).lives && channel(member, rank).empty(); };
    if (!self.survivors.attempt_stands() || std::any_of(members.begin(), members.end(), is_lost)) begin_round(rank);
  }

  void resign(Rank rank) {
    at(rank).over = true;
    tell(rank, at(rank).survivors.resignation());
  }

  void finish(Rank rank, uint32_t round) {
    Process& self = at(rank);
    self.over = true;
    self.result = Result(round, self.parts[round]);
    tell(rank, self.survivors.decision(round));
  }

  std::mt19937 random_;
  std::deque<Process> ranks_;
  std::vector<std::deque<Sent>> channels_;
  Trouble trouble_;
};

// Without silence every rank that lives goes on, and all of them together.
TEST(Survivors, WhoLivesGoesOnWithTheSameMembersWhenPeersDieAtAnyMoment) {
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    const auto size = static_cast<Rank>(2 + seed % 5);
    Job job(size, seed, {.deaths = static_cast<int>(seed / 5 % 4), .silence = false});
    job.run();
    std::set<Job::Result> results;
    for (Rank rank = 0; rank < size; ++rank) {
      if (!job.lives(rank)) continue;
      ASSERT_TRUE(job.result(rank).has_value()) << "seed " << seed << ": rank " << rank << " does not go on";
      ASSERT_THAT(job.result(rank)->second, testing::Contains(rank)) << "seed " << seed;
      results.insert(*job.result(rank));
    }
    ASSERT_LE(results.size(), 1u) << "seed " << seed << ": the living go on apart";
  }
}

// With silence a rank may be left behind with an error, or with a communicator that can do nothing, since its peers are not in
// it. There is never a second one that can.
TEST(Survivors, NobodyGoesOnApartWhenPeersAreTakenForSilent) {
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    const auto size = static_cast<Rank>(2 + seed % 5);
    Job job(size, seed, {.deaths = static_cast<int>(seed / 5 % 3), .silence = true});
    job.run();
    std::set<Job::Result> usable;
    for (Rank rank = 0; rank < size; ++rank) {
      if (!job.lives(rank)) continue;
      ASSERT_TRUE(job.over(rank)) << "seed " << seed << ": rank " << rank << " waits for ever";
      const std::optional<Job::Result> result = job.result(rank);
      const auto takes_part = [&](Rank member) { return !job.lives(member) || job.result(member) == result; };
      if (result && std::all_of(result->second.begin(), result->second.end(), takes_part)) usable.insert(*result);
    }
    ASSERT_LE(usable.size(), 1u) << "seed " << seed << ": the living go on apart";
  }
}

}  // namespace
}  // namespace gimbal
