// Ranks that meet over verbs: which transport they take, what they say when they cannot, and what a death looks like. The
// adapters are tests/support/hostile_verbs.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "tests/support/communicator.h"
#include "tests/support/expect_ok.h"
#include "tests/support/folders.h"
#include "tests/support/hostile_fabric.h"
#include "tests/support/leftovers.h"
#include "tests/support/ranks.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/shared_page.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class VerbsRanks : public ProcessRanksTest {
 protected:
  void SetUp() override {
    ProcessRanksTest::SetUp();
    if (!std::filesystem::exists(kLibrary)) GTEST_SKIP() << "built without infiniband/verbs.h";
  }

  // The communicator that every rank makes; `prepare` sets a rank's variables before.
  static void run(int32_t ranks, const std::string& transport, const std::function<void(const RankContext&)>& prepare,
                  const std::function<void(const RankContext&, const gimbal_config_t&)>& body) {
    const std::vector<ProcessResult> results = run_processes(
        ranks,
        [&](const RankContext& context) {
          prepare(context);
          gimbal_config_t config = rank_config(context);
          config.transport = transport.c_str();
          body(context, config);
        },
        60'000);
    for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
  }

  static std::string how(const Communicator& communicator) {
    std::array<char, 1024> text = {};
    expect_ok(gimbal_explain(communicator.get(), GIMBAL_ALL_REDUCE, 4096, GIMBAL_FLOAT32, text.data(), text.size()));
    return text.data();
  }

  static void expect_right_sums(Communicator& communicator) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) {
      std::vector<float> values(count);
      std::iota(values.begin(), values.end(), static_cast<float>(communicator.rank()));
      communicator.all_reduce(values.data(), values.data(), count, GIMBAL_FLOAT32, GIMBAL_SUM);
      const auto ranks = static_cast<float>(communicator.size());
      for (const size_t i : {size_t{0}, count / 2, count - 1}) {
        EXPECT_EQ(values[i], ranks * static_cast<float>(i) + ranks * (ranks - 1) / 2) << count << " elements, at " << i;
      }
    }
  }

  // Of a communicator that cannot be made.
  static void expect_no_communicator(const gimbal_config_t& config, const testing::Matcher<std::string>& sentence) {
    gimbal_comm_t comm = nullptr;
    EXPECT_NE(gimbal_comm_create(&config, &comm), GIMBAL_OK);
    EXPECT_THAT(std::string(gimbal_last_error()), sentence);
  }

  static void nothing(const RankContext& /*context*/) {}

  const std::string kLibrary = binary("libhostile_verbs.so");
  const ScopedEnvironment library_{"GIMBAL_IBV_SO", kLibrary};
  const HostileFabric fabric_;
};

TEST_F(VerbsRanks, AddTheirNumbers) {
  for (const int32_t ranks : {2, 4}) {
    run(ranks, "verbs", nothing, [](const RankContext&, const gimbal_config_t& config) {
      Communicator communicator(config);
      EXPECT_THAT(how(communicator), HasSubstr("between nodes verbs over hostile"));
      expect_right_sums(communicator);
    });
  }
}

TEST_F(VerbsRanks, AddTheirNumbersWhateverTheOrderOfWrites) {
  for (const char* const seed : {"3", "4", "5"}) {
    const ScopedEnvironment seeded("HOSTILE_VERBS_SEED", seed);
    run(2, "verbs", nothing, [](const RankContext&, const gimbal_config_t& config) {
      Communicator communicator(config);
      expect_right_sums(communicator);
    });
  }
}

TEST_F(VerbsRanks, TakeVerbsBetweenNodesByThemselves) {
  const ScopedEnvironment nodes("GIMBAL_EMULATE_NODES", "2");
  run(4, "auto", nothing, [](const RankContext&, const gimbal_config_t& config) {
    Communicator communicator(config);
    EXPECT_THAT(how(communicator), HasSubstr("between nodes verbs over hostile"));
    expect_right_sums(communicator);
  });
}

TEST_F(VerbsRanks, NameBothWhenOneHasNoDevice) {
  const auto take_away = [](const RankContext& context) {
    if (context.rank == 1) setenv("HOSTILE_VERBS_PLAN", "devices=0", 1);
  };
  run(2, "verbs", take_away, [](const RankContext&, const gimbal_config_t& config) {
    expect_no_communicator(config, AllOf(HasSubstr("transport verbs is forced (GIMBAL_TRANSPORT), but rank 1 (pid "),
                                         HasSubstr("libibverbs finds no device, while rank 0 (pid "), HasSubstr("has a port")));
  });
}

TEST_F(VerbsRanks, TakeTcpWhenOneHasNoDevice) {
  const ScopedEnvironment nodes("GIMBAL_EMULATE_NODES", "1");
  const auto take_away = [](const RankContext& context) {
    if (context.rank == 1) setenv("HOSTILE_VERBS_PLAN", "devices=0", 1);
  };
  run(2, "auto", take_away, [](const RankContext&, const gimbal_config_t& config) {
    Communicator communicator(config);
    EXPECT_THAT(how(communicator), HasSubstr("between nodes TCP"));
    expect_right_sums(communicator);
  });
}

TEST_F(VerbsRanks, RefuseToFallBackWhenTheyAreStrict) {
  const ScopedEnvironment nodes("GIMBAL_EMULATE_NODES", "1");
  const ScopedEnvironment strict("GIMBAL_STRICT", "1");
  const auto take_away = [](const RankContext& context) {
    if (context.rank == 0) setenv("HOSTILE_VERBS_PLAN", "devices=0", 1);
  };
  run(2, "auto", take_away, [](const RankContext&, const gimbal_config_t& config) {
    expect_no_communicator(config, AllOf(HasSubstr("GIMBAL_STRICT is set"), HasSubstr("rank 0 (pid ")));
  });
}

TEST_F(VerbsRanks, TakeTcpWithoutAnyDevice) {
  const ScopedEnvironment nodes("GIMBAL_EMULATE_NODES", "1");
  const ScopedEnvironment strict("GIMBAL_STRICT", "1");
  const ScopedEnvironment plan("HOSTILE_VERBS_PLAN", "devices=0");
  run(2, "auto", nothing, [](const RankContext&, const gimbal_config_t& config) {
    Communicator communicator(config);
    EXPECT_THAT(how(communicator), HasSubstr("between nodes TCP"));
  });
}

TEST_F(VerbsRanks, NameTheGidIndexThatIsNone) {
  const ScopedEnvironment index("GIMBAL_IB_GID_INDEX", "200");
  run(2, "verbs", nothing, [](const RankContext&, const gimbal_config_t& config) {
    expect_no_communicator(config, AllOf(HasSubstr("rank "), HasSubstr("no RoCE v2 GID at index 200 (GIMBAL_IB_GID_INDEX)")));
  });
}

TEST_F(VerbsRanks, NameTheMtuThatOnePortHasNot) {
  const ScopedEnvironment mtu("GIMBAL_IB_MTU", "4096");
  const auto narrow = [](const RankContext& context) {
    if (context.rank == 1) setenv("HOSTILE_VERBS_PLAN", "mtu=1024", 1);
  };
  run(2, "verbs", narrow, [](const RankContext&, const gimbal_config_t& config) {
    expect_no_communicator(config, AllOf(HasSubstr("rank 0 (pid "), HasSubstr("cannot reach rank 1 (pid "),
                                         HasSubstr("takes 1024"), HasSubstr("takes 4096")));
  });
}

TEST_F(VerbsRanks, MeetWithTheLowerMtu) {
  const auto narrow = [](const RankContext& context) {
    if (context.rank == 1) setenv("HOSTILE_VERBS_PLAN", "mtu=1024", 1);
  };
  run(2, "verbs", narrow, [](const RankContext&, const gimbal_config_t& config) {
    Communicator communicator(config);
    expect_right_sums(communicator);
  });
}

TEST_F(VerbsRanks, NeedEqualNumbersOfQueuePairs) {
  const auto differ = [](const RankContext& context) {
    if (context.rank == 1) setenv("GIMBAL_IB_QUEUE_PAIRS", "3", 1);
  };
  run(2, "verbs", differ, [](const RankContext&, const gimbal_config_t& config) {
    expect_no_communicator(config, HasSubstr("GIMBAL_IB_QUEUE_PAIRS is 2 on rank 0, but 3 on rank 1"));
  });
}

TEST_F(VerbsRanks, SayHowMuchMemoryCouldNotBeLocked) {
  const auto forbid = [](const RankContext& context) {
    if (context.rank == 1) setenv("HOSTILE_VERBS_PLAN", "memlock=0", 1);
  };
  run(2, "verbs", forbid, [](const RankContext&, const gimbal_config_t& config) {
    expect_no_communicator(
        config, AllOf(HasSubstr("rank 1 (pid "), HasSubstr(" bytes of its message slots"), HasSubstr("RLIMIT_MEMLOCK")));
  });
}

TEST_F(VerbsRanks, KnowWhoHasDied) {
  // What a dead process has given to its adapter does not go out any more: it lives until its peer has all.
  const Shared<std::atomic<bool>> has_all;
  const std::vector<ProcessResult> results = run_processes(
      2,
      [&](const RankContext& context) {
        gimbal_config_t config = rank_config(context);
        config.transport = "verbs";
        Communicator communicator(config);
        expect_right_sums(communicator);
        if (context.rank == 1) {
          const Deadline deadline = Deadline::after_ms(30'000);
          while (!*has_all && !deadline.passed()) std::this_thread::yield();
          std::_Exit(0);
        }
        *has_all = true;
        float value = 1;
        EXPECT_EQ(gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT32, GIMBAL_SUM, communicator.get(), nullptr), GIMBAL_REMOTE);
        EXPECT_THAT(gimbal_last_error(), HasSubstr("rank 1 (pid "));
      },
      60'000);
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace gimbal::test
