// The two ways in which two threads can all-reduce shared pages, as single passes over memory.
#pragma once

#include <cstddef>

namespace compare {

enum class Stores { kOrdinary, kStreaming };

// to = a + b. Pointers on 64-byte boundaries when stores are streaming.
void add_into_one(const float* a, const float* b, float* to, size_t count, Stores stores);

// first = second = a + b.
void add_into_two(const float* a, const float* b, float* first, float* second, size_t count, Stores stores);

}  // namespace compare
