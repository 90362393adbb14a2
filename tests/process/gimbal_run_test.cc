// gimbal-run from outside: what it starts, prints and returns, and that nothing outlives it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/environment.h"
#include "tests/support/command.h"
#include "tools/support/binding.h"

namespace gimbal::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::vector<std::string> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

// Every rank runs the shell script.
std::vector<std::string> run_script(const std::string& ranks, const std::string& script,
                                    std::vector<std::string> options = {}) {
  std::vector<std::string> arguments = {binary("gimbal-run"), "-n", ranks};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--", "sh", "-c", script});
  return arguments;
}

bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  // "pid (name) state": a zombie that nobody has collected yet has ended too.
  return !stat.empty() && stat[stat.rfind(')') + 2] != 'Z';
}

// True when the process, which need not be a child of ours, has ended within the time.
bool ends_within(pid_t pid, int64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  while (is_running(pid)) {
    if (deadline.passed()) return false;
    sched_yield();
  }
  return true;
}

// The process ids that the ranks printed as "pid N".
std::vector<pid_t> printed_pids(const std::string& text) {
  const std::string mark = "pid ";
  std::vector<pid_t> pids;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    pids.push_back(std::stoi(text.substr(at + mark.size())));
  }
  return pids;
}

TEST(GimbalRun, GivesEveryRankTorchrunsVariables) {
  const CommandResult result =
      run_command(run_script("3", "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR"));

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(lines(result.out),
              UnorderedElementsAre("[0] 0 3 0 3 0 127.0.0.1", "[1] 1 3 1 3 0 127.0.0.1", "[2] 2 3 2 3 0 127.0.0.1"));
}

TEST(GimbalRun, GivesAllRanksOneRendezvousAndOneKeyThatDifferFromTheNextJobs) {
  const std::vector<std::string> command =
      run_script("2", "echo $GIMBAL_RENDEZVOUS $GIMBAL_JOB_KEY $MASTER_PORT", {"--no-prefix"});

  const std::vector<std::string> first = lines(run_command(command).out);
  const std::vector<std::string> second = lines(run_command(command).out);

  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_THAT(first[0], MatchesRegex("unix://gimbal-[0-9a-f]+ [0-9a-f]+ [1-9][0-9]*"));
  EXPECT_EQ(first[0], first[1]);
  EXPECT_NE(first[0], second[0]);
}

TEST(GimbalRun, StartsOneHostsPartOfAJobOverSeveral) {
  const CommandResult result = run_command(run_script(
      "2,3,1", "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT $GIMBAL_RENDEZVOUS",
      {"--nnodes", "3", "--node-rank", "1", "--rendezvous", "node0:4021"}));

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(lines(result.out),
              UnorderedElementsAre("[2] 2 6 0 3 1 node0 4022 tcp://node0:4021", "[3] 3 6 1 3 1 node0 4022 tcp://node0:4021",
                                   "[4] 4 6 2 3 1 node0 4022 tcp://node0:4021"));
}

TEST(GimbalRun, LeavesAJobOverSeveralHostsTheKeyThatTheEnvironmentHas) {
  CommandOptions options;
  options.environment = {{"GIMBAL_JOB_KEY", "shared"}};
  const CommandResult result = run_command(
      run_script("1", "echo $GIMBAL_JOB_KEY", {"--nnodes", "2", "--node-rank", "0", "--rendezvous", "[fd77::1]:4021"}),
      options);
  EXPECT_EQ(result.out, "[0] shared\n") << result.err;
}

TEST(GimbalRun, HidesTheRankOfAJobAroundIt) {
  CommandOptions options;
  options.environment = {{"GIMBAL_RANK", "7"}, {"GIMBAL_SIZE", "9"}};

  const CommandResult result = run_command(run_script("1", "echo \"<$GIMBAL_RANK$GIMBAL_SIZE>\""), options);

  EXPECT_EQ(result.out, "[0] <>\n");
}

TEST(GimbalRun, PrefixesEveryLineOfBothStreamsAndMixesNone) {
  const CommandResult result = run_command(run_script(
      "4", "i=0; while [ $i -lt 500 ]; do printf 'a%s' $RANK; printf 'b%s\\n' $RANK; echo e$RANK >&2; i=$((i+1)); done"));

  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(lines(result.out).size(), 2000u);
  EXPECT_EQ(lines(result.err).size(), 2000u);
  EXPECT_THAT(lines(result.out), Each(MatchesRegex("\\[0\\] a0b0|\\[1\\] a1b1|\\[2\\] a2b2|\\[3\\] a3b3")));
  EXPECT_THAT(lines(result.err), Each(MatchesRegex("\\[0\\] e0|\\[1\\] e1|\\[2\\] e2|\\[3\\] e3")));
}

TEST(GimbalRun, EndsALastLineThatHasNoNewline) { EXPECT_EQ(run_command(run_script("1", "printf end")).out, "[0] end\n"); }

TEST(GimbalRun, GivesStandardInputToRankZeroOnly) {
  CommandOptions options;
  options.input = "hello\n";

  const CommandResult result = run_command(run_script("2", "cat; echo done"), options);

  EXPECT_THAT(lines(result.out), UnorderedElementsAre("[0] hello", "[0] done", "[1] done"));
}

TEST(GimbalRun, PassesTheProgramsOwnOptionsOn) {
  const CommandResult result =
      run_command({binary("gimbal-run"), "-n", "1", "echo", "x", "-n", "5", "--bind", "core", "--help"});

  EXPECT_EQ(result.out, "[0] x -n 5 --bind core --help\n");
}

TEST(GimbalRun, NamesTheRankThatExitedAndExitsWithItsStatus) {
  const CommandResult result = run_command(run_script("3", "if [ $RANK = 2 ]; then exit 3; fi; exec sleep 1000"));

  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, MatchesRegex("gimbal-run: rank 2 \\(pid [0-9]+\\) exited with status 3; stopping the other ranks\n"));
}

TEST(GimbalRun, NamesTheRankThatDiedBySignalAndExitsWith128AndTheSignal) {
  const CommandResult result = run_command(run_script("3", "if [ $RANK = 1 ]; then kill -9 $$; fi; exec sleep 1000"));

  EXPECT_EQ(result.status, 137);
  EXPECT_THAT(result.err,
              MatchesRegex("gimbal-run: rank 1 \\(pid [0-9]+\\) died by signal 9 \\(Killed\\); stopping the other ranks\n"));
}

TEST(GimbalRun, KillsARankThatIgnoresBeingToldToStop) {
  std::string folder = ::testing::TempDir() + "gimbal_run_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  // Rank 0 fails once rank 1 ignores the signal.
  const std::string script = "if [ $RANK = 0 ]; then until [ -e " + folder +
                             "/deaf ]; do :; done; exit 4; fi; trap '' TERM; : > " + folder +
                             "/deaf; while :; do sleep 1000; done";

  const CommandResult result = run_command(run_script("2", script, {"--grace", "100ms"}));
  std::filesystem::remove_all(folder);

  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.err, HasSubstr("gimbal-run: not all ranks have ended 100 ms after they were told to; killing them\n"));
}

TEST(GimbalRun, StopsWhatTheRanksHaveStartedToo) {
  const CommandResult result =
      run_command(run_script("2", "sleep 1000 & echo pid $!; if [ $RANK = 0 ]; then exit 5; fi; wait"));

  EXPECT_EQ(result.status, 5);
  ASSERT_THAT(result.out, HasSubstr("[0] pid"));
  for (const pid_t pid : printed_pids(result.out)) EXPECT_TRUE(ends_within(pid, 10'000));
}

class ForwardedSignal : public ::testing::TestWithParam<std::pair<int, std::string>> {};

TEST_P(ForwardedSignal, ReachesEveryRankWhichMayEndInItsOwnWay) {
  const auto& [number, name] = GetParam();
  Command command(
      run_script("2", "trap 'echo got " + name + "; exit 0' " + name + "; echo ready; while :; do sleep 0.01; done"));
  ASSERT_TRUE(command.wait_for("[0] ready"));
  ASSERT_TRUE(command.wait_for("[1] ready"));

  command.send_signal(number);
  const CommandResult result = command.finish();

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[0] got " + name + "\n"));
  EXPECT_THAT(result.out, HasSubstr("[1] got " + name + "\n"));
}

INSTANTIATE_TEST_SUITE_P(GimbalRun, ForwardedSignal,
                         ::testing::Values(std::pair(SIGINT, "INT"), std::pair(SIGTERM, "TERM"), std::pair(SIGHUP, "HUP")),
                         [](const auto& test) { return test.param.second; });

TEST(GimbalRun, ExitsWith128AndTheSignalThatStoppedIt) {
  Command command(run_script("2", "echo ready; exec sleep 1000"));
  ASSERT_TRUE(command.wait_for("[0] ready"));
  ASSERT_TRUE(command.wait_for("[1] ready"));

  command.send_signal(SIGTERM);

  EXPECT_EQ(command.finish().status, 128 + SIGTERM);
}

TEST(GimbalRun, LeavesNothingBehindWhenItIsKilled) {
  Command command(run_script("2", "sleep 1000 & echo pid $!; echo pid $$; echo ready; wait"));
  ASSERT_TRUE(command.wait_for("[0] ready"));
  ASSERT_TRUE(command.wait_for("[1] ready"));
  const std::vector<pid_t> pids = printed_pids(command.out());
  ASSERT_EQ(pids.size(), 4u);

  command.send_signal(SIGKILL);
  command.finish();

  for (const pid_t pid : pids) EXPECT_TRUE(ends_within(pid, 10'000)) << pid;
}

TEST(GimbalRun, StopsAJobThatTakesTooLong) {
  const CommandResult result = run_command(run_script("2", "exec sleep 1000", {"--timeout", "200ms"}));

  EXPECT_EQ(result.status, 124);
  EXPECT_EQ(result.err, "gimbal-run: the job has taken longer than 200 ms; stopping all ranks\n");
}

// The CPUs of each rank, as the kernel lists them, by rank.
std::vector<std::string> bound_cpus(const std::string& ranks, const std::string& binding, std::string* notice) {
  const CommandResult result = run_command(run_script(ranks, "grep Cpus_allowed_list /proc/self/status", {"--bind", binding}));
  *notice = result.err;
  std::vector<std::string> cpus = lines(result.out);
  std::sort(cpus.begin(), cpus.end());
  for (std::string& line : cpus) line = line.substr(line.find('\t') + 1);
  return cpus;
}

TEST(GimbalRunBind, GivesEachRankACoreOfThoseAllowedHere) {
  const std::vector<CpuList> cores = split_by_core(allowed_cpus(), "/sys");
  std::string notice;

  const std::vector<std::string> cpus = bound_cpus("2", "core", &notice);

  ASSERT_EQ(cpus.size(), 2u);
  EXPECT_EQ(cpus[0], format_cpu_list(cores[0]));
  EXPECT_EQ(cpus[1], format_cpu_list(cores[1 % cores.size()]));
  EXPECT_EQ(notice.empty(), cores.size() >= 2);
}

TEST(GimbalRunBind, StaysWithinASmallerAffinityMask) {
  const size_t last = allowed_cpus().back();

  const CommandResult result = run_command({"taskset", "-c", std::to_string(last), binary("gimbal-run"), "-n", "2", "--bind",
                                            "core", "grep", "Cpus_allowed_list", "/proc/self/status"});

  const std::string expected = "Cpus_allowed_list:\t" + std::to_string(last);
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("[0] " + expected, "[1] " + expected));
  EXPECT_EQ(result.err, "gimbal-run: 2 ranks are bound to 1 allowed cores: some ranks share a core\n");
}

TEST(GimbalRunBind, GivesEachRankANumaNodeOfThoseAllowedHere) {
  const std::vector<CpuList> nodes = split_by_numa_node(allowed_cpus(), "/sys");
  std::string notice;

  const std::vector<std::string> cpus = bound_cpus("1", "numa", &notice);

  EXPECT_THAT(cpus, ::testing::ElementsAre(format_cpu_list(nodes[0])));
  EXPECT_EQ(notice, "");
}

TEST(GimbalRunBind, TakesGimbalBindWhereTheOptionIsNotGiven) {
  const std::string core = format_cpu_list(split_by_core(allowed_cpus(), "/sys")[0]);
  const CommandOptions options = {.environment = {{"GIMBAL_BIND", "core"}}, .input = {}};
  const auto cpus = [&](const std::vector<std::string>& bind) {
    std::vector<std::string> command = {binary("gimbal-run"), "-n", "1"};
    command.insert(command.end(), bind.begin(), bind.end());
    command.insert(command.end(), {"grep", "Cpus_allowed_list", "/proc/self/status"});
    return run_command(command, options).out;
  };

  EXPECT_EQ(cpus({}), "[0] Cpus_allowed_list:\t" + core + "\n");
  EXPECT_EQ(cpus({"--bind", "none"}), "[0] Cpus_allowed_list:\t" + format_cpu_list(allowed_cpus()) + "\n");
}

TEST(GimbalRunBind, RefusesAGimbalBindThatIsNoBinding) {
  const CommandResult result =
      run_command({binary("gimbal-run"), "-n", "1", "true"}, {.environment = {{"GIMBAL_BIND", "socket"}}, .input = {}});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("GIMBAL_BIND: \"socket\" is not none, core or numa"));
}

struct BadArguments {
  std::vector<std::string> arguments;
  int status;
  std::string error;
};

class BadArgumentsTest : public ::testing::TestWithParam<BadArguments> {};

TEST_P(BadArgumentsTest, AreRefusedInOneLineThatSaysWhatIsAllowed) {
  std::vector<std::string> arguments = {binary("gimbal-run")};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());

  const CommandResult result = run_command(arguments);

  EXPECT_EQ(result.status, GetParam().status);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  EXPECT_THAT(result.err, StartsWith("gimbal-run: " + GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    GimbalRun, BadArgumentsTest,
    ::testing::Values(
        BadArguments{{"-n", "0", "true"}, 2, "-n: \"0\" is not a whole number from 1 to 100000"},
        BadArguments{{"-n", "-1", "true"}, 2, "-n: \"-1\" is not a whole number from 1 to 100000"},
        BadArguments{{"-n", "abc", "true"}, 2, "-n: \"abc\" is not a whole number from 1 to 100000"},
        BadArguments{{"-n", "100001", "true"}, 2, "-n: \"100001\" is not a whole number from 1 to 100000"},
        BadArguments{{"true"}, 2, "-n is missing: the number of ranks, 1 to 100000"},
        BadArguments{{"-n", "2"}, 2, "no program given"},
        BadArguments{{"-n", "2,2", "true"}, 2, "-n: \"2,2\" gives the ranks of 2 hosts, but there are 1 (--nnodes)"},
        BadArguments{{"-n", "2", "--nnodes", "2", "true"}, 2, "--node-rank is missing"},
        BadArguments{{"-n", "2", "--nnodes", "2", "--node-rank", "2", "true"},
                     2,
                     "--node-rank: \"2\" is not a whole number from 0 to 1"},
        BadArguments{{"-n", "2", "--nnodes", "2", "--node-rank", "1", "true"}, 2, "--rendezvous is missing"},
        BadArguments{{"-n", "2", "--nnodes", "2", "--node-rank", "1", "--rendezvous", "node0", "true"},
                     2,
                     "--rendezvous: \"node0\" is not host:port"},
        BadArguments{
            {"-n", "2", "--node-rank", "1", "true"}, 2, "--node-rank and --rendezvous belong to a job over several hosts"},
        BadArguments{{"-n", "2", "--nonsense", "true"}, 2, "unknown option \"--nonsense\""},
        BadArguments{{"-n", "2", "--bind", "socket", "true"}, 2, "--bind: \"socket\" is not none, core or numa"},
        BadArguments{{"-n", "2", "--timeout", "soon", "true"}, 2, "--timeout: \"soon\" is not a duration"},
        BadArguments{{"-n", "2", "/nonexistent/program"}, 127, "cannot run \"/nonexistent/program\": No such file"},
        BadArguments{{"-n", "2", "/etc/passwd"}, 127, "cannot run \"/etc/passwd\": Permission denied"}));

TEST(GimbalRun, PrintsTheDocumentOfTheEnvironmentThatTheSourceTreeHolds) {
  EXPECT_EQ(run_command({binary("gimbal-run"), "--environment"}).out, environment_document());
  EXPECT_EQ(run_command({"cat", source_file("docs/environment.md")}).out, environment_document());
}

TEST(GimbalRun, PrintsItsVersionAndItsHelp) {
  EXPECT_THAT(run_command({binary("gimbal-run"), "--version"}).out, MatchesRegex("gimbal-run [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(run_command({binary("gimbal-run"), "--help"}).out, HasSubstr("--bind"));
}

}  // namespace
}  // namespace gimbal::test
