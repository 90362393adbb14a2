#include "base/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "base/parse.h"

extern char** environ;

namespace gimbal {
namespace {

constexpr EnvironmentVariable kTable[] = {
    {"GIMBAL_ALGORITHM", "name, or collective:name;collective:name", "chosen by the tuner",
     "Forces an algorithm, for all collectives or per collective: `ring`, `all_reduce:ring;all_gather:direct`. An impossible "
     "choice is an error that says why."},
    {"GIMBAL_BIND", "none, core, numa", "none",
     "How gimbal-run, and every program that starts itself as ranks (`gimbal-bench -g`), binds the ranks to CPUs; "
     "`gimbal-run --bind` goes before it. The library binds nothing."},
    {"GIMBAL_CHUNK_BYTES", "4K to 64M", "measured at start", "Bytes of a staged chunk of the node-direct algorithms."},
    {"GIMBAL_CONNECT_TIMEOUT", "duration", "120s", "Deadline of gimbal_comm_create."},
    {"GIMBAL_CUDA_PATH", "auto, staged, native", "auto",
     "How collectives on device memory are carried out inside a node: by kernels that reach the peers' memory where that is "
     "possible (`auto`; `native` makes it an error where it is not), or by way of the host (`staged`). docs/cuda.md."},
    {"GIMBAL_DETERMINISTIC", "0 or 1", "0",
     "Sums follow one fixed binary tree over ranks, whatever the size, algorithm and placement (docs/numerics.md)."},
    {"GIMBAL_EMULATE_NODES", "ranks per node, in turn: 2 or 3,1", "none",
     "For tests on one host: ranks of different emulated nodes share no memory, as if they stood on different hosts."},
    {"GIMBAL_FLIGHT_RECORDER", "path", "none",
     "Where a failing rank writes its recent operations as JSON; `%r` becomes the rank, `%p` the process id, `%h` the host, "
     "`%n` the "
     "communicator's name. `gimbal-trace` reads them."},
    {"GIMBAL_IBV_SO", "path", "libibverbs.so.1", "Which libibverbs the verbs transport opens."},
    {"GIMBAL_IB_GID_INDEX", "0 to 255", "chosen for each pair of ports",
     "Which GID of a port is used; else one of RoCE v2 and of a family that the peer has too, IPv4 first."},
    {"GIMBAL_IB_HCA", "prefix,prefix or =name:port,name or ^prefix", "all",
     "RDMA devices and ports that may be used, in the syntax of NCCL_IB_HCA (docs/transport.md)."},
    {"GIMBAL_IB_MTU", "256, 512, 1024, 2048, 4096", "the lower of the two ports'", "Bytes of a packet between two ports."},
    {"GIMBAL_IB_QUEUE_PAIRS", "1 to 16", "2", "Connections to each peer over each pair of ports; equal on all ranks."},
    {"GIMBAL_IB_RAILS", "1 to 8", "the rank's share of its host's", "How many ports a rank uses, the nearest first."},
    {"GIMBAL_IB_RETRY_COUNT", "0 to 7", "6",
     "How often a packet without an answer is sent again before its connection is given up; 7 is \"for ever\" on soft-RoCE."},
    {"GIMBAL_IB_SERVICE_LEVEL", "0 to 15", "0", "The service level of packets; a priority on networks that have them."},
    {"GIMBAL_IB_TIMEOUT", "1 to 31", "18", "4.096 us times two to this power is how long a packet's answer is waited for."},
    {"GIMBAL_IB_TRAFFIC_CLASS", "0 to 255", "0", "The traffic class of packets: DSCP and ECN bits of RoCE."},
    {"GIMBAL_JOB_KEY", "text", "none",
     "The job's secret: ranks with different keys do not join each other. `gimbal-run` makes one."},
    {"GIMBAL_LIBRARY", "path", "the wheel's, else the loader's search", "Which libgimbal.so the Python package loads."},
    {"GIMBAL_LINK_TIMEOUT", "duration", "15s",
     "A peer's host that answers nothing for this long, not even the kernel's probes, is taken for gone."},
    {"GIMBAL_LOG", "error, warn, info, debug", "warn", "What is written to standard error."},
    {"GIMBAL_METRICS_FILE", "path", "none",
     "Where each rank keeps its numbers in Prometheus' text format (docs/failures.md); `%r`, `%p`, `%h` and `%n` as in "
     "GIMBAL_FLIGHT_RECORDER. Communicators made by a split write only when there is a `%n`."},
    {"GIMBAL_METRICS_PERIOD", "duration", "10s",
     "How often the metrics file is written, at most; also at destroy and at a failure."},
    {"GIMBAL_PRECISION", "accumulator or element", "accumulator",
     "`element` lets partial sums of schedules travel in the element type: fewer bytes, more rounding (docs/numerics.md)."},
    {"GIMBAL_RANK", "0 to size-1", "from the launcher", "This process's rank; before RANK and every launcher's variable."},
    {"GIMBAL_RENDEZVOUS", "tcp://host:port, unix://name, file:///path, memory://name, pmi:, pmix:", "from the launcher",
     "Where the ranks of a job meet (docs/run.md)."},
    {"GIMBAL_SHRINK_WAIT", "duration", "10s",
     "How long gimbal_comm_shrink waits for a rank that lives but does not answer, before it goes on without it."},
    {"GIMBAL_SIZE", "1 to 100000", "from the launcher", "Number of ranks; before WORLD_SIZE and every launcher's variable."},
    {"GIMBAL_SLOT_BYTES", "1K to 16M", "32K; 62K between nodes", "Bytes of one slot of an endpoint."},
    {"GIMBAL_SOCKET_IFNAME", "prefix,prefix or =name,name or ^prefix,prefix", "all",
     "Network interfaces that may be used between hosts, in the syntax of NCCL_SOCKET_IFNAME; which of them is, is found out "
     "by "
     "reaching the peers (docs/transport.md)."},
    {"GIMBAL_SPIN", "duration", "10us, 0 with more ranks than CPUs",
     "How long a wait spins before it yields (docs/decisions/0003)."},
    {"GIMBAL_STRAGGLER_FACTOR", "0 to 1000000", "3",
     "A rank that most waits are for, so many times longer ones than for the others, is named in one line of the log; 0: none "
     "is."},
    {"GIMBAL_STRICT", "0 or 1", "0",
     "Makes every fallback to a slower way an error that says why, instead of a line in the log."},
    {"GIMBAL_TCP_IO", "auto, uring, epoll", "auto",
     "How sockets are driven: io_uring where the kernel gives one, else epoll; `uring` is an error where it does not."},
    {"GIMBAL_TCP_STREAMS", "1 to 64", "from the interface's rate",
     "TCP connections to each peer on another host; equal on all ranks (docs/transport.md)."},
    {"GIMBAL_TIMEOUT", "duration", "600s", "Deadline of one operation."},
    {"GIMBAL_TOPO_FILE", "path", "none",
     "A machine's topology from a file instead of this machine's, for the costs that `gimbal_explain` and the tune cache go "
     "by; "
     "nothing is bound by it (docs/topology.md)."},
    {"GIMBAL_TRANSPORT", "auto, shm, tcp, verbs", "auto", "Forces a transport; an impossible one is an error that says why."},
    {"GIMBAL_TUNE_CACHE", "path, or off", "gimbal/tune-<machine>.json in $XDG_CACHE_HOME or ~/.cache",
     "What `gimbal-topo tune` has measured of this machine; used when it is there (docs/tuning.md)."},
    {"GIMBAL_WARN_AFTER", "duration", "30s", "After this long in one wait, one line names whom the rank waits for."},
};

Status in_variable(std::string_view name, const Status& status) {
  return {status.code(), std::string(name) + ": " + status.message()};
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const EnvironmentVariable> environment_table() { return kTable; }

std::optional<std::string> read_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Result<uint64_t> environment_bytes(std::string_view name, uint64_t default_value, uint64_t minimum, uint64_t maximum) {
  const std::optional<std::string> text = read_environment(name);
  if (!text) return default_value;
  Result<uint64_t> bytes = parse_bytes(*text);
  if (!bytes.ok()) return in_variable(name, bytes.status());
  if (*bytes < minimum || *bytes > maximum) {
    return Status(Code::kInvalidArgument, std::string(name) + ": " + *text + " is outside " + std::to_string(minimum) + " to " +
                                              std::to_string(maximum) + " bytes");
  }
  return bytes;
}

Result<int64_t> environment_duration_ms(std::string_view name, int64_t default_value) {
  const std::optional<std::string> text = read_environment(name);
  if (!text) return default_value;
  Result<int64_t> duration = parse_duration_ms(*text);
  if (!duration.ok()) return in_variable(name, duration.status());
  return duration;
}

Result<int64_t> environment_integer(std::string_view name, int64_t default_value, int64_t minimum, int64_t maximum) {
  const std::optional<std::string> text = read_environment(name);
  if (!text) return default_value;
  Result<int64_t> value = parse_integer(*text, minimum, maximum);
  if (!value.ok()) return in_variable(name, value.status());
  return value;
}

Result<bool> environment_bool(std::string_view name, bool default_value) {
  const std::optional<std::string> text = read_environment(name);
  if (!text) return default_value;
  Result<bool> value = parse_bool(*text);
  if (!value.ok()) return in_variable(name, value.status());
  return value;
}

std::vector<std::string> unknown_environment_variables() {
  std::vector<std::string> sentences;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("GIMBAL_")) continue;
    const auto distance_to = [name](const EnvironmentVariable& variable) { return edit_distance(name, variable.name); };
    const auto nearest = std::min_element(std::begin(kTable), std::end(kTable),
                                          [&](const auto& a, const auto& b) { return distance_to(a) < distance_to(b); });
    const size_t distance = distance_to(*nearest);
    if (distance == 0) continue;
    std::string sentence = "environment variable " + std::string(name) + " is not known and has no effect";
    if (distance <= 4) sentence += "; did you mean " + std::string(nearest->name) + "?";
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

std::string environment_document() {
  std::string text =
      "# Environment variables\n\n"
      "Printed by `gimbal-run --environment`; the table is in base/environment.cc. Sizes take K, M, G (binary); durations "
      "take\n"
      "us, ms, s, m, h (seconds without). A value that is not accepted is an error that names the variable; a GIMBAL_* name "
      "that "
      "is\n"
      "not in this table is warned about.\n\n"
      "| variable | values | default | meaning |\n|---|---|---|---|\n";
  for (const EnvironmentVariable& variable : kTable) {
    text.append("| `").append(variable.name).append("` | ").append(variable.values).append(" | ");
    text.append(variable.default_value).append(" | ").append(variable.meaning).append(" |\n");
  }
  return text;
}

}  // namespace gimbal
