// The hierarchical algorithms over nodes of many shapes. (every_algorithm_test has them with every rank on a node of its own.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/accesses.h"
#include "collectives/node_shape.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

using ::testing::ElementsAre;

std::string describe(const NodeShape& shape) {
  std::string text = "nodes of";
  for (Rank node = 0; node < shape.nodes(); ++node) {
    text += node == 0 ? " {" : ", {";
    for (const Rank rank : shape.members(node)) text += (rank == shape.members(node).front() ? "" : " ") + std::to_string(rank);
    text += "}";
  }
  return text;
}

// 1 to 6 nodes of 1 to 5 ranks, uneven nodes, and ranks of one node that are not neighbours.
std::vector<NodeShape> shapes() {
  std::vector<NodeShape> result;
  for (Rank nodes = 1; nodes <= 6; ++nodes) {
    for (Rank ranks = 1; ranks <= 5; ++ranks) result.push_back(NodeShape::uniform(nodes, ranks));
  }
  const std::vector<std::vector<Rank>> uneven = {{1, 2},    {2, 1},    {3, 2},       {1, 4},
                                                 {5, 1, 3}, {2, 2, 1}, {1, 2, 3, 4}, {4, 4, 1, 1, 2}};
  for (const std::vector<Rank>& sizes : uneven) result.push_back(NodeShape::consecutive(sizes));
  const std::vector<std::vector<int32_t>> scattered = {
      {0, 1, 0, 1}, {7, 3, 3, 7, 5, 5}, {0, 1, 2, 0, 1, 2, 0}, {2, 1, 0, 0, 0, 1}};
  for (const std::vector<int32_t>& names : scattered) result.emplace_back(names);
  return result;
}

bool is_hierarchical(const Algorithm& algorithm) { return algorithm.name.starts_with("hier_"); }

std::vector<Algorithm> hierarchical_algorithms() {
  std::vector<Algorithm> found;
  for (const Algorithm& algorithm : algorithms()) {
    if (is_hierarchical(algorithm)) found.push_back(algorithm);
  }
  return found;
}

TEST(NodeShape, NumbersNodesByTheirFirstRankAndMembersByTheirRank) {
  const NodeShape shape(std::vector<int32_t>{7, 3, 3, 7, 3});
  EXPECT_EQ(shape.nodes(), 2);
  EXPECT_EQ(shape.slices(), 3);
  EXPECT_THAT(shape.members(0), ElementsAre(0, 3));
  EXPECT_THAT(shape.members(1), ElementsAre(1, 2, 4));
  EXPECT_EQ(shape.local_rank(4), 2);
  EXPECT_EQ(shape.carrier(0, 2), 0);
  EXPECT_EQ(shape.carrier(1, 2), 4);
}

class Hierarchical : public ::testing::TestWithParam<Algorithm> {
 protected:
  static void verify_all(uint8_t channels, uint32_t pieces, Fusion fusion, const std::vector<VerifyOptions>& windows) {
    for (const NodeShape& shape : shapes()) {
      CollectiveSpec spec = {.collective = GetParam().collective,
                             .nranks = shape.nranks(),
                             .channels = channels,
                             .pieces = pieces,
                             .nodes = &shape};
      const bool is_rooted = spec.collective == Collective::kBroadcast;
      for (spec.root = 0; spec.root < (is_rooted ? shape.nranks() : 1); ++spec.root) {
        ASSERT_EQ(admits(GetParam(), spec), "");
        const std::vector<Schedule> schedules = build_all(GetParam(), spec, fusion);
        for (const VerifyOptions& window : windows) {
          const Result<Verification> verification = verify(spec, schedules, window);
          ASSERT_TRUE(verification.ok()) << describe(shape) << ", root " << spec.root << ": "
                                         << verification.status().message();
          EXPECT_NE(verification->order, OrderClass::kDisagreed) << describe(shape);
        }
      }
    }
  }
};

TEST_P(Hierarchical, IsRightForEveryWindow) {
  for (const uint8_t channels : {1, 2}) verify_all(channels, 1, Fusion::kNone, {{1, 1}, {8, 1}});
}

TEST_P(Hierarchical, NeverBlocksWithRunsLongerThanTheWindow) { verify_all(1, 2, Fusion::kNone, {{1, 3}, {2, 8}}); }

TEST_P(Hierarchical, IsRightInSeveralPieces) { verify_all(2, 3, Fusion::kNone, {{1, 1}}); }

TEST_P(Hierarchical, IsRightWhenFusedWithASlotMoreThanItsRuns) {
  const uint32_t runs = GetParam().window_runs;
  verify_all(2, 1, Fusion::kFused, {{runs + 1, 1}, {3 * runs + 1, 3}});
  verify_all(1, 5, Fusion::kFused, {{runs + 1, 1}, {2 * runs + 1, 2}});
}

std::string test_name(const ::testing::TestParamInfo<Algorithm>& info) {
  return std::string(collective_name(info.param.collective)) + "_" + std::string(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(Registry, Hierarchical, ::testing::ValuesIn(hierarchical_algorithms()), test_name);

TEST(HierarchicalOrder, HalvingDoublingIsTheTreeWhereNodesHaveAPowerOfTwoOfConsecutiveRanks) {
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "hier_halving_doubling");
  for (Rank nodes = 1; nodes <= 9; ++nodes) {
    for (const Rank ranks : {1, 2, 4, 8}) {
      const NodeShape shape = NodeShape::uniform(nodes, ranks);
      const Result<OrderClass> order = order_class(algorithm, shape.nranks(), &shape);
      ASSERT_TRUE(order.ok()) << order.status().message();
      EXPECT_EQ(*order, OrderClass::kTree) << describe(shape);
      const Algorithm& halving = *find_algorithm(Collective::kReduceScatter, "hier_halving");
      EXPECT_EQ(order_class(halving, shape.nranks(), &shape).value(), OrderClass::kTree) << describe(shape);
    }
  }
}

// What the deterministic mode must refuse.
TEST(HierarchicalOrder, OtherPlacementsAndAlgorithmsAreNotTheTree) {
  const Algorithm& halving = *find_algorithm(Collective::kAllReduce, "hier_halving_doubling");
  for (const NodeShape& shape : {NodeShape::uniform(2, 3), NodeShape::consecutive(std::vector<Rank>{1, 4}),
                                 NodeShape(std::vector<int32_t>{0, 1, 0, 1})}) {
    const Result<OrderClass> order = order_class(halving, shape.nranks(), &shape);
    ASSERT_TRUE(order.ok()) << order.status().message();
    EXPECT_EQ(*order, OrderClass::kAgreed) << describe(shape);
  }
  const NodeShape shape = NodeShape::uniform(4, 4);
  for (const char* name : {"hier_ring", "hier_double_tree", "hier_all_pairs"}) {
    const Result<OrderClass> order = order_class(*find_algorithm(Collective::kAllReduce, name), 16, &shape);
    ASSERT_TRUE(order.ok()) << order.status().message();
    EXPECT_EQ(*order, OrderClass::kAgreed) << name;
  }
}

// Chunks of one node's ranks that leave for other nodes, over all its links.
uint64_t chunks_between_nodes(const Algorithm& algorithm, const CollectiveSpec& spec, Rank node) {
  uint64_t chunks = 0;
  for (const Rank rank : spec.nodes->members(node)) {
    for (const Step& step : build_schedule(algorithm, spec, rank, Fusion::kNone).steps) {
      if (sends_to(step) != kNoRank && spec.nodes->node_of(sends_to(step)) != node) chunks += step.count;
    }
  }
  return chunks;
}

TEST(HierarchicalTraffic, BetweenNodesIsThatOfAnAllReduceOverTheNodes) {
  for (const NodeShape& shape : {NodeShape::uniform(4, 8), NodeShape::consecutive(std::vector<Rank>{8, 5, 1, 3})}) {
    const CollectiveSpec spec = {.nranks = shape.nranks(), .nodes = &shape};
    const auto slices = static_cast<uint64_t>(shape.slices());
    for (const char* name : {"hier_ring", "hier_halving_doubling", "hier_all_pairs"}) {
      const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, name);
      for (Rank node = 0; node < shape.nodes(); ++node) {
        EXPECT_EQ(chunks_between_nodes(algorithm, spec, node), slices * 2 * 3) << name << ", node " << node;  // of 4 parts
      }
    }
  }
}

// Chunks that all nodes send to others, of a broadcast of slices() chunks and an all-gather of one per rank.
TEST(HierarchicalTraffic, EveryNodeGetsWhatIsNotItsOwnOnce) {
  const NodeShape shape = NodeShape::consecutive(std::vector<Rank>{4, 2, 3});
  const auto sent = [&](const Algorithm& algorithm) {
    const CollectiveSpec spec = {.collective = algorithm.collective, .nranks = 9, .nodes = &shape};
    uint64_t chunks = 0;
    for (Rank node = 0; node < 3; ++node) chunks += chunks_between_nodes(algorithm, spec, node);
    return chunks;
  };
  for (const char* name : {"hier_tree", "hier_chain"}) EXPECT_EQ(sent(*find_algorithm(Collective::kBroadcast, name)), 2U * 4);
  for (const char* name : {"hier_ring", "hier_all_pairs"})
    EXPECT_EQ(sent(*find_algorithm(Collective::kAllGather, name)), 2U * 9);
  for (const char* name : {"hier_ring", "hier_all_pairs"}) {
    EXPECT_EQ(sent(*find_algorithm(Collective::kReduceScatter, name)), 2U * 9) << name;
  }
}

TEST(Admits, NodesMustHoldAllRanks) {
  const NodeShape shape = NodeShape::uniform(2, 3);
  EXPECT_EQ(admits(*find_algorithm(Collective::kAllReduce, "hier_ring"), {.nranks = 8, .nodes = &shape}),
            "nodes of 6 ranks; allowed: of all 8");
}

}  // namespace
}  // namespace gimbal
