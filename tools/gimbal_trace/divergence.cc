#include "tools/gimbal_trace/divergence.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace gimbal {
namespace {

using BySequence = std::map<uint64_t, const DumpedOperation*>;

std::string rank_list(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

std::vector<Rank> missing_ranks(const std::vector<Dump>& dumps) {
  std::set<Rank> present;
  for (const Dump& dump : dumps) present.insert(dump.rank);
  std::vector<Rank> missing;
  constexpr size_t kMostNamed = 64;
  for (Rank rank = 0; !dumps.empty() && rank < dumps[0].size && missing.size() < kMostNamed; ++rank) {
    if (!present.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

BySequence collectives_of(const Dump& dump) {
  BySequence found;
  for (const DumpedOperation& operation : dump.operations) {
    if (operation.sequence != 0) found[operation.sequence] = &operation;
  }
  return found;
}

// Which parts differ, with the values of the first two that do.
std::string differences(const DumpedOperation& a, const DumpedOperation& b) {
  std::string text;
  const auto compare = [&text](const char* part, const std::string& one, const std::string& other) {
    if (one != other) text += (text.empty() ? "" : ", ") + std::string(part) + " " + one + " and " + other;
  };
  compare("collective", a.collective, b.collective);
  compare("count", std::to_string(a.count), std::to_string(b.count));
  compare("type", a.dtype, b.dtype);
  compare("operation", a.op.empty() ? "none" : a.op, b.op.empty() ? "none" : b.op);
  compare("root", std::to_string(a.root), std::to_string(b.root));
  return text;
}

bool is_same_call(const DumpedOperation& a, const DumpedOperation& b) { return differences(a, b).empty(); }

// Whether each of the two did next what the other did now.
bool is_other_order(const BySequence& a, const BySequence& b, uint64_t sequence) {
  const auto does = [](const BySequence& who, uint64_t at, const DumpedOperation& call) {
    const auto found = who.find(at);
    return found != who.end() && is_same_call(*found->second, call);
  };
  return does(a, sequence + 1, *b.at(sequence)) && does(b, sequence + 1, *a.at(sequence));
}

class Comparison {
 public:
  explicit Comparison(const std::vector<Dump>& dumps) : dumps_(dumps) {
    for (const Dump& dump : dumps) calls_.push_back(collectives_of(dump));
  }

  std::optional<Divergence> run() const {
    std::set<uint64_t> numbers;
    for (const BySequence& calls : calls_) {
      for (const auto& [sequence, call] : calls) numbers.insert(sequence);
    }
    for (const uint64_t sequence : numbers) {
      if (auto found = look_at(sequence)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Divergence> look_at(uint64_t sequence) const {
    std::map<std::string, std::vector<Rank>> by_deed;  // what, in words: who
    const BySequence* first = nullptr;
    const BySequence* other = nullptr;
    bool absent = false;
    bool ended = false;
    bool unended = false;
    for (size_t i = 0; i < dumps_.size(); ++i) {
      const auto call = calls_[i].find(sequence);
      if (call == calls_[i].end()) {
        // A recorder keeps the most recent ones: it has forgotten what is before its last.
        if (!calls_[i].empty() && calls_[i].rbegin()->first > sequence) continue;
        absent = true;
        by_deed[last_deed(i)].push_back(dumps_[i].rank);
        continue;
      }
      if (first == nullptr) first = &calls_[i];
      if (other == nullptr && !is_same_call(*first->at(sequence), *call->second)) other = &calls_[i];
      (call->second->state == "GIMBAL_OK" ? ended : unended) = true;
      by_deed[call->second->text + ", " + call->second->state].push_back(dumps_[i].rank);
    }
    Divergence found = {.kind = Divergence::Kind::kMismatch, .sequence = sequence, .what = {}, .groups = {}};
    if (other != nullptr) {
      found.what = differences(*first->at(sequence), *other->at(sequence));
      found.what =
          is_other_order(*first, *other, sequence) ? "called in another order: " + found.what : "called with " + found.what;
    } else if (absent) {
      found.kind = Divergence::Kind::kAbsent;
      found.what = "not called by all";
    } else if (unended) {
      found.kind = Divergence::Kind::kUnended;
      found.what = ended ? "ended on some ranks only" : "ended on no rank";
    } else {
      return std::nullopt;
    }
    for (auto& [did, ranks] : by_deed) found.groups.push_back({std::move(ranks), did});
    std::ranges::sort(found.groups, {}, [](const Divergence::Group& group) { return group.ranks.front(); });
    return found;
  }

  std::string last_deed(size_t i) const {
    if (calls_[i].empty()) return "did not call it; no collective is recorded";
    const DumpedOperation& last = *calls_[i].rbegin()->second;
    return "did not call it; its last is " + last.text + ", " + last.state;
  }

  const std::vector<Dump>& dumps_;
  std::vector<BySequence> calls_;
};

}  // namespace

std::optional<Divergence> find_divergence(const std::vector<Dump>& dumps) { return Comparison(dumps).run(); }

std::string trace_report(const std::vector<Dump>& dumps) {
  std::string text;
  if (dumps.empty()) return text;
  text += "communicator \"" + dumps[0].communicator + "\": " + std::to_string(dumps.size()) + " of " +
          std::to_string(dumps[0].size) + " ranks\n";
  if (const std::vector<Rank> missing = missing_ranks(dumps); !missing.empty()) {
    text += "no dump of " + rank_list(missing) + "\n";
  }
  if (const std::optional<Divergence> found = find_divergence(dumps)) {
    text += "first divergence: #" + std::to_string(found->sequence) + " " + found->what + "\n";
    for (const Divergence::Group& group : found->groups) text += "  " + rank_list(group.ranks) + ": " + group.did + "\n";
  } else {
    text += "no divergence: what is recorded on all ranks is the same and has ended\n";
  }
  for (const Dump& dump : dumps) {
    if (!dump.error.empty())
      text += "error of rank " + std::to_string(dump.rank) + ": " + dump.status + ": " + dump.error + "\n";
  }
  return text;
}

std::string trace_json(const std::vector<Dump>& dumps) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["communicator"] = dumps.empty() ? "" : dumps[0].communicator;
  json["size"] = dumps.empty() ? 0 : dumps[0].size;
  json["missing"] = missing_ranks(dumps);
  json["ranks"] = Json::array();
  for (const Dump& dump : dumps) {
    json["ranks"].push_back({{"rank", dump.rank},
                             {"host", dump.host},
                             {"pid", dump.pid},
                             {"status", dump.status},
                             {"error", dump.error},
                             {"clock_uncertainty_ns", dump.clock_uncertainty_ns}});
  }
  json["divergence"] = nullptr;
  if (const std::optional<Divergence> found = find_divergence(dumps)) {
    constexpr const char* kKinds[] = {"mismatch", "absent", "unended"};
    Json groups = Json::array();
    for (const Divergence::Group& group : found->groups) groups.push_back({{"ranks", group.ranks}, {"did", group.did}});
    json["divergence"] = {{"kind", kKinds[static_cast<size_t>(found->kind)]},
                          {"sequence", found->sequence},
                          {"what", found->what},
                          {"groups", std::move(groups)}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gimbal
