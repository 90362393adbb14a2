// Where this build lies: the sources, for fixtures and documents, and the build folder, for the programs under test.
//
// The paths are in one object file, so that every other one is the same in every checkout, for a compiler cache too.
#pragma once

#include <string>

namespace gimbal::test {

// A file of the source tree: source_file("docs/environment.md").
std::string source_file(const std::string& name);

// A program of this build: binary("gimbal-run").
std::string binary(const std::string& name);

}  // namespace gimbal::test
