#include "tools/gimbal_bench/device_memory.h"

namespace gimbal::bench {

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::create(size_t index, size_t area_bytes) {
  Cuda* const cuda = linked_cuda();
  if (cuda == nullptr) {
    return Status(Code::kUnsupported, "--memory cuda: this build serves host memory only; build it with GIMBAL_CUDA=ON");
  }
  RETURN_IF_ERROR(cuda->check_usable());
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(*cuda));
  ASSIGN_OR_RETURN(const int devices, cuda->device_count());
  memory->device_ = static_cast<int>(index % static_cast<size_t>(devices));
  RETURN_IF_ERROR(cuda->set_current_device(memory->device_));
  for (std::byte*& area : memory->areas_) {
    ASSIGN_OR_RETURN(void* const allocated, cuda->allocate(area_bytes));
    area = static_cast<std::byte*>(allocated);
  }
  ASSIGN_OR_RETURN(memory->stream_, cuda->create_stream());
  ASSIGN_OR_RETURN(memory->begin_, cuda->create_event(true));
  ASSIGN_OR_RETURN(memory->end_, cuda->create_event(true));
  return memory;
}

DeviceMemory::~DeviceMemory() {
  for (std::byte* const area : areas_) {
    if (area != nullptr) cuda_.free(area);
  }
  if (begin_ != nullptr) cuda_.destroy_event(begin_);
  if (end_ != nullptr) cuda_.destroy_event(end_);
  if (stream_ != nullptr) cuda_.destroy_stream(stream_);
}

Status DeviceMemory::upload(const std::array<std::byte*, 2>& host, size_t bytes) {
  for (size_t i = 0; i < areas_.size(); ++i) RETURN_IF_ERROR(cuda_.copy(areas_[i], host[i], bytes, stream_));
  return cuda_.synchronize(stream_);
}

Status DeviceMemory::download(const std::array<std::byte*, 2>& host, size_t bytes) {
  for (size_t i = 0; i < areas_.size(); ++i) RETURN_IF_ERROR(cuda_.copy(host[i], areas_[i], bytes, stream_));
  return cuda_.synchronize(stream_);
}

Result<double> DeviceMemory::time_us(const Body& body) {
  RETURN_IF_ERROR(cuda_.record(begin_, stream_));
  RETURN_IF_ERROR(body());
  RETURN_IF_ERROR(cuda_.record(end_, stream_));
  RETURN_IF_ERROR(cuda_.wait_for(end_));
  return cuda_.elapsed_us(begin_, end_);
}

Result<double> DeviceMemory::time_graph_us(const Body& body, size_t launches) {
  RETURN_IF_ERROR(cuda_.begin_capture(stream_));
  const Status captured = body();
  Result<CudaGraph> graph = cuda_.end_capture(stream_);  // also when it failed: the stream must leave the capture
  RETURN_IF_ERROR(captured);
  if (!graph.ok()) return graph.status();
  const auto launch = [&](size_t times) -> Status {
    for (size_t i = 0; i < times; ++i) RETURN_IF_ERROR(cuda_.launch(*graph, stream_));
    return {};
  };
  // The first launch uploads the graph.
  Status warm = launch(1);
  if (warm.ok()) warm = cuda_.synchronize(stream_);
  Result<double> elapsed = warm.ok() ? time_us([&] { return launch(launches); }) : Result<double>(warm);
  cuda_.destroy_graph(*graph);
  return elapsed;
}

}  // namespace gimbal::bench
