// A stream's thread, and how CUDA's null stream waits for the others.
#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "tests/support/cuda_sim/internal.h"

namespace cuda_sim {
namespace {

// All open streams; those of each device's null stream, and of each thread's own stream.
struct Streams {
  std::mutex mutex;
  std::vector<CUstream_st*> open;
  std::map<int, CUstream_st*> null_streams;
};
Streams& streams() {
  static auto* const instance = new Streams;
  return *instance;
}

CUstream_st* make_stream(int device, unsigned flags) {
  auto* const stream = new CUstream_st;
  stream->device = device;
  stream->flags = flags;
  stream->queue = Queue::start(device);
  return stream;
}

CUstream_st* null_stream(int device) {
  const std::lock_guard lock(streams().mutex);
  CUstream_st*& stream = streams().null_streams[device];
  if (stream == nullptr) stream = make_stream(device, cudaStreamDefault);
  return stream;
}

CUstream_st* stream_of_thread() {
  thread_local std::map<int, CUstream_st*> own;
  CUstream_st*& stream = own[current_device()];
  if (stream == nullptr) cudaStreamCreate(&stream);
  return stream;
}

bool is_null_stream(const CUstream_st* stream) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().null_streams.find(stream->device);
  return found != streams().null_streams.end() && found->second == stream;
}

// What a new task of a blocking stream waits for: the null stream, or of the null stream all others.
std::vector<std::pair<std::shared_ptr<Queue>, uint64_t>> tasks_before(const CUstream_st* stream) {
  std::vector<std::pair<std::shared_ptr<Queue>, uint64_t>> before;
  if (stream->flags & cudaStreamNonBlocking) return before;
  const bool is_null = is_null_stream(stream);
  const std::lock_guard lock(streams().mutex);
  if (!is_null) {
    const auto found = streams().null_streams.find(stream->device);
    if (found != streams().null_streams.end()) before.emplace_back(found->second->queue, found->second->queue->pushed());
    return before;
  }
  for (const CUstream_st* other : streams().open) {
    const bool blocks = other->device == stream->device && !(other->flags & cudaStreamNonBlocking);
    if (blocks) before.emplace_back(other->queue, other->queue->pushed());
  }
  return before;
}

void push_in_order(CUstream_st* stream, Task task) {
  auto before = tasks_before(stream);
  if (!before.empty()) {
    stream->queue->push([before = std::move(before)] {
      for (const auto& [queue, count] : before) queue->wait_for(count);
    });
  }
  stream->queue->push(std::move(task));
}

}  // namespace

std::shared_ptr<Queue> Queue::start(int device) {
  auto queue = std::make_shared<Queue>(device);
  std::thread([queue] { queue->run(); }).detach();
  return queue;
}

uint64_t Queue::push(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  return ++pushed_;
}

void Queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Queue::wait_for(uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= count; });
}

uint64_t Queue::pushed() {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

bool Queue::is_idle() {
  const std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !tasks_.empty() || closed_; });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

CUstream_st* resolve(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) return null_stream(current_device());
  if (stream == cudaStreamPerThread) return stream_of_thread();
  const std::lock_guard lock(streams().mutex);
  const bool is_open = std::find(streams().open.begin(), streams().open.end(), stream) != streams().open.end();
  if (is_open) return stream;
  const auto& null_streams = streams().null_streams;
  const bool is_null =
      std::any_of(null_streams.begin(), null_streams.end(), [&](const auto& entry) { return entry.second == stream; });
  return is_null ? stream : nullptr;
}

cudaError_t submit(cudaStream_t handle, Task task) {
  CUstream_st* const stream = resolve(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard lock(capture_mutex());
    if (const auto& capture = stream->capture) {
      if (capture->invalidated) return note(cudaErrorStreamCaptureInvalidated);
      Capture::Lane& lane = capture->lanes[stream->lane];
      capture->nodes.push_back({std::move(task), stream->lane, std::move(lane.tips)});
      lane.tips = {capture->nodes.size() - 1};
      return cudaSuccess;
    }
  }
  push_in_order(stream, std::move(task));
  return cudaSuccess;
}

void drain_device(int device) {
  std::vector<std::pair<std::shared_ptr<Queue>, uint64_t>> before;
  {
    const std::lock_guard lock(streams().mutex);
    for (const CUstream_st* one : streams().open) {
      if (one->device == device) before.emplace_back(one->queue, one->queue->pushed());
    }
    const auto found = streams().null_streams.find(device);
    if (found != streams().null_streams.end()) before.emplace_back(found->second->queue, found->second->queue->pushed());
  }
  for (const auto& [queue, count] : before) queue->wait_for(count);
}

}  // namespace cuda_sim

using cuda_sim::note;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  *stream = cuda_sim::make_stream(cuda_sim::current_device(), flags);
  const std::lock_guard lock(cuda_sim::streams().mutex);
  cuda_sim::streams().open.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

// What it holds is still done.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(cuda_sim::streams().mutex);
    auto& open = cuda_sim::streams().open;
    const auto found = std::find(open.begin(), open.end(), stream);
    if (found == open.end()) return note(cudaErrorInvalidResourceHandle);
    open.erase(found);
  }
  stream->queue->close();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  const CUstream_st* const stream = cuda_sim::resolve(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  *device = stream->device;
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  const CUstream_st* const stream = cuda_sim::resolve(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  *flags = stream->flags;
  return cudaSuccess;
}

namespace {

// The stream of a call that asks what it has done, which a capture does not allow.
cudaError_t find_running(cudaStream_t handle, CUstream_st** stream) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  *stream = cuda_sim::resolve(handle);
  if (*stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(cuda_sim::capture_mutex());
  if ((*stream)->capture == nullptr) return cudaSuccess;
  (*stream)->capture->invalidated = true;
  return note(cudaErrorStreamCaptureUnsupported);
}

}  // namespace

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t error = find_running(handle, &stream)) return error;
  stream->queue->wait_for(stream->queue->pushed());
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st* stream = nullptr;
  if (const cudaError_t error = find_running(handle, &stream)) return error;
  return stream->queue->is_idle() ? cudaSuccess : note(cudaErrorNotReady);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  return cuda_sim::submit(stream, [=] { function(argument); });
}
