// Events: a count of records and a count of arrivals, polled by whoever waits, so that processes can share one.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/cuda_sim/internal.h"

using cuda_sim::note;

namespace {

void wait_for(const EventState& state, uint64_t count) {
  constexpr auto kPause = std::chrono::microseconds(20);
  for (int turn = 0; state.completed.load(std::memory_order_acquire) < count; ++turn) {
    constexpr int kYields = 50;
    if (turn < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

// Streams may come to a later record first.
void complete(EventState& state, uint64_t count) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  state.nanoseconds.store(std::chrono::nanoseconds(now).count(), std::memory_order_relaxed);
  uint64_t known = state.completed.load(std::memory_order_relaxed);
  while (known < count && !state.completed.compare_exchange_weak(known, count, std::memory_order_release)) {
  }
}

}  // namespace

std::shared_ptr<EventState> cuda_sim::own_state(EventState* state, int descriptor) {
  return {state, [descriptor](EventState* owned) {
            munmap(owned, sizeof(EventState));
            if (descriptor >= 0) close(descriptor);
          }};
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) return note(cudaErrorInvalidValue);
  const int descriptor = cuda_sim::new_memory_file(sizeof(EventState));
  if (descriptor < 0) return note(cudaErrorMemoryAllocation);
  auto* const state = static_cast<EventState*>(cuda_sim::map_file(descriptor, sizeof(EventState)));
  const bool is_shared = (flags & cudaEventInterprocess) && state != nullptr;
  if (!is_shared) close(descriptor);
  if (state == nullptr) return note(cudaErrorMemoryAllocation);
  *event = new CUevent_st;
  (*event)->state = cuda_sim::own_state(state, is_shared ? descriptor : -1);
  (*event)->flags = flags;
  (*event)->device = cuda_sim::current_device();
  (*event)->descriptor = is_shared ? descriptor : -1;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return note(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  CUstream_st* const stream = cuda_sim::resolve(handle);
  if (event == nullptr || stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard lock(cuda_sim::capture_mutex());
    event->capture = stream->capture;
    if (stream->capture != nullptr) {
      event->tips = stream->capture->lanes[stream->lane].tips;
      return cudaSuccess;
    }
  }
  const std::shared_ptr<EventState> state = event->state;
  const uint64_t count = state->recorded.fetch_add(1) + 1;
  return cuda_sim::submit(handle, [state, count] { complete(*state, count); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  const uint64_t recorded = event->state->recorded.load();
  return event->state->completed.load(std::memory_order_acquire) >= recorded ? cudaSuccess : note(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  wait_for(*event->state, event->state->recorded.load());
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if ((start->flags | end->flags) & cudaEventDisableTiming) return note(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = cudaEventQuery(start)) return error;
  if (const cudaError_t error = cudaEventQuery(end)) return error;
  *milliseconds = static_cast<float>(end->state->nanoseconds.load() - start->state->nanoseconds.load()) / 1e6F;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  CUstream_st* const stream = cuda_sim::resolve(handle);
  if (event == nullptr || stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard lock(cuda_sim::capture_mutex());
    if (event->capture != nullptr) {  // the stream joins the capture, or waits for another stream of it
      if (stream->capture != nullptr && stream->capture != event->capture) return note(cudaErrorStreamCaptureMerge);
      if (stream->capture == nullptr) {
        stream->capture = event->capture;
        stream->lane = stream->capture->lanes.size();
        stream->capture->lanes.push_back({stream, {}});
      }
      auto& tips = stream->capture->lanes[stream->lane].tips;
      tips.insert(tips.end(), event->tips.begin(), event->tips.end());
      return cudaSuccess;
    }
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      return note(cudaErrorStreamCaptureUnsupported);
    }
  }
  const std::shared_ptr<EventState> state = event->state;
  const uint64_t count = state->recorded.load();
  return cuda_sim::submit(handle, [state, count] { wait_for(*state, count); });
}
