// PMI-1 against a launcher that is a thread of this test: its answers, good and bad.
#include "runtime/pmi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "transport/bytes.h"
#include "transport/socket.h"

namespace gimbal::test {
namespace {

using testing::HasSubstr;

Deadline soon() { return Deadline::after_ms(30'000); }

// Says each answer when a line has come, and closes.
class FakeLauncher {
 public:
  explicit FakeLauncher(std::vector<std::string> answers) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    rank_end_ = FileDescriptor(ends[0]);
    thread_ = std::thread([this, own = FileDescriptor(ends[1]), answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        for (char letter = 0; letter != '\n' && read(own.get(), &letter, 1) == 1;) continue;
        static_cast<void>(write_some(own.get(), as_bytes(answer)));
      }
    });
  }
  ~FakeLauncher() { thread_.join(); }
  FileDescriptor rank_end() { return std::move(rank_end_); }

 private:
  FileDescriptor rank_end_;
  std::thread thread_;
};

std::vector<std::string> greeting_and(std::vector<std::string> answers) {
  answers.insert(answers.begin(),
                 {"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
                  "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n", "cmd=my_kvsname rc=0 kvsname=kvs_7\n"});
  return answers;
}

TEST(PmiLine, IsReadIntoItsFields) {
  const auto fields = parse_pmi_line("cmd=get_result rc=0 value=tcp://a:1 b=c");
  EXPECT_EQ(fields.at("cmd"), "get_result");
  EXPECT_EQ(fields.at("rc"), "0");
  EXPECT_EQ(fields.at("value"), "tcp://a:1 b=c");
  EXPECT_TRUE(parse_pmi_line("no field at all").empty());
}

TEST(Pmi, PassesAWordFromRankZero) {
  FakeLauncher launcher(greeting_and(
      {"cmd=put_result rc=0\n", "cmd=barrier_out\n", "cmd=get_result rc=0 value=word\n", "cmd=finalize_ack rc=0\n"}));
  Result<PmiSession> session = PmiSession::over(launcher.rank_end(), soon());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(session->job(), "kvs_7");
  EXPECT_EQ(session->max_value_bytes(), 1024u);
  EXPECT_TRUE(session->put("key", "word", soon()).ok());
  EXPECT_TRUE(session->barrier(soon()).ok());
  EXPECT_EQ(session->get("key", soon()).value(), "word");
  EXPECT_TRUE(session->finalize(soon()).ok());
}

TEST(Pmi, TakesAnAnswerThatArrivesInPieces) {
  FakeLauncher launcher(greeting_and({"cmd=barrier_out\ncmd=put_re", "sult rc=0\n"}));
  Result<PmiSession> session = PmiSession::over(launcher.rank_end(), soon());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(session->barrier(soon()).ok());
  EXPECT_TRUE(session->put("key", "word", soon()).ok());
}

TEST(Pmi, SaysWhatTheLauncherRefused) {
  FakeLauncher launcher(greeting_and({"cmd=put_result rc=-1 msg=duplicate key\n"}));
  Result<PmiSession> session = PmiSession::over(launcher.rank_end(), soon());
  ASSERT_TRUE(session.ok());
  EXPECT_THAT(session->put("key", "word", soon()).message(), HasSubstr("refused \"cmd=put\": duplicate key (rc -1)"));
}

TEST(Pmi, SaysThatTheLauncherAnsweredSomethingElse) {
  FakeLauncher launcher({"HTTP/1.0 400 Bad Request\n"});
  const Status status = PmiSession::over(launcher.rank_end(), soon()).status();
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("the launcher (PMI) answered \"\" to \"cmd=init\""));
}

TEST(Pmi, SaysThatTheLauncherHasGoneOrIsSilent) {
  FakeLauncher gone({});
  EXPECT_THAT(PmiSession::over(gone.rank_end(), soon()).status().message(), HasSubstr("the launcher (PMI) closed"));
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor silent(ends[1]);
  EXPECT_EQ(PmiSession::over(FileDescriptor(ends[0]), Deadline::after_ms(20)).status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace gimbal::test
