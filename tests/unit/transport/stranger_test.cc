// Strangers on both sides of a rendezvous, wrong keys, hostile lengths, and servers that are in the way.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/unit/transport/free_port.h"
#include "tests/unit/transport/rank_threads.h"
#include "transport/hello.h"
#include "transport/socket.h"
#include "transport/store.h"
#include "transport/wire.h"

namespace gimbal::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kPatienceMs = 30'000;
Deadline soon() { return Deadline::after_ms(kPatienceMs); }

// Accepts one connection, says `greeting` and holds the connection until the object ends.
class Listener {
 public:
  explicit Listener(std::string greeting) : greeting_(std::move(greeting)) {
    listen(bound_.socket.get(), 8);
    thread_ = std::thread([this] {
      connection_ = FileDescriptor(accept(bound_.socket.get(), nullptr, nullptr));
      static_cast<void>(write_some(connection_.get(), as_bytes(greeting_)));
    });
  }
  ~Listener() { thread_.join(); }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(bound_.port); }

 private:
  const std::string greeting_;
  BoundPort bound_ = bind_any_port();
  FileDescriptor connection_;
  std::thread thread_;
};

TEST(StoreClient, NamesAnHttpServerAtOnce) {
  const Listener listener("HTTP/1.0 400 Bad Request\r\n\r\n");
  const int64_t started = monotonic_ns();
  const Status status = open_store("tcp://" + listener.address(), 1, "", soon()).status();
  EXPECT_EQ(status.message(), listener.address() + " answered, but is not a Gimbal store");
  EXPECT_LT(monotonic_ns() - started, kPatienceMs * 1'000'000 / 2);
}

TEST(StoreClient, NamesAStrangerWithAShortGreetingAtOnce) {
  const Listener listener("hi\n");
  const Status status = open_store("tcp://" + listener.address(), 1, "", soon()).status();
  EXPECT_EQ(status.message(), listener.address() + " answered, but is not a Gimbal store");
}

TEST(StoreClient, NamesAListenerThatSaysNothingAtTheDeadline) {
  const Listener listener("");
  const Status status = open_store("tcp://" + listener.address(), 1, "", Deadline::after_ms(100)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.message(), listener.address() + " accepted the connection but did not answer: it is not a Gimbal store");
}

TEST(StoreClient, SaysThatNobodyListens) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const Status status = open_store("tcp://" + address, 1, "", Deadline::after_ms(50)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(address), HasSubstr("Connection refused"), EndsWith("is rank 0 running?")));
}

TEST(StoreClient, NamesAServerOfAnotherProtocolVersion) {
  const Listener listener(to_text(encode(ServerHello{.version = 99, .job = {}, .nonce = {}})));
  const Status status = open_store("tcp://" + listener.address(), 1, "", soon()).status();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("speaks version 99 of the protocol"));
}

TEST(StoreServer, NamesAnAddressInUseAtOnce) {
  const Listener listener("");
  const FileDescriptor visitor = std::move(connect_to(resolve_tcp(listener.address())->front(), soon()).fd);
  EXPECT_EQ(open_store("tcp://" + listener.address(), 0, "", soon()).status().message(),
            listener.address() + " is in use by another program or job");
}

TEST(StoreServer, NamesAnAbstractNameThatAnotherJobUses) {
  const std::string rendezvous = "unix://" + unique_name();
  const std::unique_ptr<Store> first = open_store(rendezvous, 0, "one job", soon()).value();
  EXPECT_EQ(open_store(rendezvous, 0, "another", soon()).status().message(),
            rendezvous + " is in use by another program or job");
}

TEST(StoreServer, TakesTheFirstFreeAddressOfAListAndIsFoundThere) {
  const Listener stranger("HTTP/1.0 400 Bad Request\r\n\r\n");
  const std::string list = "tcp://" + stranger.address() + ",tcp://127.0.0.1:" + std::to_string(free_port());
  const std::unique_ptr<Store> server = open_store(list, 0, "key", soon()).value();
  const std::unique_ptr<Store> client = open_store(list, 1, "key", soon()).value();
  EXPECT_EQ(client->add("counter", 1).value(), 1);
}

TEST(StoreServer, AtAnyAddressIsFoundByItsPublishedRendezvous) {
  const PublishedStore published = serve_store_anywhere("", "key").value();
  EXPECT_LE(published.rendezvous.size(), kMaxPublishedBytes);
  const std::unique_ptr<Store> client = open_store(published.rendezvous, 1, "key", soon()).value();
  EXPECT_EQ(client->add("counter", 1).value(), 1);
}

TEST(StoreServer, IsFoundByTheNameOfItsHost) {
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  const std::string rendezvous = std::string("tcp://") + name + ":" + std::to_string(free_port());
  if (!resolve_tcp(rendezvous.substr(6)).ok()) GTEST_SKIP() << "this host's name does not resolve";
  Result<std::unique_ptr<Store>> server = open_store(rendezvous, 0, "key", soon());
  if (!server.ok()) GTEST_SKIP() << server.status().message();
  // Others may know the name by another address than this host does.
  const std::string elsewhere = "tcp://127.0.0.1" + rendezvous.substr(rendezvous.rfind(':'));
  EXPECT_TRUE(open_store(elsewhere, 1, "key", soon()).ok());
}

TEST(StoreServer, NamesAnAddressOfAnotherHost) {
  const Status status = open_store("tcp://192.0.2.1:" + std::to_string(free_port()), 0, "", soon()).status();
  EXPECT_THAT(status.message(), HasSubstr("is not an address of this host"));
}

TEST(StoreServer, ServesTheSameAddressAgainAfterItsEnd) {
  const std::string rendezvous = "tcp://127.0.0.1:" + std::to_string(free_port());
  for (int round = 0; round < 5; ++round) {
    const std::unique_ptr<Store> server = open_store(rendezvous, 0, "", soon()).value();
    const std::unique_ptr<Store> client = open_store(rendezvous, 1, "", soon()).value();
    EXPECT_EQ(client->add("round", 1).value(), 1);
  }
}

TEST(StoreServer, RefusesAClientWithAnotherKey) {
  for (const std::string& rendezvous : {"unix://" + unique_name(), "memory://" + unique_name()}) {
    const std::unique_ptr<Store> server = open_store(rendezvous, 0, "right", soon()).value();
    const Status status = open_store(rendezvous, 1, "wrong", soon()).status();
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_EQ(status.message(), rendezvous + " belongs to another job, or to one with another GIMBAL_JOB_KEY");
  }
}

TEST(StoreServer, EndsWithoutWaitingForItsClients) {
  const std::string rendezvous = "unix://" + unique_name();
  std::unique_ptr<Store> server = open_store(rendezvous, 0, "", soon()).value();
  const std::unique_ptr<Store> client = open_store(rendezvous, 1, "", soon()).value();
  server.reset();
  const Status status = client->get("key", soon()).status();
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_EQ(status.message(), "the store at " + rendezvous + " is gone: rank 0 closed it or its process ended");
}

TEST(StoreServer, IsNotDisturbedByStrangers) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const std::unique_ptr<Store> server = open_store("tcp://" + address, 0, "", soon()).value();
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(std::move(connect_to(resolve_tcp(address)->front(), soon()).fd));
    ASSERT_TRUE(strangers.back().valid());
    const std::string words[] = {"", "G", "GET / HTTP/1.0\r\n\r\n", std::string(100'000, 'x')};
    static_cast<void>(write_some(strangers.back().get(), as_bytes(words[i % 4])));
  }
  const std::unique_ptr<Store> client = open_store("tcp://" + address, 1, "", soon()).value();
  EXPECT_EQ(client->add("counter", 5).value(), 5);
  EXPECT_EQ(server->add("counter", 5).value(), 10);
}

// A client that knows the key and says what no client says.
FileDescriptor join_as_client(const std::string& address, const std::string& job_key) {
  HelloClient hello(resolve_tcp(address)->front(), JobKey(job_key), {.purpose = Purpose::kStore, .from = 1});
  EXPECT_TRUE(run_hello(hello, soon()).ok());
  return hello.take();
}

TEST(StoreServer, DropsAClientThatAnnouncesMoreThanIsAllowed) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const std::unique_ptr<Store> server = open_store("tcp://" + address, 0, "key", soon()).value();
  for (const StoreRequest& bomb :
       {StoreRequest{.id = 1, .key_bytes = 1, .value_bytes = 0xffffffff}, StoreRequest{.id = 1, .key_bytes = 0xffffffff}}) {
    const FileDescriptor socket = join_as_client(address, "key");
    ASSERT_TRUE(write_all(socket.get(), encode(bomb), "server", soon()).ok());
    std::byte byte;
    EXPECT_EQ(read_all(socket.get(), {&byte, 1}, "server", soon()).message(), "server closed the connection");
  }
}

TEST(StoreServer, AnswersAClientThatSendsItsRequestByteByByte) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  const std::unique_ptr<Store> server = open_store("tcp://" + address, 0, "key", soon()).value();
  const FileDescriptor socket = join_as_client(address, "key");
  const Bytes request = ByteWriter()
                            .raw(encode(StoreRequest{.id = 3, .op = StoreOp::kAdd, .key_bytes = 1, .amount = 4}))
                            .raw(as_bytes("k"))
                            .take();
  for (const std::byte& byte : request) ASSERT_TRUE(write_all(socket.get(), {&byte, 1}, "server", soon()).ok());
  Bytes answer(kStoreAnswerBytes);
  ASSERT_TRUE(read_all(socket.get(), answer, "server", soon()).ok());
  EXPECT_EQ(parse_store_answer(answer)->count, 4);
}

// Descriptors that a program started by this one would inherit.
std::set<int> inherited_descriptors() {
  std::set<int> inherited;
  for (int fd = 0; fd < 1024; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) inherited.insert(fd);
  }
  return inherited;
}

TEST(StoreServer, LeavesNoDescriptorToExecutedPrograms) {
  const std::set<int> before = inherited_descriptors();
  const std::string rendezvous = "tcp://127.0.0.1:" + std::to_string(free_port());
  const std::unique_ptr<Store> server = open_store(rendezvous, 0, "", soon()).value();
  const std::unique_ptr<Store> client = open_store(rendezvous, 1, "", soon()).value();
  ASSERT_EQ(client->add("answered", 1).value(), 1);
  EXPECT_EQ(inherited_descriptors(), before);
}

}  // namespace
}  // namespace gimbal::testing
