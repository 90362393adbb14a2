#include "tools/gimbal_bench/benchmark.h"

#include <unistd.h>

#include <cstdio>

#include "tools/gimbal_bench/json_report.h"
#include "tools/gimbal_bench/measure.h"
#include "tools/gimbal_bench/sizes.h"
#include "tools/gimbal_bench/table.h"

namespace gimbal::bench {
namespace {

// What is being measured now, on a terminal only: long rows look like a hang otherwise.
class Progress {
 public:
  explicit Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  void show(const Operation& operation, size_t bytes) const {
    if (!shown_) return;
    std::fprintf(stderr, "\r\033[K%s %s, %zu bytes ...", std::string(kind_name(operation.kind)).c_str(),
                 std::string(dtype_name(operation.dtype)).c_str(), bytes);
  }
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  bool shown_;
};

class Benchmark {
 public:
  Benchmark(const Options& options, const BenchRank& rank) : options_(options), rank_(rank), progress_(rank.rank() == 0) {}

  Status run(const std::vector<std::string>& arguments) {
    report_.arguments = arguments;
    report_.start_time = utc_now();
    RETURN_IF_ERROR(check_ranks());
    ASSIGN_OR_RETURN(report_.places, rank_.gather_places());
    ASSIGN_OR_RETURN(const std::string how, rank_.explain(options_.max_bytes));
    if (!options_.json_lines) print(format_head(options_, report_.places, how));
    for (size_t cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) RETURN_IF_ERROR(run_all_types());
    ASSIGN_OR_RETURN(report_.summary.host_bytes, rank_.most_host_bytes());
    if (!options_.json_lines) print(format_foot(options_, report_.summary));
    if (rank_.rank() == 0 && !options_.json_path.empty()) RETURN_IF_ERROR(write_report(options_, report_));
    // A rank that leaves with a bad status has the others stopped: not before rank 0 has said why.
    return rank_.barrier();
  }

  [[nodiscard]] size_t wrong() const { return report_.summary.wrong; }

 private:
  Status check_ranks() const {
    const std::string ranks = std::to_string(rank_.ranks());
    if (options_.ranks != 1 && options_.ranks != rank_.ranks()) {
      return {Code::kInvalidArgument,
              "-g: " + std::to_string(options_.ranks) + " ranks were asked for, but the launcher has started " + ranks};
    }
    if (options_.root.value_or(0) >= rank_.ranks()) {
      return {Code::kInvalidArgument, "-r: " + std::to_string(*options_.root) + " is not below the number of ranks, " + ranks};
    }
    return {};
  }

  Status run_all_types() {
    for (const DType dtype : options_.dtypes) {
      for (const ReduceOp op : options_.ops) {
        if (has_operation(options_.kind) && !is_supported(dtype, op)) continue;
        RETURN_IF_ERROR(run_all_roots(dtype, op));
        if (!has_operation(options_.kind)) break;
      }
    }
    return {};
  }

  Status run_all_roots(DType dtype, ReduceOp op) {
    if (options_.root || !has_root(options_.kind))
      return run_all_sizes({options_.kind, dtype, op, options_.root.value_or(0), 0});
    for (Rank root = 0; root < rank_.ranks(); ++root) RETURN_IF_ERROR(run_all_sizes({options_.kind, dtype, op, root, 0}));
    return {};
  }

  Status run_all_sizes(Operation operation) {
    std::optional<size_t> last_count;
    for (std::optional<size_t> bytes = options_.min_bytes; bytes; bytes = next_size(options_, *bytes)) {
      const bool none = options_.kind == Kind::kBarrier;
      operation.count = none ? 0 : count_for(options_.kind, operation.dtype, rank_.ranks(), *bytes);
      // Sizes that differ by less than an element are one row.
      if (last_count == operation.count) continue;
      last_count = operation.count;
      progress_.show(operation, *bytes);
      ASSIGN_OR_RETURN(const Row row, measure_row(options_, rank_, operation));
      progress_.clear();
      print(options_.json_lines ? json_line(options_, rank_.ranks(), row) : format_row(options_, row));
      report_.summary.add(row);
      report_.rows.push_back(row);
    }
    return {};
  }

  void print(const std::string& text) const {
    if (rank_.rank() != 0) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const Options& options_;
  const BenchRank& rank_;
  Progress progress_;
  Report report_;
};

int failed(Rank rank, const Status& status) {
  const std::string who = rank >= 0 ? "rank " + std::to_string(rank) + ": " : "";
  std::fprintf(stderr, "gimbal-bench: %s%s\n", who.c_str(), status.message().c_str());
  return kFailedStatus;
}

}  // namespace

int run_benchmark(const Options& options, const RankIdentity& identity, const std::vector<std::string>& arguments) {
  const Result<std::unique_ptr<BenchRank>> rank = BenchRank::create(options, identity);
  if (!rank.ok()) return failed(identity.rank, rank.status());
  Benchmark benchmark(options, **rank);
  if (const Status status = benchmark.run(arguments); !status.ok()) return failed((*rank)->rank(), status);
  return benchmark.wrong() == 0 ? 0 : kFailedStatus;
}

}  // namespace gimbal::bench
