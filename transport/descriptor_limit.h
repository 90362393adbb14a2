// Room for descriptors under RLIMIT_NOFILE.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace gimbal {

// Makes room for `wanted` more descriptors: raises the soft limit to the hard one when it is too low. An error names
// RLIMIT_NOFILE and the number wanted.
Status reserve_descriptors(size_t wanted);

}  // namespace gimbal
