// base/parse.h on any text: a result or a sentence, and what the header promises about results.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/parse.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto size = gimbal::parse_bytes(text);
  require(size.ok() ? (*size >> 63) == 0 : !size.status().message().empty());
  const auto duration = gimbal::parse_duration_ms(text);
  require(duration.ok() ? *duration >= 0 : !duration.status().message().empty());
  const auto number = gimbal::parse_integer(text, -5, 1000);
  require(number.ok() ? *number >= -5 && *number <= 1000 : !number.status().message().empty());
  const auto flag = gimbal::parse_bool(text);
  require(flag.ok() || !flag.status().message().empty());
  return 0;
}
