#include "tools/gimbal_topo/explain.h"

#include <algorithm>
#include <limits>

#include "base/cpu.h"
#include "base/parse.h"
#include "runtime/machine_knowledge.h"
#include "tools/support/binding.h"
#include "topology/load.h"

namespace gimbal {
namespace {

constexpr int64_t kMostRanks = 100'000;
constexpr size_t kMostBytes = size_t{1} << 40;
constexpr size_t kMostSizes = 64;

Status in_option(const char* option, const Status& status) {
  return {Code::kInvalidArgument, std::string(option) + ": " + status.message()};
}

// CPUs that ranks on one machine may use: this process's, or all that the file's machine has.
double usable_cpus(const MachineKnowledge& knowledge) {
  if (!knowledge.given) {
    const CpuAllowance allowance = read_cpu_allowance();
    return std::min(static_cast<double>(CPU_COUNT(&allowance.affinity)), allowance.quota_cpus);
  }
  const auto is_usable = [](const TopologyNode& node) { return node.kind == NodeKind::kPu && node.allowed; };
  return static_cast<double>(std::count_if(knowledge.given->nodes.begin(), knowledge.given->nodes.end(), is_usable));
}

// As gimbal_comm_create sets it up, without a communicator: settings from the environment, the tune cache of the machine.
Result<Choice> make_choice(const Settings& settings, const MachineKnowledge& knowledge, const ExplainRequest& request,
                           double cpus) {
  Choice choice;
  RETURN_IF_ERROR(choice.configure(settings, request.ranks));
  const Rank per_node = (request.ranks + request.nodes - 1) / request.nodes;
  std::vector<int32_t> nodes;
  nodes.reserve(static_cast<size_t>(request.ranks));
  for (Rank rank = 0; rank < request.ranks; ++rank) nodes.push_back(rank / per_node);
  RETURN_IF_ERROR(choice.place(NodeShape(nodes), settings));
  if (!knowledge.tuning || request.nodes > 1) return choice;
  if (const TunedRun* run = find_run(*knowledge.tuning, request.ranks, cpus)) {
    choice.use_tables(TunedTables(*run, request.ranks, settings.deterministic));
  }
  return choice;
}

Result<Settings> settings_for(const ExplainCommand& command, const ExplainRequest& request) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = 0;
  config.size = request.ranks;
  config.rendezvous = "memory://gimbal-topo";  // nobody meets there
  ASSIGN_OR_RETURN(Settings settings, resolve_settings(&config));
  if (!command.load.empty()) settings.topology_file = command.load;
  return settings;
}

}  // namespace

Result<std::vector<size_t>> parse_sizes(const std::string& text) {
  const size_t dots = text.find("..");
  ASSIGN_OR_RETURN(const uint64_t first, parse_bytes(text.substr(0, dots)));
  uint64_t last = first;
  if (dots != std::string::npos) {
    ASSIGN_OR_RETURN(last, parse_bytes(text.substr(dots + 2)));
  }
  if (first < 1 || last < first || last > kMostBytes) {
    return Status(Code::kInvalidArgument, "\"" + text + "\" is no size from 1 to 1T, nor two such sizes in order as 8..1G");
  }
  std::vector<size_t> sizes;
  for (uint64_t bytes = first; bytes < last && sizes.size() < kMostSizes; bytes *= 2) sizes.push_back(bytes);
  sizes.push_back(last);
  return sizes;
}

Result<ExplainRequest> check_request(const ExplainCommand& command, size_t allowed_cpus) {
  ExplainRequest request;
  const std::optional<Collective> collective = parse_collective(command.collective);
  if (!collective || *collective == Collective::kSend || *collective == Collective::kRecv) {
    return Status(Code::kInvalidArgument, "--collective: \"" + command.collective + "\" is no collective");
  }
  request.collective = *collective;
  const std::optional<DType> dtype = parse_dtype(command.datatype);
  if (!dtype) return Status(Code::kInvalidArgument, "--datatype: \"" + command.datatype + "\" is no type");
  request.dtype = *dtype;
  const Result<int64_t> nodes = parse_integer(command.nodes, 1, kMostRanks);
  if (!nodes.ok()) return in_option("--nodes", nodes.status());
  request.nodes = static_cast<Rank>(*nodes);
  request.ranks = static_cast<Rank>(std::max<size_t>(2, allowed_cpus)) * request.nodes;
  if (!command.ranks.empty()) {
    const Result<int64_t> ranks = parse_integer(command.ranks, 2, kMostRanks);
    if (!ranks.ok()) return in_option("--ranks", ranks.status());
    request.ranks = static_cast<Rank>(*ranks);
  }
  if (request.ranks < request.nodes) {
    return Status(Code::kInvalidArgument, "--nodes: " + command.nodes + " nodes for " + std::to_string(request.ranks) +
                                              " ranks; allowed: at most one node per rank");
  }
  Result<std::vector<size_t>> sizes = parse_sizes(command.bytes);
  if (!sizes.ok()) return in_option("--bytes", sizes.status());
  request.sizes = std::move(sizes).value();
  return request;
}

Result<std::string> explain(const ExplainCommand& command) {
  ASSIGN_OR_RETURN(const ExplainRequest request, check_request(command, allowed_cpus().size()));
  ASSIGN_OR_RETURN(const Settings settings, settings_for(command, request));
  const Log log;
  ASSIGN_OR_RETURN(const std::shared_ptr<const MachineKnowledge> knowledge, read_machine_knowledge(settings, log));
  const double cpus = usable_cpus(*knowledge);
  ASSIGN_OR_RETURN(const Choice choice, make_choice(settings, *knowledge, request, cpus));
  ASSIGN_OR_RETURN(const Tuner tuner, make_tuner(*knowledge, request.ranks, request.nodes, cpus));
  std::vector<ExplainedSize> sizes;
  for (const size_t bytes : request.sizes) {
    Call call;
    call.collective = request.collective;
    call.dtype = request.dtype;
    call.root = 0;
    call.count = std::max<size_t>(1, bytes / dtype_size(request.dtype));
    sizes.push_back({call.bytes(), explain_call(choice, tuner, call)});
  }
  const std::string origin = settings.topology_file.empty() ? "this machine" : settings.topology_file;
  return command.json ? explain_json(request, origin, sizes) : explain_table(request, origin, sizes);
}

}  // namespace gimbal
