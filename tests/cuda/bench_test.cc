// gimbal-bench --memory cuda, on simulated devices: rows as on the host, checked to the last element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/bench_output.h"
#include "tests/support/command.h"

namespace gimbal::test {
namespace {

using testing::HasSubstr;

CommandResult bench(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {binary("gimbal-bench-simulated"), "-n", "3", "-g", "2", "--memory", "cuda"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  CommandOptions how;
  how.environment = {{"CUDA_SIM_DEVICES", "2"}};
  return run_command(arguments, how);
}

void expect_right(const CommandResult& result, size_t rows) {
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK"));
  const std::vector<BenchRow> found = bench_rows(result.out);
  EXPECT_EQ(found.size(), rows) << result.out;
  for (const BenchRow& row : found) EXPECT_EQ(row.out_of_place.wrong, "0") << row.bytes;
}

TEST(DeviceBench, RunsEveryCollectiveAndNamesTheDevices) {
  for (const char* collective :
       {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "gather", "scatter", "sendrecv"}) {
    const CommandResult result = bench({"--collective", collective, "-b", "8", "-e", "32K", "-f", "64", "--threads"});
    expect_right(result, 3);
    EXPECT_THAT(result.out, HasSubstr("# Using devices"));
    EXPECT_THAT(result.out, testing::ContainsRegex("Rank  1 Group  0 Pid +[0-9]+ on .* device 1 \\("));
  }
}

TEST(DeviceBench, LaunchesGraphsOfNativeAllReduces) {
  const CommandResult result = bench({"-b", "8", "-e", "32K", "-f", "64", "-G", "3", "--threads"});
  expect_right(result, 3);
  EXPECT_THAT(result.out, HasSubstr("graph: 3"));
}

TEST(DeviceBench, SaysWhyACallCannotBeCaptured) {
  const CommandResult result = bench({"--collective", "barrier", "-G", "1", "--threads"});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("goes by way of the host, which a CUDA graph cannot replay"));
}

TEST(DeviceBench, TakesGraphsOnDevicesOnly) {
  const CommandResult result = run_command({binary("gimbal-bench-simulated"), "-G", "1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("-G: \"1\" is not 0, or any number with --memory cuda"));
}

}  // namespace
}  // namespace gimbal::test
