// The threads of one block, on the host thread that calls.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>

namespace cuda_sim {

// Returns when all of them have returned. With a seed other than 0 they take turns in a random order.
void run_block(const std::function<void()>& body, const ThreadPlace& first, uint64_t seed);

}  // namespace cuda_sim
