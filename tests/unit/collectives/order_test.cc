// The order of additions, which decides what the deterministic mode admits.
#include "collectives/order_hash.h"

#include <gtest/gtest.h>

#include "collectives/builder.h"
#include "collectives/verifier.h"

namespace gimbal {
namespace {

OrderClass order_of(Collective collective, const char* name, Rank nranks) {
  const Result<OrderClass> order = order_class(*find_algorithm(collective, name), nranks);
  EXPECT_TRUE(order.ok()) << order.status().message();
  return order.ok() ? *order : OrderClass::kDisagreed;
}

TEST(OrderHash, CommutesButDoesNotAssociate) {
  const uint64_t a = order_of_input(0);
  const uint64_t b = order_of_input(1);
  const uint64_t c = order_of_input(2);
  EXPECT_EQ(order_of_sum(a, b), order_of_sum(b, a));
  EXPECT_NE(order_of_sum(order_of_sum(a, b), c), order_of_sum(a, order_of_sum(b, c)));
}

TEST(OrderHash, TreeIsRankOrderUpToThreeRanks) {
  for (const Rank n : {1, 2, 3}) EXPECT_EQ(tree_order(n), rank_order(n)) << n << " ranks";
  EXPECT_NE(tree_order(4), rank_order(4));
}

TEST(OrderHash, TreeOfFiveRanksPairsTheFirstTwo) {
  const auto leaf = [](Rank rank) { return order_of_input(rank); };
  const uint64_t left = order_of_sum(order_of_sum(leaf(0), leaf(1)), leaf(2));
  EXPECT_EQ(tree_order(5), order_of_sum(left, order_of_sum(leaf(3), leaf(4))));
}

TEST(Order, HalvingAddsAlongTheTreeForEveryRankCount) {
  for (Rank n = 1; n <= 65; ++n) {
    EXPECT_EQ(order_of(Collective::kAllReduce, "halving_doubling", n), OrderClass::kTree) << n << " ranks";
    EXPECT_EQ(order_of(Collective::kReduceScatter, "halving", n), OrderClass::kTree) << n << " ranks";
  }
}

TEST(Order, ReduceTreeAddsAlongTheTreeForEveryRoot) {
  for (const Rank n : {2, 5, 8, 13, 33}) {
    for (Rank root = 0; root < n; ++root) {
      const CollectiveSpec spec = {.collective = Collective::kReduce, .nranks = n, .root = root};
      const Result<Verification> verification =
          verify(spec, build_all(*find_algorithm(Collective::kReduce, "tree"), spec, Fusion::kNone));
      ASSERT_TRUE(verification.ok()) << verification.status().message();
      EXPECT_EQ(verification->order, OrderClass::kTree) << n << " ranks, root " << root;
    }
  }
}

TEST(Order, AllPairsAddsInRankOrder) {
  for (const Rank n : {4, 5, 16, 33}) {
    EXPECT_EQ(order_of(Collective::kAllReduce, "all_pairs", n), OrderClass::kRankOrder) << n << " ranks";
    EXPECT_EQ(order_of(Collective::kAllReduce, "exchange", n), OrderClass::kRankOrder) << n << " ranks";
    EXPECT_EQ(order_of(Collective::kReduceScatter, "all_pairs", n), OrderClass::kRankOrder) << n << " ranks";
  }
}

TEST(Order, ARingsOrderDependsOnTheChunkFromThreeRanksOn) {
  EXPECT_EQ(order_of(Collective::kAllReduce, "ring", 2), OrderClass::kTree);
  for (const Rank n : {3, 4, 8}) EXPECT_EQ(order_of(Collective::kAllReduce, "ring", n), OrderClass::kAgreed) << n << " ranks";
}

TEST(Order, DoubleTreesOrderDependsOnTheTree) {
  EXPECT_EQ(order_of(Collective::kAllReduce, "double_tree", 6), OrderClass::kAgreed);
}

TEST(Order, MovingDataAddsNothingAndFitsTheDeterministicMode) {
  EXPECT_EQ(order_of(Collective::kAllGather, "ring", 5), OrderClass::kTree);
}

// Every rank adds its own input to what it gets from the others, in an order of its own: bitwise different replicas.
TEST(Order, RanksThatAddInTheirOwnOrderDisagree) {
  const CollectiveSpec spec = {.nranks = 3};
  const Algorithm selfish = {"selfish", Collective::kAllReduce,
                             [](const CollectiveSpec& s, Rank rank) {
                               return build_lanes(s, 1, [&](ScheduleBuilder& builder) {
                                 const Rank next = (rank + 1) % 3;
                                 const Rank prev = (rank + 2) % 3;
                                 builder.send(next, unit(0), BufferId::kInput);
                                 builder.send(prev, unit(0), BufferId::kInput);
                                 builder.recv_reduce(prev, unit(0), Payload::kRaw, BufferId::kInput, BufferId::kScratch);
                                 builder.recv_reduce(next, unit(0), Payload::kRaw, BufferId::kScratch, BufferId::kOutput);
                               });
                             },
                             ""};
  const Result<Verification> verification = verify(spec, build_all(selfish, spec, Fusion::kNone));
  ASSERT_TRUE(verification.ok()) << verification.status().message();
  EXPECT_EQ(verification->order, OrderClass::kDisagreed);
}

}  // namespace
}  // namespace gimbal
