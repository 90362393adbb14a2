// What collectives do in a communicator of one rank: scale, or copy.
#pragma once

#include "base/cuda.h"
#include "runtime/call.h"

namespace gimbal {

// On host memory.
void run_alone(const Call& call);
// On device memory: enqueues on the call's stream.
Status run_alone(const Call& call, Cuda& cuda);

}  // namespace gimbal
