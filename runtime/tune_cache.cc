#include "runtime/tune_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/environment.h"
#include "base/file_descriptor.h"

namespace gimbal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOff = "off";

// Empty where neither variable is set.
fs::path cache_folder() {
  // A relative XDG_CACHE_HOME is to be ignored (XDG Base Directory Specification).
  const std::optional<std::string> xdg = read_environment("XDG_CACHE_HOME");
  if (xdg && fs::path(*xdg).is_absolute()) return fs::path(*xdg) / "gimbal";
  const std::optional<std::string> home = read_environment("HOME");
  return home ? fs::path(*home) / ".cache" / "gimbal" : fs::path();
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(path, errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

const TunedRun* find_run(const Tuning& tuning, Rank ranks, double cpus) {
  const TunedRun* nearest = nullptr;
  double least = std::log(2.0) + 1e-9;
  for (const TunedRun& run : tuning.runs) {
    const bool shares_cpus = run.ranks() > run.inputs.cpus;
    if (shares_cpus != (ranks > cpus) || (shares_cpus && run.inputs.cpus != cpus)) continue;
    const double distance = std::abs(std::log(static_cast<double>(run.ranks()) / ranks));
    if (distance > least || (nearest != nullptr && distance == least)) continue;
    least = distance;
    nearest = &run;
  }
  return nearest;
}

std::string tuning_path(const std::string& setting, uint64_t fingerprint) {
  if (setting == kOff) return "";
  if (!setting.empty()) return setting;
  const fs::path folder = cache_folder();
  if (folder.empty()) return "";
  char name[40];
  std::snprintf(name, sizeof(name), "tune-%016llx.json", static_cast<unsigned long long>(fingerprint));
  return folder / name;
}

bool may_have_tuning(const std::string& setting) {
  if (setting == kOff) return false;
  if (!setting.empty()) return true;
  const fs::path folder = cache_folder();
  return !folder.empty() && ::access(folder.c_str(), R_OK | X_OK) == 0;
}

Result<std::string> read_tuning_file(const std::string& path) {
  // O_NONBLOCK: a named pipe must not hold up the caller.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::string();
    return system_error(path, errno);
  }
  struct stat facts = {};
  if (::fstat(fd.get(), &facts) != 0) return system_error(path, errno);
  if (!S_ISREG(facts.st_mode)) return Status(Code::kInvalidArgument, path + ": is no regular file");
  if (facts.st_size > static_cast<off_t>(kMostTuningBytes)) {
    return Status(Code::kInvalidArgument, path + ": is larger than 1 MiB");
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  return text;
}

Status write_tuning_file(const std::string& path, const std::string& text) {
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  if (error) return system_error(fs::path(path).parent_path(), error.value());
  const std::string beside = path + "." + std::to_string(::getpid());
  {
    const FileDescriptor fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.valid()) return system_error(beside, errno);
    if (Status written = write_all(fd.get(), text, beside); !written.ok()) {
      ::unlink(beside.c_str());
      return written;
    }
  }
  if (::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int reason = errno;
  ::unlink(beside.c_str());
  return system_error(path, reason);
}

}  // namespace gimbal
