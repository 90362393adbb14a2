#include "runtime/signature.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "runtime/node_memory.h"

namespace gimbal::test {
namespace {

Call all_reduce(size_t count) {
  Call call;
  call.collective = Collective::kAllReduce;
  call.dtype = DType::kFloat32;
  call.count = count;
  return call;
}

TEST(Signature, DescribesWhatPeopleCalled) {
  EXPECT_EQ(describe(make_signature(all_reduce(100), 17)), "all_reduce #17 (count 100, float, sum)");
  Call broadcast;
  broadcast.collective = Collective::kBroadcast;
  broadcast.dtype = DType::kInt32;
  broadcast.count = 5;
  broadcast.root = 2;
  EXPECT_EQ(describe(make_signature(broadcast, 3)), "broadcast #3 (count 5, int32, root 2)");
  Call send = broadcast;
  send.collective = Collective::kSend;
  EXPECT_EQ(describe(make_signature(send, 0)), "send (count 5, int32, peer 2)");
  EXPECT_EQ(describe(make_signature(Call(), 4)), "barrier #4");
  Call mean = all_reduce(6);
  mean.weighted = true;
  EXPECT_EQ(describe(make_signature(mean, 1)), "all_reduce #1 (count 6, float, sum, weighted sum)");
  mean.normalize = true;
  EXPECT_EQ(describe(make_signature(mean, 1)), "all_reduce #1 (count 6, float, sum, weighted mean)");
}

TEST(Signature, DescribesFusedGroupsOfOneTotalDifferently) {
  Call first = all_reduce(8);
  first.parts_hash = 0x1234;
  Call second = all_reduce(8);
  second.parts_hash = 0x4321;
  EXPECT_NE(describe(make_signature(first, 1)), describe(make_signature(second, 1)));
}

// What a peer wrote is believed to be numbers only.
TEST(Signature, DescribesRubbishWithoutReadingBeyondAnyTable) {
  for (const uint32_t kind : {0xffffffffU, 0x00ff00ffU, 0x0000ff00U, 0x0c0c0c0cU, 0x00ff0000U}) {
    EXPECT_FALSE(describe({1, ~uint64_t{0}, kind, -7}).empty());
  }
}

TEST(Signature, SurvivesTheWordsOfSharedMemory) {
  Call call = all_reduce(~size_t{0} / 8);
  call.op = ReduceOp::kBxor;
  call.dtype = DType::kUint64;
  for (const Rank root : {-1, 0, 7, 99'999}) {
    call.root = root;
    const Signature signature = make_signature(call, 9);
    EXPECT_EQ(unpack_signature(9, signature.count, pack_kind_and_root(signature)), signature);
  }
}

TEST(Signature, EveryFieldChangesTheHash) {
  std::vector<Signature> signatures;
  for (const size_t count : {size_t{1}, size_t{2}, size_t{256000}, size_t{512000}, size_t{1} << 40}) {
    signatures.push_back(make_signature(all_reduce(count), 1));
    signatures.push_back(make_signature(all_reduce(count), 2));
    Call call = all_reduce(count);
    call.dtype = DType::kInt32;
    signatures.push_back(make_signature(call, 1));
    call.op = ReduceOp::kMax;
    signatures.push_back(make_signature(call, 1));
    call.weighted = true;
    signatures.push_back(make_signature(call, 1));
    call.normalize = true;
    signatures.push_back(make_signature(call, 1));
    call.root = 1;
    signatures.push_back(make_signature(call, 1));
    call.parts_hash = 77;
    signatures.push_back(make_signature(call, 1));
  }
  std::set<uint32_t> hashes;
  for (const Signature& signature : signatures) hashes.insert(hash_signature(signature));
  EXPECT_EQ(hashes.size(), signatures.size());
}

// Ranks of an all_to_all_v send different numbers of elements; those of all_gather_v pass their own share.
TEST(Signature, LeavesOutTheCountsOfTheVForms) {
  for (const Collective collective : {Collective::kAllGatherV, Collective::kAllToAllV}) {
    Call call;
    call.collective = collective;
    call.count = 5;
    Call other = call;
    other.count = 6;
    EXPECT_EQ(make_signature(call, 1), make_signature(other, 1));
  }
}

}  // namespace
}  // namespace gimbal::test
