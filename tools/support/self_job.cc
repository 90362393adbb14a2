#include "tools/support/self_job.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/environment.h"
#include "base/parse.h"
#include "tools/support/launcher.h"

namespace gimbal {

bool is_started_as_rank() {
  constexpr std::array<std::string_view, 5> kRankVariables = {"GIMBAL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                              "PMI_RANK"};
  return std::any_of(kRankVariables.begin(), kRankVariables.end(),
                     [](std::string_view name) { return read_environment(name).has_value(); });
}

Result<int> run_self_as_ranks(const std::string& name, Rank ranks, int argc, char** argv) {
  std::error_code error;
  Job job;
  ASSIGN_OR_RETURN(job.binding, binding_from_environment());
  job.launcher = name;
  job.ranks = ranks;
  job.prefix_output = false;
  job.command.push_back(std::filesystem::read_symlink("/proc/self/exe", error));
  if (error) return system_error("find this program's own file", error.value());
  job.command.insert(job.command.end(), argv + 1, argv + argc);
  return run_job(job);
}

int run_benchmark_as_ranks(const std::string& name, int argc, char** argv, Status (*measure)()) {
  Status status;
  if (is_started_as_rank()) {
    status = measure();
  } else {
    const Result<int64_t> ranks = parse_integer(argc > 1 ? argv[1] : "2", 1, 1024);
    const Result<int> job = ranks.ok() ? run_self_as_ranks(name, static_cast<Rank>(*ranks), argc, argv) : ranks.status();
    if (job.ok()) return *job;
    status = job.status();
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", name.c_str(), status.message().c_str());
  return 1;
}

}  // namespace gimbal
