// Predicted and measured side by side.
#pragma once

#include <span>
#include <string>

#include "bench/predict/prediction.h"

namespace gimbal::predict {

std::string report_text(const Machine& machine, std::span<const Comparison> comparisons);
std::string report_json(const Machine& machine, std::span<const Comparison> comparisons);

// plot.cc: SVG, a panel for each number of ranks: measured as dots, predicted as lines.
std::string draw_report(const Machine& machine, std::span<const Comparison> comparisons);

}  // namespace gimbal::predict
