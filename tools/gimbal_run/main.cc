// gimbal-run: starts a program as the ranks of a job that this host has (docs/run.md).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/environment.h"
#include "base/parse.h"
#include "tools/support/launcher.h"
#include "tools/support/rank_process.h"

namespace gimbal {
namespace {

constexpr int kUsageStatus = 2;
constexpr int64_t kMostRanks = 100'000;  // GIMBAL_SIZE's own limit

struct Texts {
  std::string ranks;
  std::string hosts;
  std::string host;
  std::string rendezvous;
  std::string binding;
  std::string timeout;
  std::string grace = "10s";
};

Status in_option(std::string_view option, const Status& status) {
  return {status.code(), std::string(option) + ": " + status.message()};
}

// "4", for every host; or "4,2", one number for each.
Result<std::vector<Rank>> parse_ranks(const std::string& text, size_t hosts) {
  std::vector<Rank> ranks;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const Result<int64_t> number = parse_integer(text.substr(begin, end - begin), 1, kMostRanks);
    if (!number.ok()) return in_option("-n", number.status());
    ranks.push_back(static_cast<Rank>(*number));
    begin = end + 1;
  }
  if (ranks.size() == 1) ranks.resize(hosts, ranks.front());
  if (ranks.size() == hosts) return ranks;
  return Status(Code::kInvalidArgument, "-n: \"" + text + "\" gives the ranks of " + std::to_string(ranks.size()) +
                                            " hosts, but there are " + std::to_string(hosts) + " (--nnodes)");
}

// Which part of the job this is: all of it without --nnodes.
Status place_job(const Texts& texts, Job& job) {
  if (texts.ranks.empty()) return {Code::kInvalidArgument, "-n is missing: the number of ranks, 1 to 100000"};
  const bool several = !texts.hosts.empty() && texts.hosts != "1";
  if (!several) {
    if (!texts.rendezvous.empty() || (!texts.host.empty() && texts.host != "0")) {
      return {Code::kInvalidArgument, "--node-rank and --rendezvous belong to a job over several hosts: --nnodes is missing"};
    }
    ASSIGN_OR_RETURN(const std::vector<Rank> ranks, parse_ranks(texts.ranks, 1));
    job.ranks = ranks.front();
    return {};
  }
  const Result<int64_t> hosts = parse_integer(texts.hosts, 1, kMostRanks);
  if (!hosts.ok()) return in_option("--nnodes", hosts.status());
  if (texts.host.empty()) return {Code::kInvalidArgument, "--node-rank is missing: which of the hosts this one is, from 0"};
  const Result<int64_t> host = parse_integer(texts.host, 0, *hosts - 1);
  if (!host.ok()) return in_option("--node-rank", host.status());
  if (texts.rendezvous.empty()) {
    return {Code::kInvalidArgument, "--rendezvous is missing: host:port of the first host, the same on all hosts"};
  }
  const Result<JobIdentity> identity = share_job(texts.rendezvous);
  if (!identity.ok()) return in_option("--rendezvous", identity.status());
  ASSIGN_OR_RETURN(job.ranks_per_host, parse_ranks(texts.ranks, static_cast<size_t>(*hosts)));
  job.host = static_cast<size_t>(*host);
  job.rendezvous = texts.rendezvous;
  job.ranks = job.ranks_per_host[job.host];
  return {};
}

Result<Job> make_job(const Texts& texts, std::vector<std::string> command, bool prefix_output) {
  Job job;
  job.launcher = "gimbal-run";
  // What is no option of ours begins the command; an option there is a misspelt one of ours.
  if (!command.empty() && command.front() != "--" && command.front().starts_with('-')) {
    return Status(Code::kInvalidArgument, "unknown option \"" + command.front() + "\"");
  }
  RETURN_IF_ERROR(place_job(texts, job));
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
      "Starts a program as N ranks of one job on this machine, or this host's part of a job over several, with the variables "
      "that torchrun sets:\n"
      "  gimbal-run -n N [options] [--] program arguments",
      "gimbal-run");
  app.prefix_command();
  Texts texts;
  bool no_prefix = false;
  bool environment = false;
  app.add_option("-n,--ranks", texts.ranks,
                 "How many ranks to start, 1 to 100000; on each host, or 4,2 for 4 on the first and 2");
  app.add_option("--nnodes", texts.hosts, "How many hosts the job has; this command is given on each of them (1)");
  app.add_option("--node-rank", texts.host, "Which of them this host is, from 0");
  app.add_option("--rendezvous", texts.rendezvous, "host:port of the first host where the ranks meet, the same on all hosts");
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
