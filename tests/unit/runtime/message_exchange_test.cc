#include "runtime/message_exchange.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "transport/loopback_endpoint.h"

namespace gimbal::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kSlotBytes = 128;
constexpr size_t kHeaderBytes = 16;

class MessageExchangeTest : public testing::Test {
 protected:
  MessageExchangeTest() {
    auto [sender, receiver] = make_loopback_pair(0, 1, {.channels = 1, .slot_bytes = kSlotBytes, .window = 4});
    sender_ = std::move(sender);
    receiver_ = std::move(receiver);
  }

  static Call call_of(Collective collective, void* buffer, size_t count, DType dtype = DType::kUint8) {
    Call call;
    call.collective = collective;
    if (collective == Collective::kSend) {
      call.send = buffer;
    } else {
      call.recv = buffer;
    }
    call.count = count;
    call.dtype = dtype;
    call.root = collective == Collective::kSend ? 1 : 0;
    return call;
  }

  // A message of the sender's lane, written by hand.
  void send_raw(const std::vector<uint64_t>& words, size_t bytes) {
    const auto slot = sender_->acquire(0, bytes);
    ASSERT_TRUE(slot.ok() && *slot);
    std::memset((*slot)->data(), 0, bytes);
    if (!words.empty()) std::memcpy((*slot)->data(), words.data(), std::min(bytes, words.size() * sizeof(uint64_t)));
    ASSERT_TRUE(sender_->commit(0, bytes, 0).ok());
  }

  Result<Progress> receive(size_t count) {
    buffer_.assign(count + 1, 0xEE);
    const Call call = call_of(Collective::kRecv, buffer_.data(), count);
    return MessageExchange(call, 1, *receiver_).progress();
  }

  std::unique_ptr<Endpoint> sender_;
  std::unique_ptr<Endpoint> receiver_;
  std::vector<uint8_t> buffer_;
};

TEST_F(MessageExchangeTest, CarriesEverySizeAroundItsSlots) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, kSlotBytes - kHeaderBytes - 1, kSlotBytes - kHeaderBytes, kSlotBytes - kHeaderBytes + 1,
        2 * kSlotBytes - kHeaderBytes, 5 * kSlotBytes + 3, size_t{10'000}}) {
    std::vector<uint8_t> sent(bytes);
    std::iota(sent.begin(), sent.end(), uint8_t{1});
    std::vector<uint8_t> received(bytes);
    const Call send_call = call_of(Collective::kSend, sent.data(), bytes);
    const Call recv_call = call_of(Collective::kRecv, received.data(), bytes);
    MessageExchange send(send_call, 0, *sender_);
    MessageExchange recv(recv_call, 1, *receiver_);
    bool sending = true;
    bool receiving = true;
    for (int round = 0; round < 1000 && (sending || receiving); ++round) {
      if (sending) sending = send.progress().value() == Progress::kAgain;
      if (receiving) receiving = recv.progress().value() == Progress::kAgain;
    }
    EXPECT_FALSE(sending || receiving) << bytes;
    EXPECT_EQ(received, sent) << bytes;
  }
}

TEST_F(MessageExchangeTest, SendIsOverWhenItsBytesAreOnTheWay) {
  uint8_t value = 1;
  const Call call = call_of(Collective::kSend, &value, 1);
  EXPECT_EQ(MessageExchange(call, 0, *sender_).progress().value(), Progress::kDone);
}

TEST_F(MessageExchangeTest, OtherCountOrTypeIsAMismatchThatNamesBothSides) {
  std::vector<uint8_t> sent(64);
  const Call longer = call_of(Collective::kSend, sent.data(), 7);
  ASSERT_TRUE(MessageExchange(longer, 0, *sender_).progress().ok());
  const Result<Progress> by_count = receive(5);
  EXPECT_EQ(by_count.status().code(), Code::kMismatch);
  EXPECT_THAT(by_count.status().message(),
              AllOf(HasSubstr("rank 1"), HasSubstr("5 elements"), HasSubstr("rank 0"), HasSubstr("7 elements")));
  EXPECT_EQ(buffer_, std::vector<uint8_t>(6, 0xEE)) << "nothing was received";
}

TEST_F(MessageExchangeTest, OtherTypeOfTheSameSizeIsAMismatch) {
  float value = 1;
  const Call call = call_of(Collective::kSend, &value, 1, DType::kFloat32);
  ASSERT_TRUE(MessageExchange(call, 0, *sender_).progress().ok());
  int32_t received = 0;
  const Call recv_call = call_of(Collective::kRecv, &received, 1, DType::kInt32);
  const Result<Progress> progress = MessageExchange(recv_call, 1, *receiver_).progress();
  EXPECT_EQ(progress.status().code(), Code::kMismatch);
  EXPECT_THAT(progress.status().message(), AllOf(HasSubstr("float"), HasSubstr("int32")));
}

// The lane is a peer's memory: it may hold anything.
TEST_F(MessageExchangeTest, MessageShorterThanAHeaderIsAnError) {
  send_raw({8}, kHeaderBytes - 1);
  EXPECT_EQ(receive(8).status().code(), Code::kInternal);
}

TEST_F(MessageExchangeTest, MoreBytesThanAnnouncedAreAnErrorThatWritesNothing) {
  send_raw({4, static_cast<uint64_t>(DType::kUint8)}, kHeaderBytes + 5);
  const Result<Progress> progress = receive(4);
  EXPECT_EQ(progress.status().code(), Code::kInternal);
  EXPECT_THAT(progress.status().message(), HasSubstr("rank 0"));
  EXPECT_EQ(buffer_, std::vector<uint8_t>(5, 0xEE));
}

TEST_F(MessageExchangeTest, UnknownTypeAndHugeCountAreAMismatch) {
  send_raw({~uint64_t{0}, 200}, kHeaderBytes);
  const Result<Progress> progress = receive(4);
  EXPECT_EQ(progress.status().code(), Code::kMismatch);
  EXPECT_THAT(progress.status().message(), HasSubstr("unknown type"));
}

TEST_F(MessageExchangeTest, EmptyMessagesInTheMiddleOnlyWait) {
  send_raw({4, static_cast<uint64_t>(DType::kUint8)}, kHeaderBytes);
  send_raw({}, 0);
  EXPECT_EQ(receive(4).value(), Progress::kAgain);
}

}  // namespace
}  // namespace gimbal::test
