// Pure passes over the schedule of one rank: fuse(), then link(). Neither changes what is computed; the tests verify every
// algorithm before and after.
#pragma once

#include "collectives/schedule.h"

namespace gimbal {

// Makes one step of a receive and the send of the same run that directly follows it: recv + send -> kRecvSend, recv_reduce +
// send -> kRecvReduceSend. The result is kept (dst) only if it is output or is read again. Before link() only.
Schedule fuse(const Schedule& schedule);

// Sets every `after`, from the list order as meaning: the earlier of two steps that touch one place (a chunk of input and
// output, a chunk of scratch, or the way to one peer), at least one of them writing, is complete before the later begins.
//
// One `after` is enough: dependencies point back in the list and stay within a channel; those on the own cursor hold already,
// and the other cursor completes in list order, so the last of those on it implies the rest.
Schedule link(Schedule schedule);

}  // namespace gimbal
