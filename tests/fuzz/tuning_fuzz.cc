// The tune cache: any text is a sound tuning or a sentence, and what is accepted is written and read again unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/tune_cache.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto tuning = gimbal::parse_tuning({reinterpret_cast<const char*>(data), bytes});
  if (!tuning.ok()) {
    if (tuning.status().message().empty()) std::abort();
    return 0;
  }
  const std::string text = gimbal::format_tuning(*tuning);
  const auto again = gimbal::parse_tuning(text);
  if (!again.ok() || gimbal::format_tuning(*again) != text) std::abort();
  for (const gimbal::TunedRun& run : tuning->runs) {
    for (const auto& [key, rows] : run.tables) {
      if (gimbal::find_row(rows, 0) == nullptr || gimbal::find_row(rows, SIZE_MAX) == nullptr) std::abort();
    }
  }
  return 0;
}
