#include "tools/gimbal_bench/table.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "gimbal/gimbal.h"

namespace gimbal::bench {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  std::array<char, 512> text;
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

// nccl-tests' widths: three digits after the point where they mean something, and always 7 places.
std::string format_time(double us) {
  if (us >= 10000) return format("%7.0f", us);
  return us >= 100 ? format("%7.1f", us) : format("%7.2f", us);
}

std::string format_half(const std::optional<Half>& half) {
  if (!half) return format("  %7s  %6s  %6s  %6s", "0.00", "0.00", "0.00", "N/A");
  const std::string wrong = half->wrong ? std::to_string(*half->wrong) : "N/A";
  return format("  %s  %6.2f  %6.2f  %6s", format_time(half->time_us).c_str(), half->algbw_gbps, half->busbw_gbps,
                wrong.c_str());
}

std::string format_percentiles(const std::optional<Half>& half) {
  const CallTimes calls = half ? half->calls : CallTimes{};
  return "  " + format_time(calls.p50_us) + "  " + format_time(calls.p99_us);
}

std::string format_spread(const std::optional<Half>& half) {
  const CallTimes calls = half ? half->calls : CallTimes{};
  return "  " + format_time(calls.min_us) + "  " + format_time(calls.max_us) + format("  %6.1f", calls.variation_percent());
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return text.data();
}

std::string format_columns(const Options& options) {
  std::string halves = format("#%57s  %-31s  %-31s", "", "         out-of-place", "           in-place");
  std::string names = format("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  std::string units = format("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half) {
    names += format("  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
    units += format("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
  }
  for (const char* half : {"out", "in"}) {
    names += format("  %7s  %7s", "p50", "p99");
    units += format("  %7s  %7s", half, half);
  }
  if (options.per_iteration) {
    for (const char* half : {"out", "in"}) {
      names += format("  %7s  %7s  %6s", "i_min", "i_max", "i_cv%");
      units += format("  %7s  %7s  %6s", half, half, half);
    }
  }
  if (options.timestamps) names += "  timestamp";
  return halves + "\n" + names + "\n" + units + "\n";
}

}  // namespace

void Summary::add(const Row& row) {
  ++rows;
  for (const std::optional<Half>& half : {row.out_of_place, row.in_place}) {
    if (!half) continue;
    ++halves;
    busbw_sum += half->busbw_gbps;
    wrong += half->wrong.value_or(0);
  }
}

std::string shown_op(const Operation& operation) {
  return has_operation(operation.kind) ? std::string(reduce_op_name(operation.op)) : "none";
}

Rank shown_root(const Operation& operation) { return has_root(operation.kind) ? operation.root : -1; }

std::string format_head(const Options& options, const std::vector<RankPlace>& places, const std::string& how) {
  const std::string step =
      options.factor == 0 ? format("%zu(bytes)", options.step_bytes) : format("%zu(factor)", options.factor);
  std::string text = format("# gimbal-bench %d.%d.%d, libgimbal %s\n", GIMBAL_VERSION_MAJOR, GIMBAL_VERSION_MINOR,
                            GIMBAL_VERSION_PATCH, gimbal_version_string());
  text += "# Collective test starting: " + std::string(kind_name(options.kind)) + "\n";
  text += format("# nRanks %zu minBytes %zu maxBytes %zu step: %s warmup iters: %zu iters: %zu agg iters: %zu validation: %zu",
                 places.size(), options.min_bytes, options.max_bytes, step.c_str(), options.warmup, options.iterations,
                 options.aggregate, options.check_rounds);
  text += std::string(" memory: ") + memory_name(options);
  text += " algorithm: " + (options.algorithm.empty() ? "auto" : options.algorithm);
  text += " transport: " + (options.transport.empty() ? "auto" : options.transport);
  text += format(" deterministic: %d", options.deterministic ? 1 : 0);
  if (options.on_device) text += format(" graph: %zu", options.graph_launches);
  text += options.on_device ? "\n#\n# Using devices\n" : "\n#\n# Using ranks\n";
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    text += format("#  Rank %2zu Group  0 Pid %6lld on %10s %s%s\n", rank, static_cast<long long>(place.pid), place.host,
                   options.on_device ? "" : "cpus ", options.on_device ? place.device : place.cpus);
  }
  text += format("#\n# An all-reduce of %zu bytes: ", options.max_bytes) + how + "\n";
  return text + "#\n" + format_columns(options);
}

std::string format_row(const Options& options, const Row& row) {
  const Operation& operation = row.operation;
  std::string text =
      format("%12zu  %12zu  %8s  %6s  %6d", row.bytes, operation.count, std::string(dtype_name(operation.dtype)).c_str(),
             shown_op(operation).c_str(), shown_root(operation));
  text += format_half(row.out_of_place) + format_half(row.in_place);
  text += format_percentiles(row.out_of_place) + format_percentiles(row.in_place);
  if (options.per_iteration) text += format_spread(row.out_of_place) + format_spread(row.in_place);
  if (options.timestamps) text += "  " + time_of_day();
  return text + "\n";
}

std::string format_foot(const Options& options, const Summary& summary) {
  std::string text = format("# Out of bounds values : %zu %s\n", summary.wrong, summary.wrong == 0 ? "OK" : "FAILED");
  text += format("# Avg bus bandwidth    : %g\n", summary.average_busbw());
  text += format("# Memory per rank      : %zu bytes\n", summary.host_bytes);
  return text + "#\n# Collective test concluded: " + std::string(kind_name(options.kind)) + "\n";
}

}  // namespace gimbal::bench
