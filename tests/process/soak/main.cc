// soak: kills random ranks at random moments, hundreds in a row, and holds the survivors to right sums and nothing left behind.
//
//   soak --minutes 45 --kills 10000 [--seed N] [--transport shm|tcp] [--hosts 2]
//
// Ends with the minutes or the kills, whatever comes first, but not before --kills when no minutes are given. Exit 0: all was
// right; 1: the last line says what was not, and the seed that does the same again as far as time allows; 77: this machine
// cannot emulate hosts.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>

#include "base/deadline.h"
#include "tests/process/soak/job.h"
#include "tests/support/leftovers.h"

namespace gimbal::test {
namespace {

struct Options {
  double minutes = 0;  // 0: no limit
  int kills = 300;
  uint64_t seed = 0;  // 0: a random one
  std::string transport = "auto";
  size_t hosts = 0;
  Plant plant = Plant::kNothing;
};

SoakPlan make_plan(const Options& options, uint64_t job, const Hosts* hosts, std::mt19937_64& random) {
  SoakPlan plan;
  plan.transport = options.transport;
  plan.seed = random();
  plan.plant = options.plant;
  plan.may_be_refused = options.plant == Plant::kNothing && random() % 16 == 0;
  // Ports are the emulated host's own.
  plan.rendezvous = hosts != nullptr ? "tcp://" + (*hosts)[0].address + ":" + std::to_string(20'000 + job % 10'000)
                                     : "unix://gimbal-soak-" + std::to_string(getpid()) + "-" + std::to_string(job);
  return plan;
}

int soak(const Options& options, const Hosts* hosts) {
  std::mt19937_64 random(options.seed);
  const Deadline end =
      options.minutes > 0 ? Deadline::after_ms(static_cast<int64_t>(options.minutes * 60'000)) : Deadline::never();
  int kills = 0;
  uint64_t jobs = 0;
  while (kills < options.kills && !end.passed()) {
    const auto ranks = static_cast<int32_t>(3 + random() % 4);
    SoakJob job(make_plan(options, jobs, hosts, random), ranks, hosts, random);
    kills += job.run();
    ++jobs;
  }
  std::printf("soak: %d ranks killed in %llu jobs (%s, %zu hosts)\n", kills, static_cast<unsigned long long>(jobs),
              options.transport.c_str(), options.hosts);
  return kills;
}

int run(const Options& options) {
  std::printf("soak: seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  std::unique_ptr<Hosts> hosts;
  const Resources before = current_resources();
  try {
    if (options.hosts > 0) {
      Result<std::unique_ptr<Hosts>> started = Hosts::start(options.hosts);
      if (!started.ok()) {
        std::printf("soak: skipped: %s\n", started.status().message().c_str());
        return 77;
      }
      hosts = std::move(started).value();
    }
    soak(options, hosts.get());
    hosts.reset();
    const std::string left = leftovers(before, current_resources());
    if (!left.empty()) throw std::runtime_error("left behind by the jobs: " + left);
    return 0;
  } catch (const std::exception& error) {
    std::printf("soak: FAILED with seed %llu: %s\n", static_cast<unsigned long long>(options.seed), error.what());
    return 1;
  }
}

}  // namespace
}  // namespace gimbal::test

int main(int argc, char** argv) {
  using gimbal::test::Plant;
  gimbal::test::Options options;
  CLI::App app("Kills random ranks at random moments; the survivors shrink and go on.");
  app.add_option("--minutes", options.minutes, "ends after so many minutes (default: only with the kills)");
  CLI::Option* const kills = app.add_option("--kills", options.kills, "ends after so many deaths (default 300)");
  app.add_option("--seed", options.seed, "of all that is random (default: a new one)");
  app.add_option("--transport", options.transport, "config.transport of all ranks");
  app.add_option("--hosts", options.hosts, "emulated hosts that the ranks are spread over (default: none)");
  const std::map<std::string, Plant> plants = {{"sum", Plant::kWrongSum}, {"leak", Plant::kLeak}};
  app.add_option("--plant", options.plant, "a fault that must be found")->transform(CLI::CheckedTransformer(plants));
  CLI11_PARSE(app, argc, argv);
  if (options.minutes > 0 && kills->count() == 0) options.kills = std::numeric_limits<int>::max();
  if (options.seed == 0) options.seed = std::random_device()();
  return gimbal::test::run(options);
}
