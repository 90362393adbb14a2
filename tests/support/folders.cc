#include "tests/support/folders.h"

namespace gimbal::test {

std::string source_file(const std::string& name) { return std::string(GIMBAL_SOURCE_DIR) + "/" + name; }

std::string binary(const std::string& name) { return std::string(GIMBAL_BINARY_DIR) + "/bin/" + name; }

}  // namespace gimbal::test
