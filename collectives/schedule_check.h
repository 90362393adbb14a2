// What can be said of one rank's schedule without the others: it is well formed, and its `after`s order every conflict. The
// verifier starts with it; it does not trust link().
#pragma once

#include "base/status.h"
#include "collectives/schedule.h"

namespace gimbal {

// INTERNAL with a sentence that names rank, step and chunk.
Status check_schedule(const CollectiveSpec& spec, Rank rank, const Schedule& schedule);

}  // namespace gimbal
