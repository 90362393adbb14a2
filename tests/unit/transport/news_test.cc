// News: one-way messages of the mesh that need no call on the other side.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <thread>

#include "tests/unit/transport/join_ranks.h"
#include "transport/bytes.h"

namespace gimbal::testing {
namespace {

// Waits for one piece of news as a sleeping rank does: on the mesh's descriptor.
std::string await_news(Bootstrap& mesh, Rank from) {
  const Deadline deadline = soon();
  while (!deadline.passed()) {
    pollfd entry = {.fd = mesh.arrival_descriptor(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, deadline.remaining_ms());
    const Result<std::vector<Bootstrap::News>> news = mesh.take_news();
    EXPECT_TRUE(news.ok()) << news.status().message();
    if (!news.ok() || news->empty()) continue;
    EXPECT_EQ(news->size(), 1u);
    EXPECT_EQ(news->front().from, from);
    return to_text(news->front().value);
  }
  return "none";
}

bool something_arrived(const Bootstrap& mesh) {
  pollfd entry = {.fd = mesh.arrival_descriptor(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

TEST(News, ReachARankThatIsInNoCall) {
  const auto meshes = make_meshes(3, "memory://" + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());
  meshes[0]->post(std::array<Rank, 2>{1, 2}, as_bytes("fault"));
  EXPECT_EQ(await_news(*meshes[1], 0), "fault");
  EXPECT_EQ(await_news(*meshes[2], 0), "fault");
  EXPECT_FALSE(something_arrived(*meshes[1]));
}

TEST(News, DoNotDisturbTheOrderOfOtherMessages) {
  const auto meshes = make_meshes(2, "memory://" + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());
  ASSERT_TRUE(meshes[0]->send(1, as_bytes("first"), soon()).ok());
  meshes[0]->post(std::array<Rank, 1>{1}, as_bytes("news"));
  ASSERT_TRUE(meshes[0]->send(1, as_bytes("second"), soon()).ok());
  EXPECT_EQ(await_news(*meshes[1], 0), "news");
  for (const char* expected : {"first", "second"}) {
    const Result<Bytes> message = meshes[1]->receive(0, soon());
    ASSERT_TRUE(message.ok()) << message.status().message();
    EXPECT_EQ(to_text(*message), expected);
  }
}

TEST(News, LeaveARankWhoseOtherThreadWaitsInACall) {
  const auto meshes = make_meshes(2, "memory://" + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());
  Status received;
  std::thread waiting([&] { received = meshes[0]->receive(1, soon()).status(); });
  // Sent by this thread, or by the other one should it be in the call already.
  meshes[0]->post(std::array<Rank, 1>{1}, as_bytes("abort"));
  EXPECT_EQ(await_news(*meshes[1], 0), "abort");
  EXPECT_TRUE(meshes[1]->send(0, as_bytes("go on"), soon()).ok());
  waiting.join();
  EXPECT_TRUE(received.ok()) << received.message();
}

TEST(News, ReachARankWhoseOtherThreadWaitsInACall) {
  const auto meshes = make_meshes(3, "memory://" + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());
  std::thread waiting([&] { EXPECT_TRUE(meshes[0]->receive(1, soon()).ok()); });
  meshes[2]->post(std::array<Rank, 1>{0}, as_bytes("fault"));
  EXPECT_EQ(await_news(*meshes[0], 2), "fault");
  EXPECT_TRUE(meshes[1]->send(0, as_bytes("go on"), soon()).ok());
  waiting.join();
}

TEST(News, PostedJustBeforeTheEndArriveBeforeIt) {
  auto meshes = make_meshes(2, "memory://" + unique_name());
  ASSERT_FALSE(::testing::Test::HasFailure());
  meshes[0]->post(std::array<Rank, 1>{1}, as_bytes("farewell"));
  meshes[0].reset();
  EXPECT_EQ(await_news(*meshes[1], 0), "farewell");
  EXPECT_EQ(meshes[1]->check_peers().code(), Code::kRemote);
  static_cast<void>(meshes[1]->take_news());
  EXPECT_FALSE(something_arrived(*meshes[1])) << "a closed connection would keep a sleeping rank awake";
}

}  // namespace
}  // namespace gimbal::testing
