// The keyed handshake: who proves what to whom, and listeners amid strangers.
#include "transport/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <thread>

#include "tests/unit/transport/rank_threads.h"
#include "transport/keyed_listener.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;
using Step = HelloServer::Step;

constexpr Claim kClaim = {.purpose = Purpose::kData, .from = 3, .to = 1, .stream = 2};

Deadline soon() { return Deadline::after_ms(30'000); }

// A listening address, and the server's side of the connection that came last.
struct Door {
  SocketAddress address = abstract_address("gimbal-" + unique_name());
  FileDescriptor listener = listen_on(address).value();
  HelloServer next() const { return HelloServer(accept_from(listener.get()).fd); }
};

// Both sides step in turns until the server has decided.
Step alternate(HelloClient& client, HelloServer& server, const JobKey& server_key) {
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(client.step());
    const Step step = server.step(server_key);
    if (step != Step::kAgain) return step;
  }
  return Step::kAgain;
}

TEST(Hello, BothSidesProveTheKeyAndTheServerLearnsTheClaim) {
  const Door door;
  const JobKey key("secret");
  HelloClient client(door.address, key, kClaim);
  HelloServer server = door.next();

  ASSERT_EQ(alternate(client, server, key), Step::kProven);
  EXPECT_EQ(server.claim(), kClaim);
  const std::optional<FileDescriptor> accepted = server.accept(key);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(client.step(), HelloClient::Step::kDone);
  EXPECT_TRUE(client.take().valid());
}

TEST(Hello, AnotherSecretIsAnotherJob) {
  for (const JobKey& other : {JobKey("other"), JobKey("")}) {
    const Door door;
    HelloClient client(door.address, JobKey("secret"), kClaim);
    HelloServer server = door.next();
    EXPECT_EQ(alternate(client, server, other), Step::kStranger);
    EXPECT_EQ(client.step(), HelloClient::Step::kFailed);
    EXPECT_EQ(client.failure().code(), Code::kMismatch);
    EXPECT_THAT(client.failure().message(), HasSubstr("belongs to another job, or to one with another GIMBAL_JOB_KEY"));
    EXPECT_FALSE(client.worth_another_try());
  }
}

TEST(Hello, AServerThatKnowsTheJobsNameButNotItsKeyIsFoundOut) {
  const Door door;
  const JobKey key("secret");
  HelloClient client(door.address, key, kClaim);
  const FileDescriptor forger = accept_from(door.listener.get()).fd;
  static_cast<void>(write_some(forger.get(), encode(ServerHello{.job = key.id(), .nonce = {}})));
  static_cast<void>(write_some(forger.get(), encode(Verdict{.acceptance = Acceptance::kAccepted, .proof = {}})));
  EXPECT_EQ(client.step(), HelloClient::Step::kFailed);
  EXPECT_THAT(client.failure().message(), HasSubstr("does not have this job's key"));
}

TEST(Hello, AProofThatWasOverheardIsWorthNothingOnTheNextConnection) {
  const JobKey key("secret");
  const ClientHello hello = {.job = key.id(), .claim = kClaim, .nonce = random_nonce()};
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  HelloServer server{FileDescriptor(ends[0])};
  const FileDescriptor eavesdropper(ends[1]);
  const ServerHello earlier = {.job = key.id(), .nonce = random_nonce()};
  static_cast<void>(write_some(eavesdropper.get(), encode(hello)));
  static_cast<void>(write_some(eavesdropper.get(), key.prove(proof_context("client", hello, earlier))));
  EXPECT_EQ(server.step(key), Step::kStranger);
}

TEST(Hello, AClientOfAnotherVersionIsToldTheServersVersion) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  HelloServer server{FileDescriptor(ends[0])};
  const FileDescriptor client(ends[1]);
  const Bytes shorter_hello = ByteWriter().raw(hello_magic()).u32(99).take();
  static_cast<void>(write_some(client.get(), shorter_hello));
  EXPECT_EQ(server.step(JobKey("")), Step::kStranger);
  Bytes answer(kServerHelloBytes);
  ASSERT_EQ(read_some(client.get(), answer).bytes, answer.size());
  EXPECT_EQ(parse_server_hello(answer)->version, kWireVersion);
}

TEST(Hello, OneWrongByteMakesAStranger) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  HelloServer server{FileDescriptor(ends[0])};
  const FileDescriptor client(ends[1]);
  static_cast<void>(write_some(client.get(), as_bytes("GIMx")));
  EXPECT_EQ(server.step(JobKey("")), Step::kStranger);
}

TEST(Hello, ArrivesByteByByteAndTakesNoByteOfWhatFollows) {
  const JobKey key("secret");
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  HelloServer server{FileDescriptor(ends[0])};
  const FileDescriptor client(ends[1]);
  const ClientHello mine = {.job = key.id(), .claim = kClaim, .nonce = random_nonce()};
  const auto say = [&](std::span<const std::byte> bytes) {
    Step step = Step::kAgain;
    for (const std::byte& byte : bytes) {
      EXPECT_EQ(step, Step::kAgain);
      static_cast<void>(write_some(client.get(), {&byte, 1}));
      step = server.step(key);
    }
    return step;
  };
  EXPECT_EQ(say(encode(mine)), Step::kAgain);
  Bytes answer(kServerHelloBytes);
  ASSERT_EQ(read_some(client.get(), answer).bytes, answer.size());
  EXPECT_EQ(say(key.prove(proof_context("client", mine, *parse_server_hello(answer)))), Step::kProven);

  static_cast<void>(write_some(client.get(), as_bytes("data")));
  const std::optional<FileDescriptor> accepted = server.accept(key);
  ASSERT_TRUE(accepted.has_value());
  Bytes next(16);
  EXPECT_EQ(read_some(accepted->get(), next).bytes, 4u);
}

std::unique_ptr<KeyedListener> listen_at(const SocketAddress& address) {
  std::vector<FileDescriptor> sockets(1);
  sockets[0] = listen_on(address).value();
  return KeyedListener::create(std::move(sockets)).value();
}

// Serves until one connection is accepted.
AcceptedConnection accept_one(KeyedListener& listener, const JobKey& key) {
  for (;;) {
    std::vector<AcceptedConnection> accepted = listener.progress(key, [](const Claim&) { return true; });
    if (!accepted.empty()) return std::move(accepted.front());
    if (wait_for(listener.fd(), POLLIN, soon()) == WaitOutcome::kDeadline) return {};
  }
}

TEST(KeyedListener, ServesARankAmidTwoHundredIdleAndSlowStrangers) {
  const SocketAddress address = abstract_address("gimbal-" + unique_name());
  const std::unique_ptr<KeyedListener> listener = listen_at(address);
  const JobKey key("secret");
  std::vector<FileDescriptor> strangers;
  const Bytes half = encode(ClientHello{.job = key.id(), .claim = {}, .nonce = {}});
  for (size_t i = 0; i < 200; ++i) {
    strangers.push_back(connect_to(address, soon()).fd);
    ASSERT_TRUE(strangers.back().valid());
    // Silent, or in the middle of a hello.
    static_cast<void>(write_some(strangers.back().get(), std::span(half).first(i % half.size())));
    static_cast<void>(listener->progress(key, [](const Claim&) { return false; }));
  }
  std::thread rank([&] {
    HelloClient client(address, key, kClaim);
    EXPECT_TRUE(run_hello(client, soon()).ok());
  });
  const AcceptedConnection accepted = accept_one(*listener, key);
  rank.join();
  EXPECT_TRUE(accepted.socket.valid());
  EXPECT_EQ(accepted.claim, kClaim);
}

TEST(KeyedListener, TellsAProvenClientThatItIsNotExpected) {
  const SocketAddress address = abstract_address("gimbal-" + unique_name());
  const std::unique_ptr<KeyedListener> listener = listen_at(address);
  const JobKey key("secret");
  HelloClient client(address, key, kClaim);
  while (client.step() == HelloClient::Step::kAgain) {
    EXPECT_TRUE(listener->progress(key, [](const Claim&) { return false; }).empty());
  }
  EXPECT_EQ(client.failure().code(), Code::kMismatch);
  EXPECT_THAT(client.failure().message(), HasSubstr("does not expect this connection"));
}

TEST(KeyedListener, DropsTheOldestStrangerWhenDescriptorsRunOut) {
  const SocketAddress address = abstract_address("gimbal-" + unique_name());
  const std::unique_ptr<KeyedListener> listener = listen_at(address);
  const JobKey key("secret");
  const FileDescriptor stranger = connect_to(address, soon()).fd;
  static_cast<void>(listener->progress(key, [](const Claim&) { return false; }));
  HelloClient client(address, key, kClaim);
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit full = {.rlim_cur = 3, .rlim_max = before.rlim_max};  // no new descriptor at all

  setrlimit(RLIMIT_NOFILE, &full);
  static_cast<void>(listener->progress(key, [](const Claim&) { return false; }));
  setrlimit(RLIMIT_NOFILE, &before);

  std::byte byte;
  EXPECT_EQ(read_all(stranger.get(), {&byte, 1}, "listener", soon()).message(), "listener closed the connection");
  EXPECT_TRUE(listener->paused());
  listener->resume();
  while (client.step() == HelloClient::Step::kAgain) {
    static_cast<void>(listener->progress(key, [](const Claim&) { return true; }));
  }
  EXPECT_TRUE(client.failure().ok()) << client.failure().message();
}

}  // namespace
}  // namespace gimbal::testing
