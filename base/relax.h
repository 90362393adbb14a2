// What a loop that looks at another CPU's word does between two looks: lets the CPU know, so that the loop neither floods the
// line's owner with requests nor fills the pipeline with looks that must be thrown away.
#pragma once

namespace gimbal {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace gimbal
