#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "base/parse.h"
#include "gimbal/gimbal.h"
#include "tools/gimbal_bench/options.h"

namespace gimbal::bench {
namespace {

constexpr int64_t kMostRanks = 100'000;
constexpr int64_t kMostIterations = 1'000'000'000;

// Every value as it was typed, so that one parser (base/parse.h) and one form of sentence serve them all. Empty: not given.
struct Texts {
  std::string min_bytes, max_bytes, step_bytes, factor, iterations, warmup, aggregate, cycles, check, op, dtype, root, average;
  std::string blocking, graph_launches, threads_each, ranks, timeout, kind, memory;
};

Status refuse(std::string_view option, std::string_view text, const std::string& allowed) {
  return {Code::kInvalidArgument, std::string(option) + ": \"" + std::string(text) + "\" is not " + allowed};
}

Status in_option(std::string_view option, const Status& status) {
  return {status.code(), std::string(option) + ": " + status.message()};
}

Status read_bytes(std::string_view option, const std::string& text, size_t& value) {
  if (text.empty()) return {};
  const Result<uint64_t> bytes = parse_bytes(text);
  if (!bytes.ok()) return in_option(option, bytes.status());
  value = *bytes;
  return {};
}

template <typename Integer>
Status read_integer(std::string_view option, const std::string& text, int64_t minimum, int64_t maximum, Integer& value) {
  if (text.empty()) return {};
  const Result<int64_t> number = parse_integer(text, minimum, maximum);
  if (!number.ok()) return in_option(option, number.status());
  value = static_cast<Integer>(*number);
  return {};
}

Status read_sizes(const Texts& texts, Options& options) {
  RETURN_IF_ERROR(read_bytes("-b", texts.min_bytes, options.min_bytes));
  RETURN_IF_ERROR(read_bytes("-e", texts.max_bytes, options.max_bytes));
  RETURN_IF_ERROR(read_bytes("-i", texts.step_bytes, options.step_bytes));
  RETURN_IF_ERROR(read_integer("-f", texts.factor, 2, 1 << 20, options.factor));
  if (options.step_bytes == 0) return refuse("-i", texts.step_bytes, "a step: 1 byte or more");
  // One of the two alone means this one size, as -b above the default -e would otherwise be refused.
  if (texts.max_bytes.empty()) options.max_bytes = std::max(options.min_bytes, options.max_bytes);
  if (texts.min_bytes.empty()) options.min_bytes = std::min(options.min_bytes, options.max_bytes);
  if (options.max_bytes < options.min_bytes) {
    return refuse("-e", texts.max_bytes, "at least -b (" + std::to_string(options.min_bytes) + " bytes)");
  }
  return {};
}

Status read_counts(const Texts& texts, Options& options) {
  RETURN_IF_ERROR(read_integer("-n", texts.iterations, 1, kMostIterations, options.iterations));
  RETURN_IF_ERROR(read_integer("-w", texts.warmup, 0, kMostIterations, options.warmup));
  RETURN_IF_ERROR(read_integer("-m", texts.aggregate, 1, kMostIterations, options.aggregate));
  RETURN_IF_ERROR(read_integer("-N", texts.cycles, 0, kMostIterations, options.cycles));
  RETURN_IF_ERROR(read_integer("-c", texts.check, 0, kMostIterations, options.check_rounds));
  RETURN_IF_ERROR(read_integer("-a", texts.average, 0, 3, options.average));
  RETURN_IF_ERROR(read_integer("-G", texts.graph_launches, 0, kMostIterations, options.graph_launches));
  // Calls on host memory always block; the option is nccl-tests' for streams and is only checked.
  int64_t blocking = 0;
  RETURN_IF_ERROR(read_integer("-z", texts.blocking, 0, 3, blocking));
  Rank threads_each = 1;
  RETURN_IF_ERROR(read_integer("-g", texts.ranks, 1, kMostRanks, options.ranks));
  RETURN_IF_ERROR(read_integer("-t", texts.threads_each, 1, kMostRanks / options.ranks, threads_each));
  options.ranks *= threads_each;
  if (!texts.timeout.empty()) {
    const Result<int64_t> timeout = parse_duration_ms(texts.timeout);
    if (!timeout.ok()) return in_option("-T", timeout.status());
    options.timeout_ms = *timeout;
  }
  return {};
}

std::string names_of_dtypes() {
  std::string names;
  for (int i = 0; i < kPublicDTypeCount; ++i) names.append(dtype_name(static_cast<DType>(i))).append(", ");
  return names + "all";
}

std::string names_of_ops() {
  std::string names;
  for (int i = 0; i < kReduceOpCount; ++i) names.append(reduce_op_name(static_cast<ReduceOp>(i))).append(", ");
  return names + "all";
}

Status read_dtypes(const std::string& text, Options& options) {
  if (text.empty()) return {};
  options.dtypes.clear();
  if (text == "all") {
    for (int i = 0; i < kPublicDTypeCount; ++i) options.dtypes.push_back(static_cast<DType>(i));
    return {};
  }
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype) return refuse("-d", text, "a type: " + names_of_dtypes());
  options.dtypes.push_back(*dtype);
  return {};
}

Status read_ops(const std::string& text, Options& options) {
  if (text.empty()) return {};
  options.ops.clear();
  if (text == "all") {
    for (int i = 0; i < kReduceOpCount; ++i) options.ops.push_back(static_cast<ReduceOp>(i));
    return {};
  }
  const std::optional<ReduceOp> op = parse_reduce_op(text);
  if (!op) return refuse("-o", text, "an operation: " + names_of_ops());
  if (options.dtypes.size() == 1 && !is_supported(options.dtypes[0], *op)) {
    return refuse("-o", text, "an operation of floating types; -d chose " + std::string(dtype_name(options.dtypes[0])));
  }
  options.ops.push_back(*op);
  return {};
}

Status read_names(const Texts& texts, Options& options) {
  RETURN_IF_ERROR(read_dtypes(texts.dtype, options));
  RETURN_IF_ERROR(read_ops(texts.op, options));
  if (texts.root == "all") {
    options.root = std::nullopt;
  } else {
    RETURN_IF_ERROR(read_integer("-r", texts.root, 0, kMostRanks - 1, *options.root));
  }
  if (!texts.kind.empty()) {
    const std::optional<Kind> kind = parse_kind(texts.kind);
    if (!kind) return refuse("--collective", texts.kind, "a collective: " + kind_names());
    options.kind = *kind;
  }
  if (!texts.memory.empty() && texts.memory != "host" && texts.memory != "registered" && texts.memory != "cuda") {
    return refuse("--memory", texts.memory, "host, registered or cuda");
  }
  options.registered = texts.memory == "registered";
  options.on_device = texts.memory == "cuda";
  if (options.graph_launches > 0 && !options.on_device) {
    return refuse("-G", texts.graph_launches, "0, or any number with --memory cuda");
  }
  return {};
}

void declare_sizes(CLI::App& app, Texts& texts) {
  app.add_option("-b,--minbytes", texts.min_bytes, "Smallest size; K, M, G, T are binary (32M)");
  app.add_option("-e,--maxbytes", texts.max_bytes, "Largest size (32M)");
  app.add_option("-i,--stepbytes", texts.step_bytes, "From size to size: add this (1M)");
  app.add_option("-f,--stepfactor", texts.factor, "From size to size: multiply by this, 2 or more (off)");
}

void declare_counts(CLI::App& app, Texts& texts) {
  app.add_option("-n,--iters", texts.iterations, "Timed calls per size (20)");
  app.add_option("-w,--warmup_iters", texts.warmup, "Calls before them (1)");
  app.add_option("-m,--agg_iters", texts.aggregate, "Calls in one group per iteration (1)");
  app.add_option("-N,--run_cycles", texts.cycles, "How often the whole table is run; 0: for ever (1)");
  app.add_option("-c,--check", texts.check, "Rounds of checking the results, with fresh inputs each; 0: none (1)");
  app.add_option("-a,--average", texts.average, "Time reported: 0 rank 0's, 1 mean, 2 min, 3 max over ranks (1)");
  app.add_option("-z,--blocking", texts.blocking, "0 to 3; calls on host memory always block (0)");
  app.add_option("-G,--cudagraph", texts.graph_launches, "Capture the calls of -n into a graph and launch it so often (0)");
  app.add_option("-T,--timeout", texts.timeout, "Deadline of one call: 30, 30s, 5m (the library's)");
  app.add_option("-g,--ngpus", texts.ranks, "Ranks to start on this machine (1; a launcher's ranks are joined)");
  app.add_option("-t,--nthreads", texts.threads_each, "Multiplies -g (1)");
}

void declare_choices(CLI::App& app, Texts& texts, Options& options) {
  app.add_option("-o,--op", texts.op, "Operation, or all (sum): " + names_of_ops());
  app.add_option("-d,--datatype", texts.dtype, "Type, or all (float): " + names_of_dtypes());
  app.add_option("-r,--root", texts.root, "Root, or all (0)");
  app.add_option("--collective", texts.kind, "What to run (all_reduce): " + kind_names());
  app.add_option("--algorithm", options.algorithm, "Force this algorithm (the library's choice)");
  app.add_option("--transport", options.transport, "Force this transport (the library's choice)");
  app.add_option("--memory", texts.memory, "Buffers: host, registered with the library, or cuda (host)");
  app.add_flag("--deterministic", options.deterministic, "Sums in one fixed order (docs/numerics.md)");
  app.add_flag("--threads", options.threads, "The ranks of -g are threads of this process");
  app.add_flag("-I,--per_iter_timing", options.per_iteration, "Add i_min i_max i_cv% of each half to the row");
  app.add_flag("-S,--report_timestamps", options.timestamps, "Add the time of day to the row");
  app.add_option("-J,--output_file", options.json_path, "Write the results as JSON to this file too");
  app.add_flag("--jsonl", options.json_lines, "Print one JSON object per row instead of the table");
}

}  // namespace

const char* memory_name(const Options& options) {
  if (options.on_device) return "cuda";
  return options.registered ? "registered" : "host";
}

Result<Options> parse_options(int argc, char** argv) {
  CLI::App app("Bandwidth and correctness of Gimbal's collectives, with nccl-tests' options and columns (docs/bench.md).",
               "gimbal-bench");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as nccl-tests does
  Texts texts;
  Options options;
  declare_sizes(app, texts);
  declare_counts(app, texts);
  declare_choices(app, texts, options);
  app.set_version_flag("--version", std::string("gimbal-bench, libgimbal ") + gimbal_version_string());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {
    std::exit(app.exit(asked_for));
  } catch (const CLI::ParseError& error) {
    return Status(Code::kInvalidArgument, error.what());
  }
  RETURN_IF_ERROR(read_sizes(texts, options));
  RETURN_IF_ERROR(read_counts(texts, options));
  RETURN_IF_ERROR(read_names(texts, options));
  return options;
}

}  // namespace gimbal::bench
