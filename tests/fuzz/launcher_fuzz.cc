// Hostile text from a launcher: Slurm's lists of hosts and lines of PMI.
#include <cstdlib>
#include <string_view>

#include "runtime/host_list.h"
#include "runtime/pmi.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const gimbal::Result<std::vector<std::string>> hosts = gimbal::expand_host_list(text);
  if (hosts.ok() && (hosts->empty() || hosts->size() > gimbal::kMaxListedHosts)) std::abort();
  static_cast<void>(gimbal::parse_pmi_line(text));
  return 0;
}
