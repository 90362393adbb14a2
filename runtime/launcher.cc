#include "runtime/launcher.h"

#include <array>

#include "base/environment.h"
#include "base/parse.h"
#include "runtime/pmix.h"
#include "transport/wire.h"

namespace gimbal {
namespace {

struct VariablePair {
  std::string_view rank;
  std::string_view size;
};

constexpr std::array<VariablePair, 6> kPrecedence = {{{"GIMBAL_RANK", "GIMBAL_SIZE"},
                                                      {"RANK", "WORLD_SIZE"},
                                                      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                      {"PMI_RANK", "PMI_SIZE"},
                                                      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                                      {"SLURM_PROCID", "SLURM_NTASKS"}}};

constexpr size_t kFirstAfterPmi = 4;

Result<LaunchedAs> parse_pair(const VariablePair& names, const std::string& rank_text, const std::string& size_text) {
  Result<int64_t> size = parse_integer(size_text, 1, kMaxRanks);
  if (!size.ok()) return Status(Code::kInvalidArgument, std::string(names.size) + ": " + size.status().message());
  Result<int64_t> rank = parse_integer(rank_text, 0, *size - 1);
  if (!rank.ok()) {
    return Status(Code::kInvalidArgument, std::string(names.rank) + ": " + rank.status().message() + " (" +
                                              std::string(names.size) + " is " + size_text + ")");
  }
  return LaunchedAs{static_cast<Rank>(*rank), static_cast<Rank>(*size), std::string(names.rank), ""};
}

// What the pairs after the one that counts say otherwise. Slurm's second size is that of the job around the step.
std::string find_conflict(size_t counting, const std::string& rank, const std::string& size) {
  const VariablePair& first = kPrecedence[counting];
  for (size_t i = counting + 1; i < kPrecedence.size(); ++i) {
    const VariablePair& names = kPrecedence[i];
    const std::optional<std::string> other_rank = read_environment(names.rank);
    const std::optional<std::string> other_size = read_environment(names.size);
    if (names.rank == first.rank || !other_rank || !other_size || (*other_rank == rank && *other_size == size)) continue;
    return std::string(first.rank) + " and " + std::string(first.size) + " say rank " + rank + " of " + size + ", but " +
           std::string(names.rank) + " and " + std::string(names.size) + " say " + *other_rank + " of " + *other_size +
           ": the first count";
  }
  return "";
}

// PMIx has no variable for the size.
Result<LaunchedAs> ask_pmix(const std::string& rank) {
  Result<std::shared_ptr<PmixSession>> session = PmixSession::of_this_process();
  if (!session.ok()) {
    return Status(session.status().code(), "PMIX_RANK is set, but not how many ranks there are, and " +
                                               session.status().message() + ": set GIMBAL_RANK and GIMBAL_SIZE");
  }
  ASSIGN_OR_RETURN(const Rank size, (*session)->job_size());
  return parse_pair({"PMIX_RANK", "the size that PMIx tells"}, rank, std::to_string(size));
}

bool has_slurm_pair() {
  return read_environment("SLURM_PROCID") && (read_environment("SLURM_STEP_NUM_TASKS") || read_environment("SLURM_NTASKS"));
}

}  // namespace

Result<LaunchedAs> read_launcher() {
  for (size_t i = 0; i < kPrecedence.size(); ++i) {
    const VariablePair& names = kPrecedence[i];
    const std::optional<std::string> rank = read_environment(names.rank);
    const std::optional<std::string> size = read_environment(names.size);
    if (i == kFirstAfterPmi) {
      if (const auto pmix_rank = read_environment("PMIX_RANK")) {
        Result<LaunchedAs> launched = ask_pmix(*pmix_rank);
        if (launched.ok() || !has_slurm_pair()) return launched;  // Slurm's own variables tell as much
      }
    }
    // Slurm's two pairs share a rank, and a shell inside an allocation has a size without a rank.
    if (names.rank == "SLURM_PROCID" && !(rank && size)) continue;
    if (rank && size) {
      ASSIGN_OR_RETURN(LaunchedAs launched, parse_pair(names, *rank, *size));
      launched.conflict = find_conflict(i, *rank, *size);
      return launched;
    }
    if (rank || size) {
      const std::string set(rank ? names.rank : names.size);
      const std::string missing(rank ? names.size : names.rank);
      return Status(Code::kInvalidArgument, set + " is set, but " + missing + " is not: a rank needs both");
    }
  }
  return LaunchedAs{};
}

}  // namespace gimbal
