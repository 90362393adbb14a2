// A schedule as a picture: one band per rank, its chunks below one another, moments from left to right. A chunk's colour says
// how many ranks' inputs it holds, lines are messages.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "collectives/schedule.h"

namespace gimbal {

// SVG. UNSUPPORTED when it would be too large to be looked at.
Result<std::string> draw_schedule(const CollectiveSpec& spec, std::span<const Schedule> schedules, const std::string& title);

}  // namespace gimbal
