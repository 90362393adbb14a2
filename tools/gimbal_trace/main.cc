// gimbal-trace: merges the ranks' flight recorders, says where they first did different things, and draws one time line
// (docs/failures.md).
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/gimbal_trace/divergence.h"
#include "tools/gimbal_trace/timeline.h"
#include "tools/support/output.h"

namespace gimbal {
namespace {

constexpr int kDivergedStatus = 1;
constexpr int kUsageStatus = 2;

struct Options {
  std::vector<std::string> files;
  std::string timeline;
  bool json = false;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Result<std::string> read_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return system_error(path, errno);
  // One byte past the limit is enough to be refused.
  std::string text(kMostDumpBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return system_error(path, errno);
  return text;
}

Result<std::vector<Dump>> read_dumps(const std::vector<std::string>& files) {
  std::vector<Dump> dumps;
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(const std::string text, read_file(path));
    Result<Dump> dump = parse_dump(text);
    if (!dump.ok()) return Status(dump.status().code(), path + ": " + dump.status().message());
    dumps.push_back(std::move(dump).value());
  }
  RETURN_IF_ERROR(check_dumps(dumps));
  return dumps;
}

int refuse(const std::string& sentence) {
  std::fprintf(stderr, "gimbal-trace: %s\n", sentence.c_str());
  return kUsageStatus;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Merges the flight recorders of one communicator's ranks and says where they first did different things; exit status "
      "0: nowhere, 1: there is such a place, 2: the files cannot be read.",
      "gimbal-trace");
  Options options;
  app.add_option("files", options.files, "What gimbal_comm_dump or GIMBAL_FLIGHT_RECORDER wrote, one file a rank")->required();
  app.add_option("--timeline", options.timeline,
                 "Write all operations on one clock to this file, for Perfetto or chrome://tracing");
  app.add_flag("--json", options.json, "Print JSON");
  app.set_version_flag("--version", std::string("gimbal-trace ") + GIMBAL_TOOL_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {  // --help, --version
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    return refuse(std::string(error.what()) + " (see gimbal-trace --help)");
  }
  const Result<std::vector<Dump>> dumps = read_dumps(options.files);
  if (!dumps.ok()) return refuse(dumps.status().message());
  if (!options.timeline.empty()) {
    if (const Status written = write_file(options.timeline, trace_timeline(*dumps)); !written.ok())
      return refuse(written.message());
  }
  const std::string report = options.json ? trace_json(*dumps) : trace_report(*dumps);
  if (std::fputs(report.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return refuse("standard output cannot be written");
  return find_divergence(*dumps) ? kDivergedStatus : 0;
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) { return gimbal::run(argc, argv); }
