// Bus bandwidth and time of algorithms over the number of machines, as a picture.
#pragma once

#include <span>
#include <string>

#include "tools/gimbal_plan/scaling.h"

namespace gimbal {

// SVG. Figures of one algorithm are joined by a line, in their order.
std::string draw_scaling(std::span<const Figure> figures, const std::string& title, const std::string& subtitle);

}  // namespace gimbal
