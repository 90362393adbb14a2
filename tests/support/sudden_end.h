// A process that is killed by SIGKILL at a moment set beforehand, whatever it is doing then.
#pragma once

#include <signal.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>

namespace gimbal::test {

// at_ns: on the clock of monotonic_ns(). The timer ends with the process; it is not inherited by children.
inline void end_suddenly_at(int64_t at_ns) {
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer = {};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) std::abort();
  itimerspec when = {};
  when.it_value.tv_sec = at_ns / 1'000'000'000;
  when.it_value.tv_nsec = at_ns % 1'000'000'000;
  if (timer_settime(timer, TIMER_ABSTIME, &when, nullptr) != 0) std::abort();
}

}  // namespace gimbal::test
