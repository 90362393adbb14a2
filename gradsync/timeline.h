// All ranks' spans on one clock, in the trace event format that Perfetto and chrome://tracing open.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gradsync/recorder.h"

namespace gimbal::gradsync {

// spans: by rank, on rank 0's clock. track_names: of the buckets' tracks, from track 1.
std::string timeline_json(std::span<const std::vector<Span>> spans, std::span<const std::string> track_names);

}  // namespace gimbal::gradsync
