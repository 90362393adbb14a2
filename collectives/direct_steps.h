// The steps of the node-direct algorithms, for the cost model and the verifier. Nothing executes them: runtime's exchanges do
// the same natively. Their messages are *pulled*: a sender stages a chunk once, at its first send, and whoever a send names
// reads it there (cost.h charges them so).
//
//   two shots, and all collectives but those below   the registry's all_pairs and linear
//   one shot all_reduce, broadcast, reduce           builders of their own: every rank reads all that it needs
#pragma once

#include "collectives/algorithm.h"
#include "collectives/way.h"

namespace gimbal {

// Null where direct_serves() says no for every size.
const Algorithm* direct_steps(Collective collective, Protocol protocol);

}  // namespace gimbal
