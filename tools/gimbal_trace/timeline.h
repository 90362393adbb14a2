// All ranks' operations on one clock, in the trace event format that Perfetto and chrome://tracing open.
#pragma once

#include <string>
#include <vector>

#include "tools/gimbal_trace/dump.h"

namespace gimbal {

std::string trace_timeline(const std::vector<Dump>& dumps);

}  // namespace gimbal
