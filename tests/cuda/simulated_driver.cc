// What cuda_api.cc asks of the driver, of the simulated devices.
#include <cuda_runtime_api.h>
#include <sched.h>

#include <atomic>
#include <memory>

#include "base/environment.h"
#include "kernels/cuda/driver_functions.h"

namespace gimbal::cuda_driver {
namespace {

struct AwaitedWord {
  uint32_t* word;
  uint32_t value;
};

// Simulated streams have a thread each, so that one may be held up. A device waits without a multiprocessor; here that is a
// thread that gives its CPU away.
void wait_here(void* argument) {
  const std::unique_ptr<AwaitedWord> awaited(static_cast<AwaitedWord*>(argument));
  const std::atomic_ref<uint32_t> word(*awaited->word);
  while (static_cast<int32_t>(word.load(std::memory_order_acquire) - awaited->value) < 0) sched_yield();
}

}  // namespace

PointerFacts look_at(const void* pointer) {
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) return {};
  return facts_of(attributes);
}

// Simulated processes do share their devices; tests say by this whether they may know.
bool has_mps(int) { return read_environment("CUDA_SIM_MPS").has_value(); }

Status wait_for_word(uint32_t* word, uint32_t value, cudaStream_t stream) {
  auto awaited = std::make_unique<AwaitedWord>(AwaitedWord{word, value});
  if (cudaLaunchHostFunc(stream, wait_here, awaited.get()) != cudaSuccess) return {Code::kDevice, "cudaLaunchHostFunc failed"};
  awaited.release();
  return {};
}

}  // namespace gimbal::cuda_driver
