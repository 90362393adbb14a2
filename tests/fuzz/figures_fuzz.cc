// bench/predict's figures from any text: sound ones or a sentence, and sound ones can be written and read again.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "bench/predict/figures.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto figures = gimbal::predict::parse_figures(text);
  if (!figures.ok()) {
    require(!figures.status().message().empty());
    return 0;
  }
  std::string again = gimbal::predict::format_machine(figures->machine);
  for (const auto& measured : figures->measured) {
    require(measured.ranks >= 2 && measured.bytes > 0 && std::isfinite(measured.median_us) && measured.median_us > 0);
    again += gimbal::predict::format_measured(measured);
  }
  const auto second = gimbal::predict::parse_figures(again);
  require(second.ok() && second->measured.size() == figures->measured.size());
  return 0;
}
