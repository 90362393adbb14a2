// Joining and the mesh, with ranks as threads.
#include "transport/bootstrap.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/transport/free_port.h"
#include "tests/unit/transport/join_ranks.h"
#include "transport/bytes.h"
#include "transport/shared_segment.h"

namespace gimbal::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  Rank ranks;
  std::string scheme;
};

class BootstrapSizes : public ::testing::TestWithParam<Case> {};

TEST_P(BootstrapSizes, GathersEveryRanksValueInRankOrder) {
  const Rank ranks = GetParam().ranks;
  const std::vector<std::unique_ptr<Bootstrap>> meshes = make_meshes(ranks, GetParam().scheme + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());

  const auto gathered = run_ranks(ranks, [&](Rank rank) {
    const std::string mine(static_cast<size_t>(rank) * 3, static_cast<char>('a' + rank % 26));
    return meshes[static_cast<size_t>(rank)]->all_gather(as_bytes(mine), soon());
  });

  for (const Result<std::vector<Bytes>>& values : gathered) {
    ASSERT_TRUE(values.ok()) << values.status().message();
    ASSERT_EQ(values->size(), static_cast<size_t>(ranks));
    for (Rank rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(to_text((*values)[static_cast<size_t>(rank)]),
                std::string(static_cast<size_t>(rank) * 3, static_cast<char>('a' + rank % 26)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transport, BootstrapSizes,
                         ::testing::Values(Case{1, "memory://"}, Case{2, "memory://"}, Case{3, "unix://"}, Case{8, "unix://"},
                                           Case{16, "memory://"}, Case{64, "unix://"}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.ranks) + "RanksOver" +
                                  tested.param.scheme.substr(0, tested.param.scheme.find(':'));
                         });

TEST(Bootstrap, KnowsThePeersByRank) {
  const auto meshes = make_meshes(3, "memory://" + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());
  for (const auto& mesh : meshes) {
    ASSERT_EQ(mesh->peers().size(), 3u);
    for (Rank rank = 0; rank < 3; ++rank) {
      const PeerIdentity& peer = mesh->peers()[static_cast<size_t>(rank)];
      EXPECT_EQ(peer.rank, rank);
      EXPECT_EQ(peer.pid, getpid());
      EXPECT_THAT(peer.control_address, ::testing::StartsWith("unix:"));
    }
  }
}

TEST(Bootstrap, GathersTheLargestValuesWithoutDeadlock) {
  constexpr size_t kLargest = size_t{1} << 20;
  const auto meshes = make_meshes(4, "memory://" + unique_name());
  const auto gathered = run_ranks(4, [&](Rank rank) {
    const std::string mine(kLargest, static_cast<char>('a' + rank));
    return meshes[static_cast<size_t>(rank)]->all_gather(as_bytes(mine), soon());
  });
  for (const auto& values : gathered) {
    ASSERT_TRUE(values.ok()) << values.status().message();
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(to_text((*values)[rank]), std::string(kLargest, static_cast<char>('a' + rank)));
  }
}

TEST(Bootstrap, RefusesAValueThatIsTooLarge) {
  const auto meshes = make_meshes(2, "memory://" + unique_name());
  const Bytes value((size_t{1} << 20) + 1);
  EXPECT_EQ(meshes[0]->all_gather(value, soon()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(meshes[0]->send(1, value, soon()).code(), Code::kInvalidArgument);
}

TEST(Bootstrap, KeepsMessagesAndGatheredValuesApart) {
  const auto meshes = make_meshes(2, "memory://" + unique_name());
  const auto results = run_ranks(2, [&](Rank rank) -> Status {
    Bootstrap& mesh = *meshes[static_cast<size_t>(rank)];
    if (rank == 0) {
      RETURN_IF_ERROR(mesh.send(1, as_bytes("first"), soon()));
      RETURN_IF_ERROR(mesh.send(1, as_bytes("second"), soon()));
      return mesh.all_gather(as_bytes("x"), soon()).status();
    }
    ASSIGN_OR_RETURN(const std::vector<Bytes> gathered, mesh.all_gather(as_bytes("y"), soon()));
    EXPECT_EQ(to_text(gathered[0]), "x");
    ASSIGN_OR_RETURN(const Bytes first, mesh.receive(0, soon()));
    ASSIGN_OR_RETURN(const Bytes second, mesh.receive(0, soon()));
    EXPECT_EQ(to_text(first) + to_text(second), "firstsecond");
    return {};
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Bootstrap, PassesASegmentThatThreadsOfAProcessShareAsOneMapping) {
  const auto meshes = make_meshes(2, "memory://" + unique_name());
  Result<std::shared_ptr<SharedSegment>> segment = SharedSegment::create("test", 4096);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  const auto results = run_ranks(2, [&](Rank rank) -> Status {
    Bootstrap& mesh = *meshes[static_cast<size_t>(rank)];
    if (rank == 0) return mesh.send_descriptor(1, (*segment)->fd(), soon());
    ASSIGN_OR_RETURN(FileDescriptor fd, mesh.receive_descriptor(0, soon()));
    EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    ASSIGN_OR_RETURN(const std::shared_ptr<SharedSegment> mapped, SharedSegment::map(std::move(fd), 4096));
    EXPECT_EQ(mapped->data(), (*segment)->data());
    return {};
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Bootstrap, DerivesAMeshAmongSomeRanksInANewOrder) {
  const auto meshes = make_meshes(5, "memory://" + unique_name());
  const std::vector<Rank> members = {4, 0, 2};
  const auto results = run_ranks(5, [&](Rank rank) -> Status {
    if (rank == 1 || rank == 3) return {};
    ASSIGN_OR_RETURN(const std::unique_ptr<Bootstrap> derived,
                     meshes[static_cast<size_t>(rank)]->derive(members, "part", 7, soon()));
    const std::string mine = std::to_string(rank);
    ASSIGN_OR_RETURN(const std::vector<Bytes> values, derived->all_gather(as_bytes(mine), soon()));
    EXPECT_EQ(to_text(values[0]) + to_text(values[1]) + to_text(values[2]), "402");
    return {};
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Bootstrap, OneStoreServesTheSameNameAgain) {
  const std::string rendezvous = "memory://" + unique_name();
  Result<std::unique_ptr<Store>> keeper = open_store(rendezvous, 0, "secret", soon());
  ASSERT_TRUE(keeper.ok());
  for (int round = 0; round < 3; ++round) EXPECT_EQ(make_meshes(2, rendezvous).size(), 2u);
}

TEST(Bootstrap, NamesARankThatJoinedTwice) {
  const std::string rendezvous = "unix://" + unique_name();
  const auto joined = run_ranks(3, [&](Rank thread) {
    return join_as(rendezvous, {.rank = thread == 0 ? 0 : 1, .size = 4, .job_key = "", .name = "", .version = 0}).status;
  });
  const std::string pid = "pid " + std::to_string(getpid());
  for (const Status& status : joined) {
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 joined twice (" + pid + " and " + pid + " on host "));
  }
}

TEST(Bootstrap, NamesASecondRankZeroOnEveryRank) {
  for (const std::string& rendezvous : {"unix://" + unique_name(), "tcp://127.0.0.1:" + std::to_string(free_port())}) {
    const auto joined = run_ranks(3, [&](Rank thread) {
      return join_as(rendezvous, {.rank = thread == 2 ? 1 : 0, .size = 3, .job_key = "", .name = "", .version = 0}).status;
    });
    for (const Status& status : joined) {
      EXPECT_EQ(status.code(), Code::kMismatch) << rendezvous;
      EXPECT_THAT(status.message(), HasSubstr("rank 0 joined twice (pid "));
    }
  }
}

TEST(Bootstrap, ARankZeroThatComesWhenAllHaveMetIsToldSo) {
  const std::string rendezvous = "unix://" + unique_name();
  std::unique_ptr<Store> first = open_store(rendezvous, 0, "", soon()).value();
  // The round of two that came before it.
  ASSERT_TRUE(first->add("gimbal/world/arrivals", 2).ok());
  Status late;
  std::thread second(
      [&] { late = join_as(rendezvous, {.rank = 0, .size = 2, .job_key = "", .name = "", .version = 0}).status; });
  ASSERT_TRUE(first->wait("gimbal/world/arrival/3", soon()).ok());
  first.reset();
  second.join();
  EXPECT_THAT(late.message(), HasSubstr("rank 0 joined twice: the other ranks had met the first one"));
}

TEST(Bootstrap, NamesTheMissingRanksAtTheDeadlineOnEveryRank) {
  const std::string rendezvous = "unix://" + unique_name();
  const auto joined = run_ranks(2, [&](Rank rank) {
    return join_as(rendezvous, {.rank = rank, .size = 4, .job_key = "", .name = "", .version = 0}, 1000).status;
  });
  for (const Status& status : joined) {
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("missing ranks: 2, 3 (2 of 4 joined within ")));
  }
}

TEST(Bootstrap, NamesTheMissingRankZeroFromTheArrivals) {
  const std::string rendezvous = "memory://" + unique_name();
  const auto joined = run_ranks(2, [&](Rank thread) {
    return join_as(rendezvous, {.rank = thread + 1, .size = 3, .job_key = "", .name = "", .version = 0}, 200).status;
  });
  for (const Status& status : joined) EXPECT_THAT(status.message(), HasSubstr("missing ranks: 0 (2 of 3 joined within "));
}

TEST(Bootstrap, NamesBothWorldSizes) {
  const std::string rendezvous = "unix://" + unique_name();
  const auto joined = run_ranks(2, [&](Rank rank) {
    return join_as(rendezvous, {.rank = rank, .size = 2 + rank, .job_key = "", .name = "", .version = 0}).status;
  });
  for (const Status& status : joined) EXPECT_EQ(status.message(), "world size 2 on rank 0, 3 on rank 1");
}

TEST(Bootstrap, NamesBothVersions) {
  const std::string rendezvous = "unix://" + unique_name();
  const auto joined = run_ranks(2, [&](Rank rank) {
    const uint32_t version = rank == 0 ? 0x000100 : 0x000200;
    return join_as(rendezvous, {.rank = rank, .size = 2, .job_key = "", .name = "", .version = version}).status;
  });
  for (const Status& status : joined) EXPECT_EQ(status.message(), "version 0.1.0 on rank 0, 0.2.0 on rank 1");
}

TEST(Bootstrap, RefusesARankOutsideItsWorldAtOnce) {
  const std::string rendezvous = "memory://" + unique_name();
  const Status above = join_as(rendezvous, {.rank = 5, .size = 4, .job_key = "", .name = "", .version = 0}).status;
  const Status below = join_as(rendezvous, {.rank = -1, .size = 4, .job_key = "", .name = "", .version = 0}).status;
  const Status none = join_as(rendezvous, {.rank = 0, .size = 0, .job_key = "", .name = "", .version = 0}).status;
  EXPECT_EQ(above.message(), "rank 5 is outside 0 to 3 (world size 4)");
  EXPECT_EQ(below.message(), "rank -1 is outside 0 to 3 (world size 4)");
  EXPECT_EQ(none.message(), "world size 0 is outside 1 to 100000");
}

TEST(Bootstrap, SeesAPeerThatClosedItsMesh) {
  auto meshes = make_meshes(3, "memory://" + unique_name());
  EXPECT_TRUE(meshes[0]->check_peers().ok());
  ASSERT_TRUE(meshes[2]->send(0, as_bytes("unread"), soon()).ok());
  EXPECT_TRUE(meshes[0]->check_peers().ok()) << "a message that waits is not the end";

  meshes[2].reset();

  const Status status = meshes[0]->check_peers();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 2 (pid "), HasSubstr("is gone: it closed its control connection")));
  EXPECT_EQ(meshes[0]->gone(), std::vector<Rank>{2});
  EXPECT_EQ(meshes[0]->all_gather(as_bytes("x"), soon()).status().code(), Code::kRemote);
}

TEST(Bootstrap, ReceiveNamesThePeerAtTheDeadline) {
  const auto meshes = make_meshes(2, "memory://" + unique_name());
  const Status status = meshes[0]->receive(1, Deadline::after_ms(10)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_THAT(status.message(), HasSubstr("no message from rank 1 (pid "));
}

}  // namespace
}  // namespace gimbal::testing
