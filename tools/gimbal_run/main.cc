// gimbal-run: starts a program as N ranks on this machine (docs/run.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/environment.h"
#include "base/parse.h"
#include "tools/support/launcher.h"

namespace gimbal {
namespace {

constexpr int kUsageStatus = 2;
constexpr int64_t kMostRanks = 100'000;  // GIMBAL_SIZE's own limit

struct Texts {
  std::string ranks;
  std::string binding;
  std::string timeout;
  std::string grace = "10s";
};

Status in_option(std::string_view option, const Status& status) {
  return {status.code(), std::string(option) + ": " + status.message()};
}

Result<Job> make_job(const Texts& texts, std::vector<std::string> command, bool prefix_output) {
  Job job;
  job.launcher = "gimbal-run";
  // What is no option of ours begins the command; an option there is a misspelt one of ours.
  if (!command.empty() && command.front() != "--" && command.front().starts_with('-')) {
    return Status(Code::kInvalidArgument, "unknown option \"" + command.front() + "\"");
  }
  if (texts.ranks.empty()) return Status(Code::kInvalidArgument, "-n is missing: the number of ranks, 1 to 100000");
  const Result<int64_t> ranks = parse_integer(texts.ranks, 1, kMostRanks);
  if (!ranks.ok()) return in_option("-n", ranks.status());
  job.ranks = static_cast<Rank>(*ranks);
  if (texts.binding.empty()) {
    ASSIGN_OR_RETURN(job.binding, binding_from_environment());
  } else {
    const Result<Binding> binding = parse_binding(texts.binding);
    if (!binding.ok()) return in_option("--bind", binding.status());
    job.binding = *binding;
  }
  if (!texts.timeout.empty()) {
    const Result<int64_t> timeout = parse_duration_ms(texts.timeout);
    if (!timeout.ok()) return in_option("--timeout", timeout.status());
    job.timeout_ms = *timeout;
  }
  const Result<int64_t> grace = parse_duration_ms(texts.grace);
  if (!grace.ok()) return in_option("--grace", grace.status());
  job.grace_ms = *grace;
  // CLI11 leaves the separator in what it did not parse.
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty()) return Status(Code::kInvalidArgument, "no program given: gimbal-run -n N [--] program arguments");
  job.command = std::move(command);
  job.prefix_output = prefix_output;
  return job;
}

int refuse(const std::string& sentence, int status) {
  std::fprintf(stderr, "gimbal-run: %s\n", sentence.c_str());
  return status;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Starts a program as N ranks of one job on this machine, with the variables that torchrun sets:\n"
      "  gimbal-run -n N [options] [--] program arguments",
      "gimbal-run");
  app.prefix_command();
  Texts texts;
  bool no_prefix = false;
  bool environment = false;
  app.add_option("-n,--ranks", texts.ranks, "How many ranks to start: 1 to 100000");
  app.add_option("--bind", texts.binding,
                 "Each rank's CPUs, of those allowed here: none, core or numa (GIMBAL_BIND, else none)");
  app.add_option("--timeout", texts.timeout, "Stop the job after this long, with exit status 124: 90, 90s, 5m, 1h (never)");
  app.add_option("--grace", texts.grace, "How long ranks that were told to stop may take before they are killed (10s)");
  app.add_flag("--no-prefix", no_prefix, "Leave the ranks' output as it is, without \"[rank] \" before each line");
  app.add_flag("--environment", environment, "Print the GIMBAL_* variables (docs/environment.md) and exit");
  app.set_version_flag("--version", std::string("gimbal-run ") + GIMBAL_TOOL_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {  // --help, --version
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    return refuse(error.what(), kUsageStatus);
  }
  if (environment) {
    std::fputs(environment_document().c_str(), stdout);
    return 0;
  }
  const Result<Job> job = make_job(texts, app.remaining(), !no_prefix);
  if (!job.ok()) return refuse(job.status().message() + " (see gimbal-run --help)", kUsageStatus);
  const Result<int> status = run_job(*job);
  if (!status.ok()) return refuse(status.status().message(), kCannotRunStatus);
  return *status;
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) { return gimbal::run(argc, argv); }
