#include "runtime/tune_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/scoped_environment.h"

namespace gimbal {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr Way kFlag = {kDirectAlgorithm, Protocol::kFlag, 1, kFlagBytes};
constexpr Way kTwoShots = {kDirectAlgorithm, Protocol::kTwoShots, 1, kChunkBytes};
constexpr Way kRing = {"ring", Protocol::kSlots, 2, kSlotBytes};

TunedRun run_of(Rank ranks, double cpus) {
  TunedRun run;
  run.inputs.ranks_per_node = ranks;
  run.inputs.cpus = cpus;
  run.inputs.place_of.assign(static_cast<size_t>(ranks), 0);
  run.corrections.add({Collective::kAllReduce, "ring", Protocol::kSlots, 65536, 1.25});
  run.corrections.add({Collective::kAllReduce, "direct", Protocol::kTwoShots, 65536, 0.75});
  run.tables[{Collective::kAllReduce, DType::kFloat32}] = {{0, kFlag}, {4097, kTwoShots}, {1'000'000, kRing}};
  return run;
}

Tuning sample() {
  Tuning tuning;
  tuning.version = "0.1.0";
  tuning.fingerprint = 0xabcdef0123456789;
  tuning.runs = {run_of(2, 2), run_of(8, 2)};
  return tuning;
}

// The sentence that a changed file is refused with.
std::string refusal(const std::function<void(nlohmann::ordered_json&)>& change) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(format_tuning(sample()));
  change(json);
  const Result<Tuning> tuning = parse_tuning(json.dump());
  return tuning.ok() ? "accepted" : tuning.status().message();
}

TEST(TuneCache, IsReadAsItWasWritten) {
  const Result<Tuning> read = parse_tuning(format_tuning(sample()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->version, "0.1.0");
  EXPECT_EQ(read->fingerprint, 0xabcdef0123456789U);
  ASSERT_EQ(read->runs.size(), 2U);
  EXPECT_EQ(read->runs[0].tables, sample().runs[0].tables);
  EXPECT_EQ(read->runs[0].corrections.factor(kRing, Collective::kAllReduce, 65536), 1.25);
  EXPECT_EQ(format_tuning(*read), format_tuning(sample()));
}

TEST(TuneCache, RefusesWhatIsNoTuning) {
  EXPECT_EQ(parse_tuning("").status().message(), "is no JSON");
  EXPECT_EQ(parse_tuning("{").status().message(), "is no JSON");
  EXPECT_EQ(parse_tuning("[]").status().message(), "tuning: allowed is an object");
  EXPECT_EQ(parse_tuning(std::string(kMostTuningBytes + 1, ' ')).status().message(), "is larger than 1 MiB");
}

TEST(TuneCache, NamesThePlaceOfWhatItRefuses) {
  EXPECT_EQ(refusal([](auto& json) { json["gimbal_tune"] = 2; }), "tuning/gimbal_tune: allowed is a whole number from 1 to 1");
  EXPECT_EQ(refusal([](auto& json) { json["fingerprint"] = "xyz"; }), "tuning/fingerprint: allowed is 16 hexadecimal digits");
  EXPECT_EQ(refusal([](auto& json) { json["runs"][1]["inputs"]["ranks"] = 0; }),
            "tuning/runs/1/inputs/ranks: allowed is a whole number from 1 to 100000");
  EXPECT_EQ(refusal([](auto& json) { json["runs"][0]["inputs"]["memory"][0] = 0; }),
            "tuning/runs/0/inputs/memory/0: allowed is a number from 1e-09 to 1e+09");
  EXPECT_EQ(refusal([](auto& json) { json["runs"][0]["factors"][0][4] = -1; }),
            "tuning/runs/0/factors/0/4: allowed is a number from 1e-06 to 1e+06");
  EXPECT_EQ(refusal([](auto& json) { json["runs"][0]["tables"][0][2][2][1] = "star"; }),
            "tuning/runs/0/tables/0/2/2/1: allowed is an algorithm of all_reduce with this protocol");
}

TEST(TuneCache, RefusesTablesThatDoNotCoverEverySizeOnce) {
  const auto row_begins_at = [](size_t row, uint64_t bytes) {
    return refusal([=](auto& json) { json["runs"][0]["tables"][0][2][row][0] = bytes; });
  };
  EXPECT_THAT(row_begins_at(0, 8), HasSubstr("a row that begins at 0"));
  EXPECT_THAT(row_begins_at(2, 4097), HasSubstr("above the row before"));
  EXPECT_THAT(row_begins_at(1, 8192), HasSubstr("where flags end"));
}

TEST(TuneCache, RefusesPlacesThatDoNotFitTheRanks) {
  EXPECT_THAT(refusal([](auto& json) { json["runs"][0]["inputs"]["place_of"] = {0}; }),
              HasSubstr("place_of: allowed is an array of 2"));
  EXPECT_THAT(refusal([](auto& json) {
                json["runs"][0]["inputs"]["place_of"] = {0, 1};
              }),
              HasSubstr("link_of: allowed is an array of 4"));
}

TEST(TuneCache, FindsTheRunOfTheNearestJob) {
  const Tuning tuning = sample();
  EXPECT_EQ(find_run(tuning, 2, 2), &tuning.runs[0]);
  EXPECT_EQ(find_run(tuning, 8, 2), &tuning.runs[1]);
  EXPECT_EQ(find_run(tuning, 6, 2), &tuning.runs[1]);
  EXPECT_EQ(find_run(tuning, 2, 64), &tuning.runs[0]) << "with a CPU each, more CPUs change nothing";
  EXPECT_EQ(find_run(tuning, 8, 8), nullptr) << "8 ranks that shared 2 CPUs say nothing of 8 with one each";
  EXPECT_EQ(find_run(tuning, 8, 1), nullptr);
  EXPECT_EQ(find_run(tuning, 64, 2), nullptr);
}

class TuneCacheFile : public ::testing::Test {
 protected:
  TuneCacheFile() {
    std::string name = fs::temp_directory_path() / "gimbal-tune-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~TuneCacheFile() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(TuneCacheFile, IsWrittenWithItsFoldersAndReplacedWhole) {
  const std::string path = folder_ / "a" / "b" / "tune.json";
  ASSERT_TRUE(write_tuning_file(path, "first").ok());
  ASSERT_TRUE(write_tuning_file(path, "second").ok());
  const Result<std::string> text = read_tuning_file(path);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "a" / "b"), fs::directory_iterator()), 1);
}

TEST_F(TuneCacheFile, ThatIsMissingIsEmpty) {
  const Result<std::string> text = read_tuning_file(folder_ / "none");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "");
}

TEST_F(TuneCacheFile, ThatIsNoFileOrTooLargeIsRefusedAtOnce) {
  EXPECT_THAT(read_tuning_file(folder_).status().message(), HasSubstr("is no regular file"));
  EXPECT_THAT(read_tuning_file("/dev/zero").status().message(), HasSubstr("is no regular file"));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(read_tuning_file(folder_ / "pipe").status().message(), HasSubstr("is no regular file"));
  const std::string large = folder_ / "large";
  std::ofstream(large) << std::string(kMostTuningBytes + 1, ' ');
  EXPECT_THAT(read_tuning_file(large).status().message(), HasSubstr("larger than 1 MiB"));
}

TEST_F(TuneCacheFile, LiesWhereTheSettingOrXdgOrHomeSay) {
  const test::ScopedEnvironment xdg("XDG_CACHE_HOME", folder_.c_str());
  EXPECT_EQ(tuning_path("", 0xabc), folder_ / "gimbal" / "tune-0000000000000abc.json");
  EXPECT_EQ(tuning_path("/elsewhere", 0xabc), "/elsewhere");
  EXPECT_EQ(tuning_path("off", 0xabc), "");
  EXPECT_FALSE(may_have_tuning("off"));
  EXPECT_FALSE(may_have_tuning("")) << "the folder is not there";
  fs::create_directory(folder_ / "gimbal");
  EXPECT_TRUE(may_have_tuning(""));
  const test::ScopedEnvironment relative("XDG_CACHE_HOME", "relative");
  const test::ScopedEnvironment home("HOME", folder_.c_str());
  EXPECT_EQ(tuning_path("", 1), folder_ / ".cache" / "gimbal" / "tune-0000000000000001.json");
}

}  // namespace
}  // namespace gimbal
