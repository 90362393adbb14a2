// What the conformance tests do not know: hostile peers, deaths, slow streams, and how bytes are cut on the way.
#include "transport/tcp_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "base/deadline.h"
#include "tests/unit/transport/tcp_pair.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<SocketIo> usable_kinds() {
  std::vector<SocketIo> kinds = {SocketIo::kEpoll};
  if (SocketPoller::create(SocketIo::kUring).ok()) kinds.push_back(SocketIo::kUring);
  return kinds;
}

// One endpoint whose peer is the test, byte by byte.
class TcpEndpointTest : public ::testing::TestWithParam<SocketIo> {
 protected:
  static constexpr size_t kSlotBytes = 1000;
  static constexpr size_t kWindow = 4;

  explicit TcpEndpointTest(size_t streams = 1) : poller_(SocketPoller::create(GetParam()).value()) {
    std::vector<FileDescriptor> mine;
    for (size_t i = 0; i < streams; ++i) {
      auto [a, b] = make_tcp_pair();
      mine.push_back(std::move(a));
      peers_.push_back(std::move(b));
    }
    endpoint_ = TcpEndpoint::create(tcp_options(1, 2, kSlotBytes, kWindow), std::move(mine), *poller_).value();
  }

  void write_bytes(std::span<const std::byte> bytes, size_t stream = 0) {
    ASSERT_EQ(send(peers_[stream].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void write_header(const ChunkHeader& header, size_t stream = 0) { write_bytes(std::as_bytes(std::span(&header, 1)), stream); }
  static ChunkHeader message_header(uint32_t bytes) {
    ChunkHeader header;
    header.tag = 9;
    header.message_bytes = bytes;
    header.bytes = bytes;
    return header;
  }

  // Progress until it fails, or the deadline.
  Status await_failure() {
    const Deadline deadline = Deadline::after_ms(10'000);
    while (!deadline.passed()) {
      RETURN_IF_ERROR(endpoint_->progress());
      RETURN_IF_ERROR(endpoint_->front(0));
    }
    return {};
  }
  Status failure_after(const ChunkHeader& header) {
    write_header(header);
    return await_failure();
  }
  std::optional<ReceivedMessage> await_message(Channel channel = 0) {
    const Deadline deadline = Deadline::after_ms(10'000);
    while (!deadline.passed()) {
      if (!endpoint_->progress().ok()) return std::nullopt;
      const auto message = endpoint_->front(channel);
      if (!message.ok()) return std::nullopt;
      if (message->has_value()) return *message;
    }
    return std::nullopt;
  }

  std::unique_ptr<SocketPoller> poller_;
  std::vector<FileDescriptor> peers_;
  std::unique_ptr<TcpEndpoint> endpoint_;
};

std::string io_name(SocketIo io) { return io == SocketIo::kEpoll ? "Epoll" : "Uring"; }

INSTANTIATE_TEST_SUITE_P(Tcp, TcpEndpointTest, ::testing::ValuesIn(usable_kinds()),
                         [](const auto& tested) { return io_name(tested.param); });

TEST_P(TcpEndpointTest, RefusesBytesThatAreNoChunk) {
  ChunkHeader header = message_header(8);
  header.magic = 0x5448;  // "HT", as a web browser's would be
  const Status status = failure_after(header);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(), "rank 1 (pid 7 on host b) broke the TCP link: it sent bytes that are no chunk");
  EXPECT_EQ(endpoint_->acquire(0, 1).status().message(), status.message()) << "an error is final";
}

TEST_P(TcpEndpointTest, RefusesAMessageLongerThanItsSlot) {
  EXPECT_THAT(failure_after(message_header(1001)).message(), HasSubstr("sent a message of 1001 bytes in a slot of 1000"));
}

TEST_P(TcpEndpointTest, RefusesAChunkLongerThanItsMessage) {
  ChunkHeader header = message_header(10);
  header.bytes = 0xffffffff;
  EXPECT_THAT(failure_after(header).message(), HasSubstr("sent a chunk of 4294967295 bytes at 0 of a message of 10"));
}

TEST_P(TcpEndpointTest, RefusesAChannelThatThereIsNot) {
  ChunkHeader header = message_header(1);
  header.channel = 2;
  EXPECT_THAT(failure_after(header).message(), HasSubstr("sent a chunk on channel 2 of 2"));
}

TEST_P(TcpEndpointTest, RefusesAMessageBeyondTheWindow) {
  ChunkHeader header = message_header(0);
  header.sequence = kWindow;
  EXPECT_THAT(failure_after(header).message(), HasSubstr("sent message 4 of channel 0 while only 4 from 0 on have room"));
}

TEST_P(TcpEndpointTest, RefusesTheSameChunkTwice) {
  const ChunkHeader header = message_header(0);
  write_header(header);
  EXPECT_THAT(failure_after(header).message(), HasSubstr("sent two different chunks for one place in message 0"));
}

TEST_P(TcpEndpointTest, RefusesReleasesOfMessagesThatWereNeverSent) {
  ASSERT_TRUE(send_next(*endpoint_, 0, 0).value());
  ChunkHeader header;
  header.kind = ChunkKind::kCredit;
  header.released = 2;
  EXPECT_THAT(failure_after(header).message(), HasSubstr("released 2 messages of 1"));
}

TEST_P(TcpEndpointTest, TakesNothingOfAHostilePeerForAnAnswer) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::array<std::byte, 64> bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const uint16_t magic = ChunkHeader::kMagic;
    std::memcpy(bytes.data(), &magic, sizeof(magic));
    auto [mine, theirs] = make_local_pair();
    std::vector<FileDescriptor> streams;
    streams.push_back(std::move(mine));
    const auto endpoint = TcpEndpoint::create(tcp_options(1, 2, kSlotBytes, kWindow), std::move(streams), *poller_).value();
    ASSERT_EQ(send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    for (int look = 0; look < 4 && endpoint->progress().ok(); ++look) EXPECT_FALSE(endpoint->front(0).value().has_value());
  }
}

TEST_P(TcpEndpointTest, PutsAMessageTogetherThatArrivesByteByByte) {
  std::vector<std::byte> bytes(kChunkHeaderBytes + 100, std::byte{0x3c});
  const ChunkHeader header = message_header(100);
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (const std::byte& byte : bytes) {
    ASSERT_FALSE(endpoint_->front(0).value().has_value());
    write_bytes({&byte, 1});
    ASSERT_TRUE(endpoint_->progress().ok());
  }
  const auto message = await_message();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tag, 9u);
  EXPECT_EQ(message->bytes.size(), 100u);
  EXPECT_EQ(message->bytes.back(), std::byte{0x3c});
}

TEST_P(TcpEndpointTest, DeliversWhatArrivedBeforeThePeerClosed) {
  write_header(message_header(0));
  peers_[0].reset();
  const auto message = await_message();
  ASSERT_TRUE(message);
  endpoint_->release(0);
  const Status status = await_failure();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), StartsWith("rank 1 (pid 7 on host b) closed the connection [::1]:"));
  EXPECT_THAT(status.message(), HasSubstr(" over lo"));
}

// The peer's kernel answers a late credit with a reset: what had arrived is still delivered.
TEST_P(TcpEndpointTest, DeliversWhatArrivedThoughASendToTheClosedPeerFailed) {
  write_header(message_header(0));
  peers_[0].reset();
  for (uint64_t i = 0; i < kWindow; ++i) ASSERT_TRUE(send_next(*endpoint_, 1, i).ok());
  EXPECT_TRUE(await_message());
}

TEST_P(TcpEndpointTest, NamesThePeerOfAConnectionThatWasReset) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(peers_[0].get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  peers_[0].reset();
  const Status status = await_failure();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), StartsWith("rank 1 (pid 7 on host b) is lost on the connection "));
  EXPECT_THAT(status.message(), HasSubstr("Connection reset by peer"));
}

TEST_P(TcpEndpointTest, WhatCannotBeSentToAClosedPeerIsAnError) {
  peers_[0].reset();
  Status status;
  const Deadline deadline = Deadline::after_ms(10'000);
  for (uint64_t i = 0; status.ok() && !deadline.passed(); ++i) {
    const Result<bool> sent = send_next(*endpoint_, 0, i);
    status = sent.ok() ? endpoint_->progress() : sent.status();
  }
  EXPECT_EQ(status.code(), Code::kRemote);
}

TEST_P(TcpEndpointTest, ReturnsCreditsToAPeerThatOnlySends) {
  for (uint32_t i = 0; i < 2; ++i) {
    ChunkHeader header = message_header(0);
    header.sequence = i;
    write_header(header);
    ASSERT_TRUE(await_message());
    endpoint_->release(0);
  }
  std::array<std::byte, kChunkHeaderBytes> bytes;
  const Deadline deadline = Deadline::after_ms(10'000);
  ssize_t received = -1;
  ChunkHeader credit;
  while (credit.released < 2 && !deadline.passed()) {
    ASSERT_TRUE(endpoint_->progress().ok());
    received = recv(peers_[0].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received == static_cast<ssize_t>(bytes.size())) credit = read_chunk_header(bytes);
  }
  EXPECT_EQ(credit.kind, ChunkKind::kCredit);
  EXPECT_EQ(credit.released, 2u);
}

class TwoStreamsTest : public TcpEndpointTest {
 protected:
  TwoStreamsTest() : TcpEndpointTest(2) {}
};

INSTANTIATE_TEST_SUITE_P(Tcp, TwoStreamsTest, ::testing::ValuesIn(usable_kinds()),
                         [](const auto& tested) { return io_name(tested.param); });

TEST_P(TwoStreamsTest, MessagesAreShownInTheirOrderWhateverStreamIsFaster) {
  ChunkHeader second = message_header(0);
  second.sequence = 1;
  second.tag = 11;
  write_header(second, 0);
  for (int look = 0; look < 4; ++look) {
    ASSERT_TRUE(endpoint_->progress().ok());
    ASSERT_FALSE(endpoint_->front(0).value().has_value());
  }
  write_header(message_header(0), 1);
  const auto message = await_message();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->tag, 9u);
  endpoint_->release(0);
  EXPECT_EQ(endpoint_->front(0).value()->tag, 11u);
}

TEST_P(TwoStreamsTest, OneBrokenStreamOfTwoLosesThePeer) {
  peers_[1].reset();
  const Status status = await_failure();
  EXPECT_EQ(status.code(), Code::kRemote);
}

// A stream that nobody reads takes what fits into its sockets; the other one carries all the rest.
TEST_P(TwoStreamsTest, ASlowStreamDoesNotHoldTheOther) {
  constexpr size_t kMessages = 500;
  constexpr size_t kBytes = size_t{64} << 10;
  auto [fast, fast_peer] = make_tcp_pair();
  auto [slow, slow_peer] = make_tcp_pair();
  std::vector<FileDescriptor> streams;
  streams.push_back(std::move(slow));
  streams.push_back(std::move(fast));
  const auto endpoint = TcpEndpoint::create(tcp_options(1, 1, kBytes, 8), std::move(streams), *poller_).value();
  std::vector<std::byte> buffer(size_t{1} << 20);
  ChunkHeader credit;
  credit.kind = ChunkKind::kCredit;
  size_t sent = 0;
  size_t carried = 0;
  const Deadline deadline = Deadline::after_ms(30'000);
  while (sent < kMessages && !deadline.passed()) {
    const auto slot = endpoint->acquire(0, kBytes);
    ASSERT_TRUE(slot.ok()) << slot.status().message();
    if (slot->has_value()) {
      std::memset((*slot)->data(), 0, kBytes);
      ASSERT_TRUE(endpoint->commit(0, kBytes, 0).ok());
      ++sent;
      credit.released = static_cast<uint32_t>(sent);  // as if what the slow stream holds had arrived
      ASSERT_EQ(send(fast_peer.get(), &credit, sizeof(credit), MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(credit)));
    }
    ASSERT_TRUE(endpoint->progress().ok());
    const ssize_t bytes = recv(fast_peer.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes > 0) carried += static_cast<size_t>(bytes);
  }
  EXPECT_EQ(sent, kMessages);
  EXPECT_GT(carried, kMessages * kBytes / 2);
}

}  // namespace
}  // namespace gimbal::testing
