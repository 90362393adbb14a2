#include "tools/support/output.h"

#include <cerrno>
#include <cstdio>

namespace gimbal {

Status write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return system_error(path, errno);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool is_closed = std::fclose(file) == 0;
  return is_written && is_closed ? Status() : system_error(path, errno);
}

Status print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return system_error("standard output", errno);
  return {};
}

}  // namespace gimbal
