// The contract of transport/endpoint.h as tests, for every implementation.
//
// INSTANTIATE_TEST_SUITE_P(Name, EndpointConformance, testing::Values(EndpointKind{"Name", make_pair})) runs them; one source
// of a program may include this file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "tests/unit/transport/endpoint_exchange.h"
#include "transport/endpoint.h"

namespace gimbal::testing {

struct EndpointKind {
  std::string name;
  std::function<EndpointPair(Channel channels, size_t slot_bytes, size_t window)> make;
};

class EndpointConformance : public ::testing::TestWithParam<EndpointKind> {
 protected:
  static EndpointPair make(Channel channels, size_t slot_bytes, size_t window) {
    return GetParam().make(channels, slot_bytes, window);
  }

  // What one side did reaches the other when both have made progress; how often they must is the transport's affair.
  template <typename Attempt>
  static bool eventually(const EndpointPair& pair, Attempt attempt) {
    const Deadline deadline = Deadline::after_ms(10'000);
    while (!attempt()) {
      if (!pair.a->progress().ok() || !pair.b->progress().ok() || deadline.passed()) return false;
    }
    return true;
  }
  static bool sends(const EndpointPair& pair, Channel channel, uint64_t index) {
    return eventually(pair, [&] { return send_next(*pair.a, channel, index).value(); });
  }
  static bool takes(const EndpointPair& pair, Channel channel, uint64_t index) {
    return eventually(pair, [&] { return take_next(*pair.b, channel, index).value(); });
  }
  static std::optional<ReceivedMessage> arrives(const EndpointPair& pair, Channel channel) {
    std::optional<ReceivedMessage> message;
    eventually(pair, [&] {
      message = pair.b->front(channel).value();
      return message.has_value();
    });
    return message;
  }
};

TEST_P(EndpointConformance, SaysWhatItWasMadeOf) {
  const EndpointPair pair = make(3, 1000, 4);
  EXPECT_EQ(pair.a->peer(), 1);
  EXPECT_EQ(pair.b->peer(), 0);
  EXPECT_EQ(pair.a->channels(), 3);
  EXPECT_GE(pair.a->slot_bytes(), 1000u);
  EXPECT_GE(pair.a->window(), 4u);
}

TEST_P(EndpointConformance, DeliversInOrderWithTagAndExactBytesInBothDirections) {
  const EndpointPair pair = make(3, 500, 4);
  const Status there = exchange(*pair.a, *pair.b, 500, 1);
  EXPECT_TRUE(there.ok()) << there.message();
  const Status back = exchange(*pair.b, *pair.a, 500, 2);
  EXPECT_TRUE(back.ok()) << back.message();
}

TEST_P(EndpointConformance, SaysNothingWhileNothingHasArrived) {
  const EndpointPair pair = make(2, 64, 2);
  ASSERT_TRUE(send_next(*pair.a, 0, 0).value());
  ASSERT_TRUE(arrives(pair, 0));
  const auto other_channel = pair.b->front(1);
  ASSERT_TRUE(other_channel.ok());
  EXPECT_FALSE(other_channel->has_value());
}

TEST_P(EndpointConformance, CommitsAWindowOfMessagesBeforeTheFirstRelease) {
  const EndpointPair pair = make(1, 64, 5);
  uint64_t committed = 0;
  for (Result<bool> sent = send_next(*pair.a, 0, 0); sent.ok() && *sent; sent = send_next(*pair.a, 0, committed)) {
    ++committed;
    ASSERT_LE(committed, 1000u) << "the window never fills";
  }
  EXPECT_GE(committed, pair.a->window());

  ASSERT_TRUE(takes(pair, 0, 0));
  EXPECT_TRUE(sends(pair, 0, committed)) << "a release makes room";
}

TEST_P(EndpointConformance, AFullChannelDoesNotStopAnother) {
  const EndpointPair pair = make(2, 64, 2);
  for (uint64_t i = 0; i < pair.a->window(); ++i) ASSERT_TRUE(send_next(*pair.a, 0, i).value());
  const Result<bool> sent = send_next(*pair.a, 1, 0);
  EXPECT_TRUE(sent.ok() && *sent);
}

TEST_P(EndpointConformance, ASecondAcquireGivesTheSameSlot) {
  const EndpointPair pair = make(1, 64, 2);
  const auto first = pair.a->acquire(0, 8);
  const auto second = pair.a->acquire(0, 64);
  ASSERT_TRUE(first.ok() && first->has_value() && second.ok() && second->has_value());
  EXPECT_EQ((*first)->data(), (*second)->data());
  EXPECT_GE((*second)->size(), 64u);
}

TEST_P(EndpointConformance, TheFrontStaysUntilItIsReleased) {
  const EndpointPair pair = make(1, 64, 3);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(send_next(*pair.a, 0, i).value());
  const auto before = arrives(pair, 0);
  const auto again = arrives(pair, 0);
  ASSERT_TRUE(before && again);
  EXPECT_EQ(before->bytes.data(), again->bytes.data());
  EXPECT_EQ(ExpectedMessage(0, 0, pair.b->slot_bytes()).difference(*before), "");
}

TEST_P(EndpointConformance, CarriesEmptyAndFullMessages) {
  const EndpointPair pair = make(1, 64, 2);
  const size_t largest = pair.a->slot_bytes();
  ASSERT_TRUE(pair.a->acquire(0, 0).value().has_value());
  ASSERT_TRUE(pair.a->commit(0, 0, 7).ok());
  const auto slot = pair.a->acquire(0, largest);
  ASSERT_TRUE(slot.ok() && slot->has_value());
  std::fill((*slot)->begin(), (*slot)->begin() + static_cast<ptrdiff_t>(largest), std::byte{0x5a});
  ASSERT_TRUE(pair.a->commit(0, largest, ~uint64_t{0}).ok());

  const auto empty = arrives(pair, 0);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->bytes.size(), 0u);
  EXPECT_EQ(empty->tag, 7u);
  pair.b->release(0);
  const auto full = arrives(pair, 0);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->tag, ~uint64_t{0});
  ASSERT_EQ(full->bytes.size(), largest);
  EXPECT_TRUE(std::all_of(full->bytes.begin(), full->bytes.end(), [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST_P(EndpointConformance, HasNothingUnsentOnceItsPeerHasAll) {
  const EndpointPair pair = make(2, 5000, 4);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(sends(pair, 1, i));
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(takes(pair, 1, i));
  EXPECT_TRUE(eventually(pair, [&] { return !pair.a->has_unsent() && !pair.b->has_unsent(); }));
}

TEST_P(EndpointConformance, TwoThreadsExchangeInBothDirectionsAtOnce) {
  constexpr uint64_t kMessages = 3000;
  const EndpointPair pair = make(2, 200, 3);
  const auto side = [](Endpoint& endpoint, Status& status) {
    status = [&endpoint]() -> Status {
      uint64_t sent[2] = {};
      uint64_t taken[2] = {};
      while (std::min({sent[0], sent[1], taken[0], taken[1]}) < kMessages || endpoint.has_unsent()) {
        bool moved = false;
        for (Channel channel = 0; channel < 2; ++channel) {
          bool did = false;
          if (sent[channel] < kMessages) {
            ASSIGN_OR_RETURN(did, send_next(endpoint, channel, sent[channel]));
            sent[channel] += did ? 1 : 0;
            moved = moved || did;
          }
          if (taken[channel] < kMessages) {
            ASSIGN_OR_RETURN(did, take_next(endpoint, channel, taken[channel]));
            taken[channel] += did ? 1 : 0;
            moved = moved || did;
          }
        }
        RETURN_IF_ERROR(endpoint.progress());
        if (!moved) std::this_thread::yield();
      }
      return {};
    }();
  };
  Status status_a;
  Status status_b;
  std::thread thread([&] { side(*pair.b, status_b); });
  side(*pair.a, status_a);
  thread.join();
  EXPECT_TRUE(status_a.ok()) << status_a.message();
  EXPECT_TRUE(status_b.ok()) << status_b.message();
}

}  // namespace gimbal::testing
