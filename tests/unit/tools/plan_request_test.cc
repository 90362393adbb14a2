// What gimbal-plan is asked for, and what it says when it cannot be meant.
#include "tools/gimbal_plan/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal {
namespace {

using ::testing::HasSubstr;

TEST(PlanRequest, WithoutAnythingIsAnAllReduceOfAllAlgorithmsOnOneNode) {
  const Result<Request> request = parse_request({}, 4);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->shape.nranks(), 4);
  EXPECT_EQ(request->shape.nodes(), 1);
  EXPECT_EQ(request->algorithms, algorithms_for(Collective::kAllReduce));
  EXPECT_EQ(request->spec().nodes, &request->shape);
}

TEST(PlanRequest, RanksMayBeGivenInSeveralWays) {
  const auto shape = [](const RequestText& text) {
    const Result<Request> request = parse_request(text, 4);
    EXPECT_TRUE(request.ok()) << request.status().message();
    return request.ok() ? std::pair(request->shape.nodes(), request->shape.nranks()) : std::pair(0, 0);
  };
  EXPECT_EQ(shape({.ranks = "12"}), std::pair(1, 12));
  EXPECT_EQ(shape({.nodes = "3"}), std::pair(3, 3));
  EXPECT_EQ(shape({.ranks = "12", .nodes = "3"}), std::pair(3, 12));
  EXPECT_EQ(shape({.nodes = "3", .ranks_per_node = "2"}), std::pair(3, 6));
  EXPECT_EQ(shape({.ranks = "12", .ranks_per_node = "2"}), std::pair(6, 12));
  EXPECT_EQ(shape({.node_sizes = "3,1,2"}), std::pair(3, 6));
}

TEST(PlanRequest, WrongOnesNameTheOptionAndWhatIsAllowed) {
  const auto error = [](const RequestText& text) {
    const Result<Request> request = parse_request(text, 4);
    EXPECT_EQ(request.status().code(), Code::kInvalidArgument);
    return request.status().message();
  };
  EXPECT_EQ(error({.collective = "telepathy"}), "--collective: there is no collective \"telepathy\"");
  EXPECT_EQ(error({.collective = "barrier"}), "--collective: no schedule carries out barrier");
  EXPECT_THAT(error({.algorithm = "rong"}), HasSubstr("there is no \"rong\" for all_reduce; there is ring, "));
  EXPECT_THAT(error({.ranks = "0"}), HasSubstr("--ranks: "));
  EXPECT_THAT(error({.ranks = "7", .nodes = "2"}), HasSubstr("--ranks is 7, which 2 nodes of 3 ranks do not make"));
  EXPECT_THAT(error({.nodes = "1000000", .ranks_per_node = "1000000"}), HasSubstr("allowed: at most 1000000"));
  EXPECT_THAT(error({.node_sizes = "3,,2"}), HasSubstr("--node-sizes: "));
  EXPECT_THAT(error({.ranks = "5", .node_sizes = "3,2"}), HasSubstr("leave --ranks, --nodes and --ranks-per-node away"));
  EXPECT_THAT(error({.root = "4"}), HasSubstr("--root: "));
  EXPECT_THAT(error({.channels = "256"}), HasSubstr("--channels: "));
  EXPECT_THAT(error({.pieces = "x"}), HasSubstr("--pieces: "));
  EXPECT_THAT(error({.ranks = "1000000", .channels = "255", .pieces = "65536"}), HasSubstr("are more than 2^31 chunks"));
}

TEST(PlanRail, IsBandwidthThenLatencyThenOverhead) {
  const Result<LinkCost> full = parse_rail("50GB/s,3us,0.25us");
  ASSERT_TRUE(full.ok()) << full.status().message();
  EXPECT_EQ(full->bandwidth_gbps, 50);
  EXPECT_EQ(full->latency_us, 3);
  EXPECT_EQ(full->overhead_us, 0.25);
  const Result<LinkCost> short_form = parse_rail("12.5GB/s");
  ASSERT_TRUE(short_form.ok()) << short_form.status().message();
  EXPECT_EQ(short_form->bandwidth_gbps, 12.5);
  EXPECT_EQ(short_form->latency_us, 2);
  for (const char* wrong :
       {"", "50", "50Gbit/s", "0GB/s", "-1GB/s", "nanGB/s", "infGB/s", "50GB/s,", "50GB/s,2 apples", "50GB/s,2us,x"}) {
    EXPECT_EQ(parse_rail(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(PlanBytes, AreAtLeastOne) {
  EXPECT_EQ(parse_message_bytes("1G").value(), uint64_t{1} << 30);
  for (const char* wrong : {"0", "-1", "1E", "2P"}) EXPECT_FALSE(parse_message_bytes(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace gimbal
