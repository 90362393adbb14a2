#include "runtime/settings.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/unit/runtime/no_launcher.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SettingsTest : public testing::Test {
 protected:
  void set(const char* name, const char* value) { environment_.set(name, value); }
  static gimbal_config_t config_of(int32_t rank, int32_t size) {
    gimbal_config_t config = GIMBAL_CONFIG_INIT;
    config.rank = rank;
    config.size = size;
    return config;
  }
  // The sentence of a config that must be refused.
  static std::string refusal(const gimbal_config_t* config) {
    const Result<Settings> settings = resolve_settings(config);
    if (settings.ok()) return "accepted";
    EXPECT_EQ(settings.status().code(), Code::kInvalidArgument);
    return settings.status().message();
  }

 private:
  NoLauncher environment_;
};

TEST_F(SettingsTest, WithoutAnythingAreTheDefaults) {
  const Result<Settings> settings = resolve_settings(nullptr);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->rank, 0);
  EXPECT_EQ(settings->size, 1);
  EXPECT_EQ(settings->timeout_ms, 600'000);
  EXPECT_EQ(settings->connect_timeout_ms, 120'000);
  EXPECT_EQ(settings->warn_after_ms, 30'000);
  EXPECT_FALSE(settings->deterministic);
  EXPECT_EQ(settings->transport, "auto");
  EXPECT_EQ(settings->name, "world");
  EXPECT_TRUE(settings->algorithms.empty());
}

TEST_F(SettingsTest, ConfigComesBeforeTheEnvironment) {
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  set("GIMBAL_RENDEZVOUS", "unix://environment");
  set("GIMBAL_TIMEOUT", "7s");
  set("GIMBAL_CONNECT_TIMEOUT", "8s");
  set("GIMBAL_DETERMINISTIC", "1");
  set("GIMBAL_ALGORITHM", "ring");
  set("GIMBAL_TRANSPORT", "auto");
  gimbal_config_t config = config_of(3, 4);
  config.rendezvous = "memory://config";
  config.timeout_ms = 70;
  config.connect_timeout_ms = 80;
  config.deterministic = 0;
  config.algorithm = "all_reduce:direct";
  config.transport = "shm";
  config.name = "mine";
  config.progress = GIMBAL_PROGRESS_CALLER;
  const Result<Settings> settings = resolve_settings(&config);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->rank, 3);
  EXPECT_EQ(settings->size, 4);
  EXPECT_EQ(settings->rendezvous, "memory://config");
  EXPECT_EQ(settings->timeout_ms, 70);
  EXPECT_EQ(settings->connect_timeout_ms, 80);
  EXPECT_FALSE(settings->deterministic);
  EXPECT_EQ(settings->algorithms, (std::map<Collective, std::string>{{Collective::kAllReduce, "direct"}}));
  EXPECT_EQ(settings->transport, "shm");
  EXPECT_EQ(settings->name, "mine");
  EXPECT_TRUE(settings->caller_progress);
}

TEST_F(SettingsTest, EnvironmentComesBeforeTheDefaults) {
  set("GIMBAL_TIMEOUT", "7s");
  set("GIMBAL_CONNECT_TIMEOUT", "8s");
  set("GIMBAL_WARN_AFTER", "250ms");
  set("GIMBAL_SPIN", "2ms");
  set("GIMBAL_DETERMINISTIC", "1");
  set("GIMBAL_PRECISION", "element");
  set("GIMBAL_CHUNK_BYTES", "64K");
  set("GIMBAL_SLOT_BYTES", "5000");
  set("GIMBAL_JOB_KEY", "secret");
  set("GIMBAL_FLIGHT_RECORDER", "/tmp/%r");
  const Result<Settings> settings = resolve_settings(nullptr);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->timeout_ms, 7'000);
  EXPECT_EQ(settings->connect_timeout_ms, 8'000);
  EXPECT_EQ(settings->warn_after_ms, 250);
  EXPECT_EQ(settings->spin_ns, 2'000'000);
  EXPECT_TRUE(settings->deterministic);
  EXPECT_TRUE(settings->element_precision);
  EXPECT_EQ(settings->chunk_bytes, size_t{64} << 10);
  EXPECT_EQ(settings->slot_bytes, 4992U) << "whole cache lines";
  EXPECT_EQ(settings->job_key, "secret");
  EXPECT_EQ(settings->flight_recorder, "/tmp/%r");
}

TEST_F(SettingsTest, ConfigOfAnotherVersionIsRefused) {
  gimbal_config_t config = config_of(0, 1);
  config.struct_bytes = 8;
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("GIMBAL_CONFIG_INIT"), HasSubstr("8")));
  config = config_of(0, 1);
  config.abi_version = 99;
  EXPECT_THAT(refusal(&config), HasSubstr("GIMBAL_CONFIG_INIT"));
}

TEST_F(SettingsTest, RankAndSizeThatMakeNoSenseAreRefused) {
  struct Identity {
    int32_t rank;
    int32_t size;
    const char* named;
  };
  for (const Identity& one : std::vector<Identity>{{5, 4, "5"},
                                                   {4, 4, "4"},
                                                   {-2, 4, "-2"},
                                                   {0, 0, "0"},
                                                   {0, -5, "-5"},
                                                   {0, 100001, "100001"},
                                                   {2, -1, "2"},
                                                   {-1, 2, "2"}}) {
    const gimbal_config_t config = config_of(one.rank, one.size);
    EXPECT_THAT(refusal(&config), AllOf(HasSubstr("rank"), HasSubstr(one.named))) << one.rank << " of " << one.size;
  }
}

TEST_F(SettingsTest, FieldsOutsideTheirRangesAreRefusedByName) {
  gimbal_config_t config = config_of(0, 1);
  config.deterministic = 7;
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("deterministic"), HasSubstr("7")));
  config = config_of(0, 1);
  config.timeout_ms = -3;
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("config.timeout_ms"), HasSubstr("-3")));
  config = config_of(0, 1);
  config.connect_timeout_ms = -4;
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("config.connect_timeout_ms"), HasSubstr("-4")));
  config = config_of(0, 1);
  config.progress = static_cast<gimbal_progress_t>(2);
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("config.progress"), HasSubstr("2")));
  config = config_of(0, 1);
  config.transport = "pigeon";
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("config.transport"), HasSubstr("pigeon"), HasSubstr("shm")));
  config = config_of(0, 1);
  config.algorithm = "all_reduce:";
  EXPECT_THAT(refusal(&config), AllOf(HasSubstr("config.algorithm"), HasSubstr("all_reduce:")));
}

TEST_F(SettingsTest, StoreWithoutACallbackIsRefused) {
  gimbal_store_t store = {};
  store.set = [](void*, const char*, const void*, size_t) { return 0; };
  store.get = [](void*, const char*, void*, size_t*, int64_t) { return 0; };
  store.wait = [](void*, const char*, int64_t) { return 0; };
  gimbal_config_t config = config_of(0, 2);
  config.store = &store;
  EXPECT_THAT(refusal(&config), HasSubstr("add"));
  store.add = [](void*, const char*, int64_t, int64_t*) { return 0; };
  const Result<Settings> settings = resolve_settings(&config);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->rendezvous, "") << "a store needs no meeting place";
}

TEST_F(SettingsTest, SeveralRanksWithoutAMeetingPlaceAreRefused) {
  const gimbal_config_t config = config_of(0, 2);
  EXPECT_THAT(refusal(&config), HasSubstr("GIMBAL_RENDEZVOUS"));
}

TEST_F(SettingsTest, DisagreeingLaunchersAreNoted) {
  set("RANK", "0");
  set("WORLD_SIZE", "1");
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  EXPECT_THAT(resolve_settings(nullptr).value().launcher_conflict, AllOf(HasSubstr("RANK"), HasSubstr("PMI_RANK")));
}

struct BadVariable {
  const char* name;
  const char* value;
};

class BadVariables : public SettingsTest, public testing::WithParamInterface<BadVariable> {};

TEST_P(BadVariables, AreRefusedWithNameAndValue) {
  set(GetParam().name, GetParam().value);
  EXPECT_THAT(refusal(nullptr), AllOf(HasSubstr(GetParam().name), HasSubstr(GetParam().value)));
}

std::vector<BadVariable> bad_variables() {
  std::vector<BadVariable> bad = {{"GIMBAL_DETERMINISTIC", "7"},
                                  {"GIMBAL_PRECISION", "double"},
                                  {"GIMBAL_TCP_IO", "select"},
                                  {"GIMBAL_TRANSPORT", "pigeon"},
                                  {"GIMBAL_ALGORITHM", "nosuch:ring"},
                                  {"GIMBAL_ALGORITHM", "ring;"},
                                  {"GIMBAL_TIMEOUT", "-1"},
                                  {"GIMBAL_TIMEOUT", "0"},
                                  {"GIMBAL_TIMEOUT", "0.1ms"},
                                  {"GIMBAL_TIMEOUT", "soon"},
                                  {"GIMBAL_CONNECT_TIMEOUT", "0s"},
                                  {"GIMBAL_CONNECT_TIMEOUT", "12x"},
                                  {"GIMBAL_WARN_AFTER", "-5s"},
                                  {"GIMBAL_SPIN", "99999999999999999999h"}};
  for (const char* size : {"1", "7", "0", "-1", "4g", "99999999999999999999", "12abc", "1.2.3", "0x4000"}) {
    bad.push_back({"GIMBAL_CHUNK_BYTES", size});
    bad.push_back({"GIMBAL_SLOT_BYTES", size});
  }
  return bad;
}

INSTANTIATE_TEST_SUITE_P(Settings, BadVariables, testing::ValuesIn(bad_variables()));

// Odd, but sizes.
TEST_F(SettingsTest, SizesThatDoNotDivideAnythingAreAccepted) {
  for (const char* size : {"123000", "131074", "1000000", "4096", "16M"}) {
    set("GIMBAL_CHUNK_BYTES", size);
    set("GIMBAL_SLOT_BYTES", size);
    const Result<Settings> settings = resolve_settings(nullptr);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    EXPECT_EQ(settings->slot_bytes % 64, 0U) << size;
  }
}

TEST_F(SettingsTest, EmulatedNodesTakeTheirRanksInTurn) {
  set("GIMBAL_RENDEZVOUS", "memory://nodes");
  set("GIMBAL_EMULATE_NODES", "3,1");
  std::vector<int32_t> nodes;
  for (int32_t rank = 0; rank < 9; ++rank) {
    const gimbal_config_t config = config_of(rank, 9);
    const Result<Settings> settings = resolve_settings(&config);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    nodes.push_back(settings->emulated_node);
  }
  EXPECT_EQ(nodes, (std::vector<int32_t>{0, 0, 0, 1, 2, 2, 2, 3, 4}));
}

TEST_F(SettingsTest, RefusesEmulatedNodesWithoutRanks) {
  set("GIMBAL_RENDEZVOUS", "memory://nodes");
  const gimbal_config_t config = config_of(0, 4);
  for (const char* value : {"0", "2,", "two"}) {
    set("GIMBAL_EMULATE_NODES", value);
    EXPECT_THAT(refusal(&config), HasSubstr("GIMBAL_EMULATE_NODES: ")) << value;
  }
}

TEST(ParseAlgorithms, TakesABareNameForEveryCollective) {
  const auto forced = parse_algorithms("ring");
  ASSERT_TRUE(forced.ok());
  EXPECT_EQ(forced->size(), static_cast<size_t>(kCollectiveCount));
  for (const auto& [collective, name] : *forced) EXPECT_EQ(name, "ring") << collective_name(collective);
}

TEST(ParseAlgorithms, LetsAnItemOverrideTheBareName) {
  const auto forced = parse_algorithms("ring;all_gather:direct");
  ASSERT_TRUE(forced.ok());
  EXPECT_EQ(forced->at(Collective::kAllGather), "direct");
  EXPECT_EQ(forced->at(Collective::kAllReduce), "ring");
  const auto other_order = parse_algorithms("all_gather:direct;ring");
  ASSERT_TRUE(other_order.ok());
  EXPECT_EQ(*other_order, *forced);
}

TEST(ParseAlgorithms, RefusesWhatIsNoList) {
  for (const char* text : {"", ";", "ring;", ":ring", "all_reduce:", "no_collective:ring", "all_reduce:ring;;ring"}) {
    const auto forced = parse_algorithms(text);
    EXPECT_FALSE(forced.ok()) << text;
    EXPECT_EQ(forced.status().code(), Code::kInvalidArgument) << text;
  }
}

TEST_F(SettingsTest, LogGoesToTheConfigsCallback) {
  std::vector<std::string> lines;
  gimbal_config_t config = config_of(0, 1);
  config.log_context = &lines;
  config.log = [](void* context, int level, const char* message) {
    static_cast<std::vector<std::string>*>(context)->push_back(std::to_string(level) + " " + message);
  };
  make_log(&config, Settings()).value().warning("a sentence");
  EXPECT_THAT(lines, testing::ElementsAre("1 a sentence"));
}

TEST_F(SettingsTest, LogLevelThatDoesNotExistIsRefused) {
  set("GIMBAL_LOG", "loud");
  const Result<Log> log = make_log(nullptr, Settings());
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.status().message(), AllOf(HasSubstr("GIMBAL_LOG"), HasSubstr("loud")));
}

}  // namespace
}  // namespace gimbal::test
