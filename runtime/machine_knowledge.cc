#include "runtime/machine_knowledge.h"

#include "base/hash.h"
#include "runtime/version.h"
#include "topology/cost_inputs.h"
#include "topology/discover.h"
#include "topology/fingerprint.h"
#include "topology/load.h"

namespace gimbal {
namespace {

// INVALID_ARGUMENT says why the file's text is of no use here.
Result<Tuning> usable_tuning(const std::string& path, const std::string& text, uint64_t fingerprint) {
  Result<Tuning> tuning = parse_tuning(text);
  if (!tuning.ok()) return Status(Code::kInvalidArgument, path + ": " + tuning.status().message());
  const std::string version = version_text(library_version());
  if (tuning->version != version) {
    return Status(Code::kInvalidArgument,
                  path + ": was measured by Gimbal " + printable(tuning->version) + ", this is " + version);
  }
  if (tuning->fingerprint != fingerprint) return Status(Code::kInvalidArgument, path + ": was measured on another machine");
  return tuning;
}

void read_tuning(const Settings& settings, const Log& log, MachineKnowledge& knowledge) {
  if (!may_have_tuning(settings.tune_cache)) return;
  const uint64_t fingerprint = knowledge.given ? graph_fingerprint(*knowledge.given) : machine_fingerprint("");
  const std::string path = tuning_path(settings.tune_cache, fingerprint);
  const Result<std::string> text = read_tuning_file(path);
  if (text.ok() && text->empty()) return;
  Result<Tuning> tuning = text.ok() ? usable_tuning(path, *text, fingerprint) : Result<Tuning>(text.status());
  if (!tuning.ok()) {
    if (settings.rank == 0) log.warning("the tune cache is not used: " + tuning.status().message());
    return;
  }
  knowledge.tuning = std::move(tuning).value();
  knowledge.tuning_digest = hash_text(*text);
}

}  // namespace

Result<std::shared_ptr<const MachineKnowledge>> read_machine_knowledge(const Settings& settings, const Log& log) {
  auto knowledge = std::make_shared<MachineKnowledge>();
  if (!settings.topology_file.empty()) {
    Result<TopologyGraph> graph = load_topology_file(settings.topology_file);
    if (!graph.ok()) return Status(Code::kInvalidArgument, "GIMBAL_TOPO_FILE: " + graph.status().message());
    knowledge->given = std::move(graph).value();
  }
  if (settings.size > 1) read_tuning(settings, log, *knowledge);
  return std::shared_ptr<const MachineKnowledge>(std::move(knowledge));
}

Result<Tuner> make_tuner(const MachineKnowledge& knowledge, Rank ranks, Rank nodes, double cpus) {
  const TunedRun* run = knowledge.tuning && nodes == 1 ? find_run(*knowledge.tuning, ranks, cpus) : nullptr;
  if (run != nullptr) {
    CostInputs inputs = run->inputs;
    inputs.ranks_per_node = ranks;
    inputs.cpus = cpus;
    // More ranks than were measured lie where those do, from the first again.
    for (size_t i = 0; inputs.place_of.size() < static_cast<size_t>(ranks); ++i) inputs.place_of.push_back(inputs.place_of[i]);
    return Tuner(CostModel(std::move(inputs), ranks), run->corrections);
  }
  TopologyGraph discovered;
  if (!knowledge.given) {
    ASSIGN_OR_RETURN(discovered, discover_topology());
  }
  ASSIGN_OR_RETURN(CostInputs inputs,
                   cost_inputs(knowledge.given ? *knowledge.given : discovered, {.ranks = ranks, .nodes = nodes}));
  if (!knowledge.given) inputs.cpus = cpus;
  return Tuner(CostModel(std::move(inputs), ranks));
}

}  // namespace gimbal
