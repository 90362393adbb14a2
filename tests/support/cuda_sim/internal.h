// What the files of the simulated runtime share.
//
// Everything that is global is never destroyed: streams' threads may outlive main().
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/cuda_sim/control.h"

namespace cuda_sim {

Settings settings();
// Devices that this process sees, after CUDA_VISIBLE_DEVICES: the number that the machine has for each.
std::vector<int> visible_devices();

// Notes the error as the thread's last and returns it.
cudaError_t note(cudaError_t error);
// What every call finds first: no driver, no device, a forked child.
cudaError_t ready();
int current_device();

using Task = std::function<void()>;

// Tasks of one stream, in order, on one thread. The thread ends when the stream is closed and its tasks are done.
class Queue {
 public:
  explicit Queue(int device) : device_(device) {}
  static std::shared_ptr<Queue> start(int device);
  // Returns the number of tasks until then, with this one.
  uint64_t push(Task task);
  void close();
  void wait_for(uint64_t count);
  [[nodiscard]] uint64_t pushed();
  [[nodiscard]] bool is_idle();
  [[nodiscard]] int device() const { return device_; }

 private:
  void run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t pushed_ = 0;
  uint64_t done_ = 0;
  bool closed_ = false;
};

struct Capture;

// A node of a graph: what to do, and after which nodes. Nodes of one lane come from one stream.
struct Node {
  Task task;
  size_t lane;
  std::vector<size_t> after;
};

// Nodes in the order of their capture; the first two events of a stream that the capture reaches join it.
struct Capture {
  struct Lane {
    cudaStream_t stream;
    std::vector<size_t> tips;
  };
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalidated = false;
  std::vector<Lane> lanes;  // the first is the stream that began
  std::vector<Node> nodes;
};

// Puts a task on a stream: into its capture, if there is one. Takes the special streams and null.
cudaError_t submit(cudaStream_t stream, Task task);
// The stream that a handle means; null when it is none.
CUstream_st* resolve(cudaStream_t stream);
// Waits for all of the device's streams; of null, only those that the null stream waits for.
void drain_device(int device);
cudaError_t refuse_in_capture();  // calls that no capture of this thread allows

std::mutex& capture_mutex();  // guards all captures and what points to them

// A range of a device's or the host's memory that the runtime knows.
struct Allocation {
  char* begin;
  size_t bytes;
  cudaMemoryType type;
  int device;
  int descriptor;  // of the memory file, or -1
  bool opened;     // another process's
};
// Copies what is known of the range that holds the pointer.
bool find_allocation(const void* pointer, Allocation* found);
void add_allocation(const Allocation& allocation);
// Forgets the range that begins there, if it is of this type, and returns what it was.
bool remove_allocation(const void* begin, cudaMemoryType type, Allocation* removed);

// A memory file that another process can map: /proc/<process>/fd/<descriptor>.
struct SharedHandle {
  uint64_t magic;
  int32_t process;
  int32_t descriptor;
  uint64_t bytes;
  uint64_t offset;
  int32_t device;
};
inline constexpr uint64_t kSharedMagic = 0x63756461'5f73696dULL;
int new_memory_file(size_t bytes);
void* map_file(int descriptor, size_t bytes);
void* map_shared(const SharedHandle& handle);

}  // namespace cuda_sim

struct CUstream_st {
  std::shared_ptr<cuda_sim::Queue> queue;
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<cuda_sim::Capture> capture;  // capture_mutex()
  size_t lane = 0;
};

// How often it was recorded and how often a stream came there: one page that processes may share.
struct EventState {
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> completed;
  std::atomic<int64_t> nanoseconds;
};

namespace cuda_sim {
// Unmaps the state and closes the descriptor, when the last stream that has to come past the event is done with it.
std::shared_ptr<EventState> own_state(EventState* state, int descriptor);
}  // namespace cuda_sim

struct CUevent_st {
  std::shared_ptr<EventState> state;
  unsigned flags = 0;
  int device = 0;
  int descriptor = -1;                         // of an interprocess event
  std::shared_ptr<cuda_sim::Capture> capture;  // recorded in it last; capture_mutex()
  std::vector<size_t> tips;
};

struct CUgraph_st {
  std::vector<cuda_sim::Node> nodes;
  size_t lanes = 0;
};
