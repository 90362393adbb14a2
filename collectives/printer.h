// Schedules as text, for people and error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "collectives/schedule.h"

namespace gimbal {

std::string_view op_name(Op op);
std::string_view payload_name(Payload payload);
std::string_view buffer_name(BufferId buffer);

// "chunk 3" or "chunks 3..5".
std::string describe_run(uint32_t chunk, uint32_t count);

// "recv_reduce_send chunk 3 from 0 (raw) + input -> none, to 2 (partial)".
std::string describe(const Step& step);

// One step a line, with its index and what it waits for.
std::string print(const Schedule& schedule);

// All ranks side by side, one column each, step by step of every rank (the rows are not moments in time). Made for a handful.
std::string print_side_by_side(std::span<const Schedule> schedules);

}  // namespace gimbal
