// Joining a communicator over a store: who takes part, and what is wrong when the ranks do not fit together.
//
// Every rank takes an arrival number from a counter and stores its record under it; rank 0 reads the arrivals in their order
// and publishes one verdict, the roster or a fault, for which all others wait. That is three operations per rank and no
// polling. A store may serve one communicator name again and again: the k-th `size` arrivals are its k-th round. A round that
// failed leaves its store behind the others' count; another join needs another name or store.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/store.h"
#include "transport/wire.h"

namespace gimbal {

Result<Roster> join(Store& store, const std::string& name, const JoinRecord& self, Deadline deadline);

}  // namespace gimbal
