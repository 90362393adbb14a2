// Captures and the graphs that they become.
#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "tests/support/cuda_sim/internal.h"

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace cuda_sim {
namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;
// Captures that forbid calls: those of the global mode to every thread, others to their own thread only.
std::atomic<int> global_captures = 0;
thread_local int captures_of_thread = 0;
std::atomic<uint64_t> next_id = 1;

// Whether the stream that began has waited for every node of every other.
bool is_joined(const Capture& capture) {
  std::set<size_t> reached;
  std::vector<size_t> todo = capture.lanes[0].tips;
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    if (!reached.insert(node).second) continue;
    todo.insert(todo.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return reached.size() == capture.nodes.size();
}

// One replay: a thread for each lane, since kernels of two lanes may wait for one another.
class Replay {
 public:
  explicit Replay(const CUgraph_st& graph) : graph_(graph), done_(graph.nodes.size()) {}

  void run() {
    std::vector<std::thread> threads;
    threads.reserve(graph_.lanes);
    for (size_t lane = 1; lane < graph_.lanes; ++lane) threads.emplace_back([this, lane] { run_lane(lane); });
    run_lane(0);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void run_lane(size_t lane) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.lane != lane) continue;
      {
        std::unique_lock lock(mutex_);
        for (const size_t before : node.after) changed_.wait(lock, [&] { return done_[before]; });
      }
      node.task();
      const std::lock_guard lock(mutex_);
      done_[i] = true;
      changed_.notify_all();
    }
  }

  const CUgraph_st& graph_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> done_;
};

}  // namespace

std::mutex& capture_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

cudaError_t refuse_in_capture() {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const bool refused = captures_of_thread > 0 || (mode_of_thread == cudaStreamCaptureModeGlobal && global_captures > 0);
  return refused ? note(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

}  // namespace cuda_sim

using cuda_sim::note;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, cuda_sim::mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  if (stream == nullptr || stream == cudaStreamLegacy) return note(cudaErrorStreamCaptureUnsupported);
  CUstream_st* const own = cuda_sim::resolve(stream);
  if (own == nullptr) return note(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(cuda_sim::capture_mutex());
  if (own->capture != nullptr) return note(cudaErrorInvalidValue);
  own->capture = std::make_shared<cuda_sim::Capture>();
  own->capture->id = cuda_sim::next_id++;
  own->capture->mode = mode;
  own->capture->lanes.push_back({own, {}});
  own->lane = 0;
  if (mode == cudaStreamCaptureModeGlobal) ++cuda_sim::global_captures;
  if (mode != cudaStreamCaptureModeRelaxed) ++cuda_sim::captures_of_thread;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  CUstream_st* const own = cuda_sim::resolve(stream);
  if (own == nullptr) return note(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(cuda_sim::capture_mutex());
  const auto capture = own->capture;
  if (capture == nullptr) return note(cudaErrorInvalidValue);
  if (own->lane != 0) return note(cudaErrorStreamCaptureUnmatched);
  for (const auto& lane : capture->lanes) lane.stream->capture = nullptr;
  if (capture->mode == cudaStreamCaptureModeGlobal) --cuda_sim::global_captures;
  if (capture->mode != cudaStreamCaptureModeRelaxed) --cuda_sim::captures_of_thread;
  if (capture->invalidated) return note(cudaErrorStreamCaptureInvalidated);
  if (!cuda_sim::is_joined(*capture)) return note(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{capture->nodes, capture->lanes.size()};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  const CUstream_st* const own = cuda_sim::resolve(stream);
  if (own == nullptr) return note(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(cuda_sim::capture_mutex());
  *status = cudaStreamCaptureStatusNone;
  if (own->capture == nullptr) return cudaSuccess;
  *status = own->capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  if (id != nullptr) *id = own->capture->id;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (graph == nullptr) return note(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = cuda_sim::ready()) return error;
  return cuda_sim::submit(stream, [graph = exec->graph] { cuda_sim::Replay(*graph).run(); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
