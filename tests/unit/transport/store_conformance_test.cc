// Every kind of store under one suite: rank 0's own view and that of another rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/unit/transport/free_port.h"
#include "tests/unit/transport/rank_threads.h"
#include "transport/bytes.h"
#include "transport/store.h"
#include "transport/stores.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

Deadline soon() { return Deadline::after_ms(30'000); }

struct StorePair {
  std::unique_ptr<Store> base;  // below rank 0's, where there is one
  std::unique_ptr<Store> rank0;
  std::unique_ptr<Store> rank1;
};

StorePair open_pair(const std::string& rendezvous) {
  StorePair pair;
  pair.rank0 = open_store(rendezvous, 0, "key", soon()).value();
  pair.rank1 = open_store(rendezvous, 1, "key", soon()).value();
  return pair;
}

std::string new_folder() { return (std::filesystem::temp_directory_path() / unique_name()).string(); }

// A caller's store: the callbacks of gimbal_store_t over another Store.
gimbal_store_t callbacks_over(Store& store) {
  gimbal_store_t callbacks = {};
  callbacks.context = &store;
  callbacks.set = [](void* context, const char* key, const void* value, size_t bytes) {
    return static_cast<Store*>(context)->set(key, {static_cast<const std::byte*>(value), bytes}).ok() ? 0 : 1;
  };
  callbacks.get = [](void* context, const char* key, void* value, size_t* bytes, int64_t timeout_ms) {
    const Result<Bytes> found = static_cast<Store*>(context)->get(key, Deadline::after_ms(timeout_ms));
    if (!found.ok()) return 1;
    if (!found->empty()) std::memcpy(value, found->data(), std::min(*bytes, found->size()));
    *bytes = found->size();
    return 0;
  };
  callbacks.wait = [](void* context, const char* key, int64_t timeout_ms) {
    return static_cast<Store*>(context)->wait(key, Deadline::after_ms(timeout_ms)).ok() ? 0 : 1;
  };
  callbacks.add = [](void* context, const char* key, int64_t amount, int64_t* result) {
    const Result<int64_t> count = static_cast<Store*>(context)->add(key, amount);
    if (!count.ok()) return 1;
    *result = *count;
    return 0;
  };
  return callbacks;
}

StorePair open_callback_pair() {
  const std::string rendezvous = "memory://" + unique_name();
  StorePair pair;
  pair.base = open_store(rendezvous, 0, "key", soon()).value();
  pair.rank0 = make_callback_store(callbacks_over(*pair.base)).value();
  pair.rank1 = open_store(rendezvous, 1, "key", soon()).value();
  return pair;
}

StorePair open_prefix_pair() {
  const std::string rendezvous = "memory://" + unique_name();
  StorePair pair;
  pair.base = open_store(rendezvous, 0, "key", soon()).value();
  pair.rank0 = make_prefix_store(*pair.base, "prefix/");
  pair.rank1 = make_prefix_store(*pair.base, "prefix/");
  return pair;
}

struct StoreKind {
  std::string name;
  std::function<StorePair()> open;
};

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  StorePair pair_ = GetParam().open();
};

TEST_P(StoreConformance, GivesWhatAnotherRankSet) {
  ASSERT_TRUE(pair_.rank0->set("key one", as_bytes("value")).ok());
  ASSERT_TRUE(pair_.rank1->set("key/two", as_bytes("")).ok());
  EXPECT_EQ(to_text(pair_.rank1->get("key one", soon()).value()), "value");
  EXPECT_EQ(to_text(pair_.rank0->get("key/two", soon()).value()), "");
  EXPECT_TRUE(pair_.rank1->wait("key/two", soon()).ok());
}

TEST_P(StoreConformance, ASecondSetReplacesTheValue) {
  ASSERT_TRUE(pair_.rank1->set("key", as_bytes("a longer value")).ok());
  ASSERT_TRUE(pair_.rank0->set("key", as_bytes("short")).ok());
  EXPECT_EQ(to_text(pair_.rank1->get("key", soon()).value()), "short");
}

TEST_P(StoreConformance, AGetIsAnsweredWhenTheKeyAppears) {
  for (Store* waiter : {pair_.rank0.get(), pair_.rank1.get()}) {
    Store* setter = waiter == pair_.rank0.get() ? pair_.rank1.get() : pair_.rank0.get();
    const std::string key = "late " + std::to_string(waiter == pair_.rank0.get());
    std::string got;
    std::thread thread([&] { got = to_text(waiter->get(key, soon()).value()); });
    ASSERT_TRUE(setter->set(key, as_bytes("here")).ok());
    thread.join();
    EXPECT_EQ(got, "here");
  }
}

TEST_P(StoreConformance, NamesTheKeyAtTheDeadlineAndStaysUsable) {
  for (Store* store : {pair_.rank0.get(), pair_.rank1.get()}) {
    const Status got = store->get("never", Deadline::after_ms(5)).status();
    const Status waited = store->wait("never", Deadline::after_ms(0));
    EXPECT_EQ(got.code(), Code::kTimeout);
    EXPECT_THAT(got.message(), HasSubstr("never\" was not set before the deadline"));
    EXPECT_EQ(waited.code(), Code::kTimeout);
  }
  ASSERT_TRUE(pair_.rank0->set("never", as_bytes("after all")).ok());
  EXPECT_EQ(to_text(pair_.rank1->get("never", Deadline::after_ms(0)).value()), "after all");
}

TEST_P(StoreConformance, CountsTogether) {
  EXPECT_EQ(pair_.rank0->add("counter", 2).value(), 2);
  EXPECT_EQ(pair_.rank1->add("counter", 40).value(), 42);
  EXPECT_EQ(pair_.rank0->add("counter", -50).value(), -8);
  EXPECT_EQ(pair_.rank1->add("counter", 0).value(), -8);
}

TEST_P(StoreConformance, CarriesTheLargestValueAndRefusesALargerOne) {
  Bytes value(kMaxStoreValueBytes);
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(i * 131 >> 8);
  ASSERT_TRUE(pair_.rank1->set("large", value).ok());
  EXPECT_TRUE(pair_.rank0->get("large", soon()).value() == value);
  value.push_back({});
  EXPECT_EQ(pair_.rank1->set("larger", value).code(), Code::kInvalidArgument);
}

TEST_P(StoreConformance, RefusesKeysThatAreEmptyOrTooLong) {
  const std::string longest(kMaxStoreKeyBytes - std::string("prefix/").size(), 'k');
  EXPECT_TRUE(pair_.rank1->set(longest, as_bytes("x")).ok());
  EXPECT_EQ(to_text(pair_.rank0->get(longest, soon()).value()), "x");
  EXPECT_EQ(pair_.rank1->add(longest + "more than that", 1).status().code(), Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Transport, StoreConformance,
    ::testing::Values(StoreKind{"Memory", [] { return open_pair("memory://" + unique_name()); }},
                      StoreKind{"File", [] { return open_pair("file://" + new_folder()); }},
                      StoreKind{"Unix", [] { return open_pair("unix://" + unique_name()); }},
                      StoreKind{"Tcp4", [] { return open_pair("tcp://127.0.0.1:" + std::to_string(free_port())); }},
                      StoreKind{"Localhost", [] { return open_pair("tcp://localhost:" + std::to_string(free_port())); }},
                      StoreKind{"Callbacks", open_callback_pair}, StoreKind{"Prefix", open_prefix_pair}),
    [](const auto& tested) { return tested.param.name; });

TEST(CallbackStore, NamesTheMissingCallbackAndTheOneThatFails) {
  const std::unique_ptr<Store> base = open_store("memory://" + unique_name(), 0, "", soon()).value();
  gimbal_store_t callbacks = callbacks_over(*base);
  callbacks.wait = nullptr;
  EXPECT_THAT(make_callback_store(callbacks).status().message(), HasSubstr("the callback wait is NULL"));

  callbacks = callbacks_over(*base);
  callbacks.set = [](void*, const char*, const void*, size_t) { return 13; };
  const std::unique_ptr<Store> store = make_callback_store(callbacks).value();
  EXPECT_EQ(store->set("k", as_bytes("v")).message(), "the store's set callback returned 13 for key \"k\"");
}

TEST(PrefixStore, PutsItsPrefixBeforeEveryKey) {
  const StorePair pair = open_prefix_pair();
  ASSERT_TRUE(pair.rank0->set("key", as_bytes("value")).ok());
  EXPECT_EQ(to_text(pair.base->get("prefix/key", soon()).value()), "value");
}

TEST(Rendezvous, NamesWhatItDoesNotUnderstand) {
  for (const char* rendezvous : {"", "tcp:", "tcp://", "127.0.0.1:29500", "carrier://pigeon"}) {
    EXPECT_EQ(
        open_store(rendezvous, 0, "", soon()).status().message(),
        "rendezvous \"" + std::string(rendezvous) + "\" is not tcp://host:port, unix://name, file:///path or memory://name");
  }
  for (const char* address : {"nowhere", "127.0.0.1:0", "127.0.0.1:65536", ":80", "1:2:3", "::1:80"}) {
    EXPECT_THAT(open_store(std::string("tcp://") + address, 0, "", soon()).status().message(),
                HasSubstr("TCP address \"" + std::string(address) + "\" is not host:port"));
  }
  EXPECT_THAT(open_store("unix://" + std::string(200, 'n'), 0, "", soon()).status().message(), HasSubstr("has 200 bytes"));
}

}  // namespace
}  // namespace gimbal::testing
