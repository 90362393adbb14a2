#include "tools/gimbal_plan/request.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/parse.h"
#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

// Enough for any cluster that is there; the simulator's memory grows with it.
constexpr int64_t kMostRanks = 1'000'000;
constexpr int64_t kMostChannels = 255;
constexpr int64_t kMostPieces = 65'536;
constexpr double kMostGbps = 1e6;
// A verbs message takes about two microseconds to arrive and half of one of a CPU at either end.
constexpr double kRailLatencyUs = 2;
constexpr double kRailOverheadUs = 0.5;

std::string option_error(std::string_view option, const Status& status) {
  return std::string(option) + ": " + status.message();
}

// Leaves the value as it is when the text is empty.
template <typename T>
Status take_integer(std::string_view option, const std::string& text, int64_t least, int64_t most, T& value) {
  if (text.empty()) return {};
  const Result<int64_t> parsed = parse_integer(text, least, most);
  if (!parsed.ok()) return {Code::kInvalidArgument, option_error(option, parsed.status())};
  value = static_cast<T>(*parsed);
  return {};
}

std::string names_of(const std::vector<const Algorithm*>& algorithms) {
  std::string names;
  for (const Algorithm* algorithm : algorithms) names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  return names.empty() ? "none" : names;
}

Status take_algorithms(const RequestText& text, Request& request) {
  const std::optional<Collective> collective = parse_collective(text.collective);
  if (!collective) return {Code::kInvalidArgument, "--collective: there is no collective \"" + text.collective + "\""};
  request.collective = *collective;
  request.algorithms = algorithms_for(*collective);
  if (request.algorithms.empty()) {
    return {Code::kInvalidArgument, "--collective: no schedule carries out " + text.collective};
  }
  if (text.algorithm.empty()) return {};
  const Algorithm* named = find_algorithm(*collective, text.algorithm);
  if (named == nullptr) {
    return {Code::kInvalidArgument, "--algorithm: there is no \"" + text.algorithm + "\" for " + text.collective +
                                        "; there is " + names_of(request.algorithms)};
  }
  request.algorithms = {named};
  return {};
}

Result<NodeShape> sizes_to_shape(const std::string& text) {
  std::vector<Rank> sizes;
  int64_t total = 0;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const Result<int64_t> size = parse_integer(text.substr(start, end - start), 1, kMostRanks);
    if (!size.ok()) return Status(Code::kInvalidArgument, option_error("--node-sizes", size.status()));
    sizes.push_back(static_cast<Rank>(*size));
    total += *size;
    start = end + 1;
  }
  if (total <= kMostRanks) return NodeShape::consecutive(sizes);
  return Status(Code::kInvalidArgument,
                "--node-sizes: " + std::to_string(total) + " ranks; allowed: at most " + std::to_string(kMostRanks));
}

Result<NodeShape> take_shape(const RequestText& text, Rank default_ranks) {
  if (!text.node_sizes.empty()) {
    if (text.ranks.empty() && text.nodes.empty() && text.ranks_per_node.empty()) return sizes_to_shape(text.node_sizes);
    return Status(Code::kInvalidArgument,
                  "--node-sizes says how many ranks and nodes there are; leave --ranks, --nodes and "
                  "--ranks-per-node away");
  }
  Rank nodes = 1;
  RETURN_IF_ERROR(take_integer("--nodes", text.nodes, 1, kMostRanks, nodes));
  Rank per_node = text.nodes.empty() ? default_ranks : 1;
  RETURN_IF_ERROR(take_integer("--ranks-per-node", text.ranks_per_node, 1, kMostRanks, per_node));
  Rank ranks = 0;
  RETURN_IF_ERROR(take_integer("--ranks", text.ranks, 1, kMostRanks, ranks));
  if (ranks > 0 && !text.ranks_per_node.empty() && text.nodes.empty()) nodes = ranks / per_node;
  if (ranks > 0 && text.ranks_per_node.empty()) per_node = ranks / nodes;
  if (ranks > 0 && int64_t{nodes} * per_node != ranks) {
    return Status(Code::kInvalidArgument, "--ranks is " + text.ranks + ", which " + std::to_string(nodes) + " nodes of " +
                                              std::to_string(per_node) + " ranks do not make; --node-sizes takes uneven nodes");
  }
  if (int64_t{nodes} * per_node > kMostRanks) {
    return Status(Code::kInvalidArgument, "--nodes and --ranks-per-node make " + std::to_string(int64_t{nodes} * per_node) +
                                              " ranks; allowed: at most " + std::to_string(kMostRanks));
  }
  return NodeShape::uniform(nodes, per_node);
}

// "50GB/s" -> 50. The number may have a fraction.
Result<double> parse_gbps(std::string_view text) {
  constexpr std::string_view kUnit = "GB/s";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc() && rest == kUnit && value > 0 && value <= kMostGbps) return value;
  return Status(Code::kInvalidArgument,
                "\"" + std::string(text) + "\" is no bandwidth; allowed: like 50GB/s, up to 1000000GB/s");
}

Result<double> parse_us(std::string_view text) {
  constexpr double kNsPerUs = 1e3;
  ASSIGN_OR_RETURN(const int64_t nanoseconds, parse_duration_ns(text));
  return static_cast<double>(nanoseconds) / kNsPerUs;
}

}  // namespace

CollectiveSpec Request::spec() const {
  return {.collective = schedule_collective(collective),
          .nranks = shape.nranks(),
          .root = root,
          .channels = channels,
          .pieces = pieces.value_or(1),
          .nodes = &shape};
}

Result<Request> parse_request(const RequestText& text, Rank default_ranks) {
  Request request;
  RETURN_IF_ERROR(take_algorithms(text, request));
  ASSIGN_OR_RETURN(request.shape, take_shape(text, default_ranks));
  RETURN_IF_ERROR(take_integer("--root", text.root, 0, request.shape.nranks() - 1, request.root));
  RETURN_IF_ERROR(take_integer("--channels", text.channels, 1, kMostChannels, request.channels));
  RETURN_IF_ERROR(take_integer("--pieces", text.pieces, 1, kMostPieces, request.pieces));
  request.fusion = text.unfused ? Fusion::kNone : Fusion::kFused;
  for (const Algorithm* algorithm : request.algorithms) {
    if (std::string why = admits(*algorithm, request.spec()); !why.empty()) {
      return Status(Code::kInvalidArgument, std::string(algorithm->name) + ": " + why);
    }
  }
  return request;
}

Result<uint64_t> parse_message_bytes(const std::string& text) {
  ASSIGN_OR_RETURN(const uint64_t bytes, parse_bytes(text));
  constexpr uint64_t kMostBytes = uint64_t{1} << 50;
  if (bytes >= 1 && bytes <= kMostBytes) return bytes;
  return Status(Code::kInvalidArgument, "\"" + text + "\" is no message; allowed: 1 to 1P");
}

Result<LinkCost> parse_rail(const std::string& text) {
  LinkCost cost = {.latency_us = kRailLatencyUs, .overhead_us = kRailOverheadUs};
  std::string_view rest = text;
  const size_t comma = rest.find(',');
  ASSIGN_OR_RETURN(cost.bandwidth_gbps, parse_gbps(rest.substr(0, comma)));
  if (comma == std::string_view::npos) return cost;
  rest = rest.substr(comma + 1);
  const size_t second = rest.find(',');
  ASSIGN_OR_RETURN(cost.latency_us, parse_us(rest.substr(0, second)));
  if (second == std::string_view::npos) return cost;
  ASSIGN_OR_RETURN(cost.overhead_us, parse_us(rest.substr(second + 1)));
  return cost;
}

}  // namespace gimbal
