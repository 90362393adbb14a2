// What every file of exported functions needs to know about libibverbs' names.
#pragma once

#include <infiniband/verbs.h>

// verbs.h makes macros of functions that are defined here.
#undef ibv_query_port
#undef ibv_reg_mr

namespace gimbal::hostile {

inline constexpr int kMostRequests = 16384;  // of one queue
inline constexpr int kMostCompletions = 65536;

}  // namespace gimbal::hostile
