#include "topology/load.h"

#include <fcntl.h>
#include <hwloc.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <pugixml.hpp>

#include "base/file_descriptor.h"
#include "topology/graph_json.h"
#include "topology/hwloc_reader.h"
#include "topology/isolated.h"
#include "topology/nccl_xml.h"

namespace gimbal {
namespace {

// hwloc's XML of a machine with 1500 cores is 5 MB.
constexpr size_t kMostBytes = size_t{16} << 20;

Result<std::string> read_regular_file(const std::string& path) {
  // O_NONBLOCK: a pipe without a writer would keep us waiting here.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Status(Code::kInvalidArgument, std::strerror(errno));
  struct stat state {};
  if (fstat(file.get(), &state) != 0) return Status(Code::kInvalidArgument, std::strerror(errno));
  if (S_ISDIR(state.st_mode)) return Status(Code::kInvalidArgument, "is a directory, not a file");
  if (!S_ISREG(state.st_mode)) return Status(Code::kInvalidArgument, "is no regular file");
  if (static_cast<size_t>(state.st_size) > kMostBytes) {
    return Status(Code::kInvalidArgument, "has " + std::to_string(state.st_size) + " bytes; the most is 16 MiB");
  }
  std::string text(static_cast<size_t>(state.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t bytes = read(file.get(), text.data() + done, text.size() - done);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return Status(Code::kInvalidArgument, std::strerror(errno));
    if (bytes == 0) break;
    done += static_cast<size_t>(bytes);
  }
  text.resize(done);
  return text;
}

// hwloc's reader of version 2 stops at "too new" on standard error only; asked first, it can be said.
Status check_hwloc_version(const pugi::xml_node& topology) {
  const std::string version = topology.attribute("version").value();  // none in version 1
  const unsigned most = hwloc_get_api_version() >> 16;
  if (std::strtoul(version.c_str(), nullptr, 10) <= most) return {};
  return {Code::kInvalidArgument, "hwloc XML version " + printable(version) +
                                      " is too new: the hwloc that this program runs with reads up to version " +
                                      std::to_string(most)};
}

}  // namespace

Result<TopologyGraph> graph_from_text(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return Status(Code::kInvalidArgument, "is empty");
  if (text[first] == '{') return graph_from_json(text);
  if (text[first] != '<') {
    return Status(Code::kInvalidArgument, "is neither Gimbal's JSON, nor hwloc's XML, nor NCCL's topology XML");
  }
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    return Status(Code::kInvalidArgument,
                  std::string("not well-formed XML: ") + parsed.description() + " at byte " + std::to_string(parsed.offset));
  }
  if (document.child("system")) return graph_from_nccl_xml(text);
  const pugi::xml_node topology = document.child("topology");
  if (!topology) return Status(Code::kInvalidArgument, "is XML with neither <topology> (hwloc) nor <system> (NCCL)");
  RETURN_IF_ERROR(check_hwloc_version(topology));
  document.reset();
  return graph_from_hwloc_xml(text);
}

Result<TopologyGraph> graph_from_hostile_text(const std::string& text) {
  const auto read = [&text]() -> Result<std::string> {
    ASSIGN_OR_RETURN(const TopologyGraph graph, graph_from_text(text));
    return graph_to_json(graph);
  };
  ASSIGN_OR_RETURN(const std::string json, run_isolated(read, {}));
  return graph_from_json(json);
}

Result<TopologyGraph> load_topology_file(const std::string& path) {
  const auto in_file = [&path](const Status& status) { return Status(status.code(), path + ": " + status.message()); };
  const Result<std::string> text = read_regular_file(path);
  if (!text.ok()) return in_file(text.status());
  Result<TopologyGraph> graph = graph_from_hostile_text(*text);
  if (!graph.ok()) return in_file(graph.status());
  return graph;
}

}  // namespace gimbal
