// Launches: a block begins when its device has room for it, blocks of an earlier launch first.
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/cuda_sim/block.h"
#include "tests/support/cuda_sim/internal.h"

namespace cuda_sim {
namespace {

constexpr unsigned kMostThreads = 1024;

// The blocks of a device that may run at once. Who came first is served first.
class Room {
 public:
  void enter(size_t blocks) {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = next_ticket_++;
    changed_.wait(lock, [&] { return serving_ == ticket && used_ < blocks; });
    ++used_;
    ++serving_;
    changed_.notify_all();
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --used_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
  size_t used_ = 0;
};

Room& room_of(int device) {
  static auto* const mutex = new std::mutex;
  static auto* const rooms = new std::map<int, Room>;
  const std::lock_guard lock(*mutex);
  return (*rooms)[device];
}

std::atomic<uint64_t> launches = 0;

void run_grid(const std::function<void()>& body, dim3 grid, dim3 block, int device) {
  const Settings known = settings();
  const uint64_t seed = known.seed == 0 ? 0 : known.seed + 1000 * ++launches;
  const size_t room = static_cast<size_t>(known.multiprocessors) * static_cast<size_t>(known.blocks_per_multiprocessor);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < grid.x * grid.y * grid.z; ++i) {
    const ThreadPlace first{{}, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y}, block, grid};
    room_of(device).enter(room);
    threads.emplace_back([&body, first, seed, i, device] {
      run_block(body, first, seed == 0 ? 0 : seed + i);
      room_of(device).leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

cudaError_t launch(std::function<void()> body, dim3 grid, dim3 block, cudaStream_t handle) {
  if (const cudaError_t error = ready()) return error;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || uint64_t{grid.x} * grid.y * grid.z == 0) {
    return note(cudaErrorInvalidConfiguration);
  }
  const CUstream_st* const stream = resolve(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  // CUDA refuses a stream of another device than the current one.
  if (stream->device != current_device()) return note(cudaErrorInvalidResourceHandle);
  const int device = stream->device;
  return submit(handle, [body = std::move(body), grid, block, device] { run_grid(body, grid, block, device); });
}

cudaError_t blocks_per_multiprocessor(int* count, int threads) {
  if (const cudaError_t error = ready()) return error;
  if (threads <= 0 || static_cast<unsigned>(threads) > kMostThreads) return note(cudaErrorInvalidConfiguration);
  *count = settings().blocks_per_multiprocessor;
  return cudaSuccess;
}

}  // namespace cuda_sim
