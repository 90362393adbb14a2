#include "topology/graph_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace gimbal {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
// Far above any machine (a 1500-core one has 10,000), far below what would take seconds.
constexpr size_t kMostNodes = 200'000;

// What is at its default is left out: a file of a big machine stays readable.
template <typename T>
void put(Json& object, const char* key, const T& value, const T& default_value) {
  if (value != default_value) object[key] = value;
}

Json to_json(const NetPort& port) {
  Json object = {{"name", port.name}};
  put(object, "interface", port.interface, std::string());
  put(object, "gbits", port.gbits, 0.0);
  put(object, "state", std::string(port_state_name(port.state)), std::string("unknown"));
  put(object, "gid", port.gid, std::string());
  return object;
}

Json to_json(const TopologyNode& node) {
  Json object = {{"kind", kind_name(node.kind)}};
  put(object, "parent", node.parent, kNoNode);
  put(object, "os_index", node.os_index, int64_t{-1});
  put(object, "index", node.index, -1);
  put(object, "name", node.name, std::string());
  put(object, "model", node.model, std::string());
  if (node.bus_id) object["bus_id"] = format(*node.bus_id);
  put(object, "bytes", node.bytes, uint64_t{0});
  if (!node.numa.empty()) object["numa"] = node.numa;
  put(object, "allowed", node.allowed, true);
  put(object, "cpu_kind", node.cpu_kind, -1);
  for (const NetPort& port : node.ports) object["ports"].push_back(to_json(port));
  if (!node.peer_gpus.empty()) object["peer_gpus"] = node.peer_gpus;
  return object;
}

Json to_json(const TopologyLink& link) {
  Json object = {{"kind", kind_name(link.kind)}, {"a", link.a}, {"b", link.b}};
  put(object, "count", link.count, 1);
  put(object, "bandwidth_gbps", link.bandwidth_gbps, 0.0);
  put(object, "latency_us", link.latency_us, 0.0);
  put(object, "distance", link.distance, 0);
  put(object, "speed_gts", link.speed_gts, 0.0);
  put(object, "width", link.width, 0);
  put(object, "most_speed_gts", link.most_speed_gts, 0.0);
  put(object, "most_width", link.most_width, 0);
  return object;
}

Json to_json(const CpuKind& kind) { return {{"name", kind.name}, {"efficiency", kind.efficiency}, {"max_mhz", kind.max_mhz}}; }

template <typename T>
Json to_array(const std::vector<T>& elements) {
  Json array = Json::array();
  for (const T& element : elements) array.push_back(to_json(element));
  return array;
}

// Typed reads of one object. The first fault is kept as its sentence; reads after it do no harm.
class Reader {
 public:
  Reader(const Json& object, std::string where, Status& fault) : object_(object), where_(std::move(where)), fault_(fault) {
    if (!object_.is_object()) fail("", "an object");
  }

  template <typename T>
  void integer(const char* key, T& value) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (field->is_number_unsigned() && std::in_range<T>(field->get<uint64_t>())) {
      value = static_cast<T>(field->get<uint64_t>());
    } else if (field->is_number_integer() && !field->is_number_unsigned() && std::in_range<T>(field->get<int64_t>())) {
      value = static_cast<T>(field->get<int64_t>());
    } else {
      fail(key, "a whole number in range");
    }
  }
  void number(const char* key, double& value) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_number() || !(field->get<double>() >= 0) || std::isinf(field->get<double>()))
      return fail(key, "a number from 0 up");
    value = field->get<double>();
  }
  void text(const char* key, std::string& value) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_string()) return fail(key, "text");
    value = field->get<std::string>();
  }
  void flag(const char* key, bool& value) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_boolean()) return fail(key, "true or false");
    value = field->get<bool>();
  }
  // One of `count` enumerators by its name.
  template <typename Enum, typename Name>
  void enumerator(const char* key, Enum& value, int count, Name name) {
    std::string word(name(value));
    text(key, word);
    for (int i = 0; i < count; ++i) {
      if (name(static_cast<Enum>(i)) == word) {
        value = static_cast<Enum>(i);
        return;
      }
    }
    fail(key, "a known name, not \"" + printable(word) + "\"");
  }
  // The array's elements; none when it is missing.
  template <typename Each>
  void array(const char* key, Each each) {
    const Json* field = find(key);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMostNodes) return fail(key, "an array of at most 200000");
    for (size_t i = 0; i < field->size() && fault_.ok(); ++i) each((*field)[i], where_ + "/" + key + "/" + std::to_string(i));
  }
  void numbers(const char* key, std::vector<int32_t>& values) {
    array(key, [&](const Json& element, const std::string& at) {
      if (!element.is_number_integer() || element < 0 || element > INT32_MAX) {
        fault_ = Status(Code::kInvalidArgument, at + ": allowed is a whole number from 0 up");
      } else {
        values.push_back(element.get<int32_t>());
      }
    });
  }
  void fail(const std::string& key, const std::string& allowed) {
    if (!fault_.ok()) return;
    fault_ = Status(Code::kInvalidArgument, (where_ + (key.empty() ? "" : "/" + key)) + ": allowed is " + allowed);
  }

 private:
  const Json* find(const char* key) const {
    if (!object_.is_object() || !fault_.ok()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& object_;
  std::string where_;
  Status& fault_;
};

NetPort read_port(const Json& object, const std::string& where, Status& fault) {
  NetPort port;
  Reader reader(object, where, fault);
  reader.text("name", port.name);
  reader.text("interface", port.interface);
  reader.number("gbits", port.gbits);
  reader.enumerator("state", port.state, 3, port_state_name);
  reader.text("gid", port.gid);
  return port;
}

TopologyNode read_node(const Json& object, const std::string& where, Status& fault) {
  TopologyNode node;
  Reader reader(object, where, fault);
  reader.enumerator("kind", node.kind, kNodeKindCount, [](NodeKind kind) { return kind_name(kind); });
  reader.integer("parent", node.parent);
  reader.integer("os_index", node.os_index);
  reader.integer("index", node.index);
  reader.text("name", node.name);
  reader.text("model", node.model);
  std::string bus_id;
  reader.text("bus_id", bus_id);
  if (!bus_id.empty()) {
    node.bus_id = parse_bus_id(bus_id);
    if (!node.bus_id) reader.fail("bus_id", "a PCI address as 0000:3b:00.0");
  }
  reader.integer("bytes", node.bytes);
  reader.numbers("numa", node.numa);
  reader.numbers("peer_gpus", node.peer_gpus);
  reader.flag("allowed", node.allowed);
  reader.integer("cpu_kind", node.cpu_kind);
  reader.array("ports", [&](const Json& port, const std::string& at) { node.ports.push_back(read_port(port, at, fault)); });
  return node;
}

TopologyLink read_link(const Json& object, const std::string& where, Status& fault) {
  TopologyLink link;
  Reader reader(object, where, fault);
  reader.enumerator("kind", link.kind, kLinkKindCount, [](LinkKind kind) { return kind_name(kind); });
  reader.integer("a", link.a);
  reader.integer("b", link.b);
  reader.integer("count", link.count);
  reader.number("bandwidth_gbps", link.bandwidth_gbps);
  reader.number("latency_us", link.latency_us);
  reader.integer("distance", link.distance);
  reader.number("speed_gts", link.speed_gts);
  reader.integer("width", link.width);
  reader.number("most_speed_gts", link.most_speed_gts);
  reader.integer("most_width", link.most_width);
  return link;
}

CpuKind read_cpu_kind(const Json& object, const std::string& where, Status& fault) {
  CpuKind kind;
  Reader reader(object, where, fault);
  reader.text("name", kind.name);
  reader.integer("efficiency", kind.efficiency);
  reader.integer("max_mhz", kind.max_mhz);
  kind.name = printable(kind.name);
  return kind;
}

}  // namespace

std::string graph_to_json(const TopologyGraph& graph) {
  Json document = {{"gimbal_topology", kFormatVersion}};
  if (std::isfinite(graph.quota_cpus)) document["quota_cpus"] = graph.quota_cpus;
  document["cpu_kinds"] = to_array(graph.cpu_kinds);
  document["nodes"] = to_array(graph.nodes);
  document["links"] = to_array(graph.links);
  // One node or link a line: files can be read and compared.
  std::string text = document.dump();
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_element = text[i] == '{' && i > 0 && (text[i - 1] == '[' || text[i - 1] == ',');
    if (begins_element) lines += "\n ";
    lines += text[i];
  }
  return lines + "\n";
}

Result<TopologyGraph> graph_from_json(std::string_view text) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return Status(Code::kInvalidArgument, "not well-formed JSON");
  Status fault;
  Reader reader(document, "topology", fault);
  int version = 0;
  reader.integer("gimbal_topology", version);
  if (fault.ok() && version != kFormatVersion) {
    return Status(Code::kInvalidArgument, "\"gimbal_topology\" is " + std::to_string(version) + "; this version reads 1");
  }
  TopologyGraph graph;
  reader.number("quota_cpus", graph.quota_cpus);
  reader.array("cpu_kinds",
               [&](const Json& kind, const std::string& at) { graph.cpu_kinds.push_back(read_cpu_kind(kind, at, fault)); });
  reader.array("nodes", [&](const Json& node, const std::string& at) { add_node(graph, read_node(node, at, fault)); });
  reader.array("links", [&](const Json& link, const std::string& at) { graph.links.push_back(read_link(link, at, fault)); });
  RETURN_IF_ERROR(fault);
  RETURN_IF_ERROR(check_graph(graph));
  number_devices(graph);
  return graph;
}

}  // namespace gimbal
