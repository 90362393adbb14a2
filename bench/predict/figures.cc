#include "bench/predict/figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "collectives/algorithm.h"
#include "collectives/way.h"

namespace gimbal::predict {
namespace {

using Json = nlohmann::ordered_json;

constexpr Rank kMostRanks = 1024;
constexpr double kMostBytes = 1e15;
constexpr double kMostUs = 1e12;
constexpr size_t kLongestName = 200;

Status wrong(size_t line, const std::string& what) {
  return {Code::kInvalidArgument, "line " + std::to_string(line) + ": " + what};
}

// The number under the name, if it is one in [least, most].
std::optional<double> number(const Json& json, const char* name, double least, double most) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

std::optional<std::string> text(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string() || found->get_ref<const std::string&>().size() > kLongestName)
    return std::nullopt;
  return found->get<std::string>();
}

Result<Machine> parse_machine(const Json& json) {
  Machine machine;
  const std::optional<std::string> name = text(json, "machine");
  const std::optional<std::string> link = text(json, "link");
  const std::optional<double> cpus = number(json, "cpus", 0.01, 1e5);
  const std::optional<double> cache = number(json, "cache_bytes", 1, kMostBytes);
  const auto* const known = link ? std::find(kLinkClassNames.begin(), kLinkClassNames.end(), *link) : kLinkClassNames.end();
  if (!name || !cpus || !cache || known == kLinkClassNames.end()) {
    return wrong(1, "no machine; needed: \"machine\", \"cpus\", \"cache_bytes\" and \"link\" (cache, numa, ...)");
  }
  machine.name = *name;
  machine.cpus = *cpus;
  machine.cache_bytes = static_cast<uint64_t>(*cache);
  machine.link = static_cast<LinkClass>(known - kLinkClassNames.begin());
  return machine;
}

Result<Measured> parse_measured(const Json& json, size_t line) {
  Measured measured;
  const std::optional<std::string> algorithm = text(json, "algorithm");
  const std::optional<double> ranks = number(json, "ranks", 2, kMostRanks);
  const std::optional<double> bytes = number(json, "bytes", 1, kMostBytes);
  const std::optional<double> median = number(json, "median_us", 1e-3, kMostUs);
  if (!algorithm || !ranks || !bytes || !median) {
    return wrong(line, "no figure; needed: \"algorithm\", \"ranks\" (2 to 1024), \"bytes\" and \"median_us\"");
  }
  if (*algorithm != kDirectAlgorithm && find_algorithm(Collective::kAllReduce, *algorithm) == nullptr) {
    return wrong(line, "there is no algorithm \"" + *algorithm + "\" for all_reduce");
  }
  measured.algorithm = *algorithm;
  measured.ranks = static_cast<Rank>(*ranks);
  measured.bytes = static_cast<size_t>(*bytes);
  measured.median_us = *median;
  return measured;
}

}  // namespace

std::string format_machine(const Machine& machine) {
  const Json json = {{"machine", machine.name},
                     {"cpus", machine.cpus},
                     {"cache_bytes", machine.cache_bytes},
                     {"link", link_class_name(machine.link)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string format_measured(const Measured& measured) {
  const Json json = {{"algorithm", measured.algorithm},
                     {"ranks", measured.ranks},
                     {"bytes", measured.bytes},
                     {"median_us", std::round(measured.median_us * 1e3) / 1e3}};
  return json.dump() + "\n";
}

Result<Figures> parse_figures(std::string_view text) {
  Figures figures;
  size_t line = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    start = end + 1;
    ++line;
    const Json json = Json::parse(part.begin(), part.end(), nullptr, false);
    if (!json.is_object()) return wrong(line, "no JSON object");
    if (line == 1) {
      ASSIGN_OR_RETURN(figures.machine, parse_machine(json));
      continue;
    }
    ASSIGN_OR_RETURN(Measured measured, parse_measured(json, line));
    figures.measured.push_back(std::move(measured));
  }
  if (line == 0) return wrong(1, "no machine; the file is empty");
  return figures;
}

}  // namespace gimbal::predict
