// A flight recorder's JSON: any text is a dump that can be compared and drawn, or a sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/gimbal_trace/divergence.h"
#include "tools/gimbal_trace/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gimbal::Result<gimbal::Dump> dump = gimbal::parse_dump({reinterpret_cast<const char*>(data), bytes});
  if (!dump.ok()) {
    if (dump.status().message().empty()) std::abort();
    return 0;
  }
  gimbal::Dump other = *dump;
  other.rank = dump->rank + 1;
  for (gimbal::DumpedOperation& operation : other.operations) operation.count /= 2;
  std::vector<gimbal::Dump> dumps = {*std::move(dump), std::move(other)};
  if (!gimbal::check_dumps(dumps).ok()) std::abort();
  static_cast<void>(gimbal::trace_report(dumps));
  static_cast<void>(gimbal::trace_json(dumps));
  static_cast<void>(gimbal::trace_timeline(dumps));
  return 0;
}
