// Machines that others published, with the facts to read from them. They are not part of the project: a test that needs one
// skips where the folder is not there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/support/folders.h"

namespace gimbal::test {

inline constexpr const char* kNoReferenceFiles =
    "no reference files: put their folder at ../shared/cases beside the sources, or name it in TOPOLOGY_CASES";

// name: "topologies/azure-ndv4-topo.xml".
inline std::optional<std::string> reference_file(const std::string& name) {
  const char* chosen = std::getenv("TOPOLOGY_CASES");
  const std::filesystem::path folder = chosen != nullptr ? chosen : source_file("../shared/cases");
  const std::filesystem::path path = folder / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

// A machine of the project's own.
inline std::string fixture(const std::string& name) { return source_file("tests/fixtures/topology/" + name); }

}  // namespace gimbal::test
