// What scripts that read nccl-tests' output find here.
#include "tools/gimbal_bench/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/gimbal_bench/sizes.h"

namespace gimbal::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> fields(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> all;
  for (std::string field; stream >> field;) all.push_back(field);
  return all;
}

Half half(double time_us, double algbw, double busbw, std::optional<size_t> wrong) {
  return {time_us, algbw, busbw, {1, 9, 4, 3, 7, 8, 2}, wrong};
}

Row all_reduce_row() {
  const Operation operation = {Kind::kAllReduce, DType::kFloat32, ReduceOp::kSum, 0, 1024};
  return {operation, 4096, half(10, 1.5, 2.5, 0), half(11, 1.25, 2.25, 3)};
}

TEST(Table, HasNcclTestsFieldsThenThePercentiles) {
  EXPECT_THAT(fields(format_row({}, all_reduce_row())),
              ElementsAre("4096", "1024", "float", "sum", "-1", "10.00", "1.50", "2.50", "0", "11.00", "1.25", "2.25", "3",
                          "3.00", "8.00", "3.00", "8.00"));
}

TEST(Table, AddsTheSpreadOfSingleCallsAtTheEndWhenAsked) {
  Options options;
  options.per_iteration = true;

  const std::vector<std::string> all = fields(format_row(options, all_reduce_row()));

  ASSERT_EQ(all.size(), 23u);
  EXPECT_THAT(std::vector<std::string>(all.begin() + 17, all.end()),
              ElementsAre("1.00", "9.00", "50.0", "1.00", "9.00", "50.0"));
}

TEST(Table, SaysNotApplicableWithoutChecksAndNamesTheRoot) {
  const Operation operation = {Kind::kReduce, DType::kFloat8E4m3, ReduceOp::kMax, 2, 8};
  const Row row = {operation, 8, half(1, 1, 1, std::nullopt), half(1, 1, 1, std::nullopt)};

  const std::vector<std::string> all = fields(format_row({}, row));

  EXPECT_EQ(all[2], "f8e4m3");
  EXPECT_EQ(all[4], "2");
  EXPECT_EQ(all[8], "N/A");
  EXPECT_EQ(all[12], "N/A");
}

TEST(Table, KeepsThePositionsOfACollectiveThatHasNoInPlaceForm) {
  const Operation operation = {Kind::kAllToAll, DType::kFloat32, ReduceOp::kSum, 0, 8};
  const Row row = {operation, 64, half(1, 1, 1, 0), std::nullopt};

  const std::vector<std::string> all = fields(format_row({}, row));

  EXPECT_EQ(all[3], "none");
  EXPECT_EQ(all[11], "0.00");
  EXPECT_EQ(all[12], "N/A");
}

TEST(Table, AveragesOverTheHalvesThatThereAre) {
  Summary summary;
  summary.add(all_reduce_row());
  summary.host_bytes = 4096;

  const std::string foot = format_foot({}, summary);

  EXPECT_THAT(foot, HasSubstr("# Out of bounds values : 3 FAILED\n"));
  EXPECT_THAT(foot, HasSubstr("# Avg bus bandwidth    : 2.375\n"));
}

TEST(BusFactor, IsNcclTestsAndZeroForOneRank) {
  EXPECT_DOUBLE_EQ(bus_factor(Kind::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Kind::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Kind::kBroadcast, 4), 1);
  for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kBroadcast}) EXPECT_EQ(bus_factor(kind, 1), 0);
}

TEST(Summarize, TakesPercentilesByNearestRank) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);

  const CallTimes calls = summarize(times);

  EXPECT_EQ(calls.p50_us, 50);
  EXPECT_EQ(calls.p95_us, 95);
  EXPECT_EQ(calls.p99_us, 99);
  EXPECT_EQ(calls.min_us, 1);
  EXPECT_EQ(calls.max_us, 100);
  EXPECT_DOUBLE_EQ(calls.mean_us, 50.5);
}

std::vector<size_t> all_sizes(const Options& options) {
  std::vector<size_t> sizes;
  for (std::optional<size_t> bytes = options.min_bytes; bytes; bytes = next_size(options, *bytes)) sizes.push_back(*bytes);
  return sizes;
}

TEST(Sizes, GrowByTheFactorOrElseByTheStep) {
  Options options;
  options.min_bytes = 8;
  options.max_bytes = 100;
  options.step_bytes = 40;
  EXPECT_THAT(all_sizes(options), ElementsAre(8, 48, 88));
  options.factor = 3;
  EXPECT_THAT(all_sizes(options), ElementsAre(8, 24, 72));
}

TEST(Sizes, EndWhenTheyBeginAtZeroOrNearTheLargestNumber) {
  Options options;
  options.factor = 2;
  options.min_bytes = 0;
  options.max_bytes = 0;
  EXPECT_THAT(all_sizes(options), ElementsAre(0));
  options.max_bytes = 4;
  EXPECT_THAT(all_sizes(options), ElementsAre(0, 1, 2, 4));
  options.min_bytes = size_t{1} << 62;
  options.max_bytes = (size_t{1} << 63) - 1;
  EXPECT_THAT(all_sizes(options), ElementsAre(size_t{1} << 62));
}

TEST(CountFor, DividesTheArrayAmongRanksWhereTheCollectiveDoes) {
  EXPECT_EQ(count_for(Kind::kAllReduce, DType::kFloat32, 3, 100), 25u);
  EXPECT_EQ(count_for(Kind::kAllGather, DType::kFloat32, 3, 100), 8u);
}

}  // namespace
}  // namespace gimbal::bench
