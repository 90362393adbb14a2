#include "runtime/cuda/native_setup.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/environment.h"
#include "base/process_registry.h"
#include "runtime/communicator.h"

namespace gimbal {
namespace {

constexpr size_t kObstacleBytes = 512;
constexpr size_t kAlignment = 256;  // of parts of an allocation, as cudaMalloc's

template <size_t kSize>
void copy_text(const std::string& from, char (&to)[kSize]) {
  from.copy(to, kSize - 1);
}

// Process ids are not unique across containers that share a device.
struct ProcessNumber {
  uint64_t value = 0;
  ProcessNumber() {
    if (getrandom(&value, sizeof(value), 0) != sizeof(value)) value = reinterpret_cast<uintptr_t>(this);
  }
};

std::string registry_key(uint64_t pointer) { return "cuda-packets-" + std::to_string(pointer); }

}  // namespace

// Fixed size, so that all ranks' make one all-gather.
struct NativeSetup::Record {
  uint64_t process;
  uint64_t pointer;  // of the allocation, in that process
  CudaIpcHandle handle;
  int32_t device;
  uint32_t has_mps;
  uint64_t resident_blocks;
  char bus_id[32];
  char obstacle[kObstacleBytes];  // empty: none
};

struct NativeSetup::Verdict {
  char obstacle[kObstacleBytes];
};

Result<std::shared_ptr<PacketMemory>> PacketMemory::create(Cuda& cuda, size_t bytes) {
  std::shared_ptr<PacketMemory> memory(new PacketMemory(cuda));
  ASSIGN_OR_RETURN(memory->memory_, cuda.allocate(kStateBytes + bytes));
  // On a stream of its own: the legacy default stream would wait for the caller's.
  ASSIGN_OR_RETURN(const CudaStream stream, cuda.create_stream());
  Status status = cuda.set_bytes(memory->memory_, 0, kStateBytes + bytes, stream);
  if (status.ok()) status = cuda.synchronize(stream);
  cuda.destroy_stream(stream);
  RETURN_IF_ERROR(status);
  return memory;
}

PacketMemory::~PacketMemory() {
  if (memory_ != nullptr) cuda_.free(memory_);
}

NativeSetup::NativeSetup(Communicator& communicator, Cuda& cuda, int device)
    : communicator_(communicator), cuda_(cuda), kernels_(linked_device_kernels()), device_(device) {}

NativeSetup::~NativeSetup() {
  for (void* const pointer : imported_) cuda_.close_imported(pointer);
  if (report_ != nullptr) cuda_.free_pinned(report_);
  if (uploads_ != nullptr) cuda_.destroy_stream(uploads_);
}

// A model of a node of GPUs: a hop takes 2.5 us, a link moves 350 GB/s; one-shot sends n - 1 times the message over it,
// two-shot 2 (n - 1) / n times and takes a hop more. Two GPUs always take one shot.
size_t NativeSetup::one_shot_limit(Rank nranks) {
  constexpr double kBytesPerHop = 2.5e-6 * 350e9;
  const double saved = (nranks - 1) - 2.0 * (nranks - 1) / nranks;
  return saved <= 0 ? kMostBytes : std::min(kMostBytes, static_cast<size_t>(kBytesPerHop / saved));
}

std::string NativeSetup::find_obstacle() {
  const std::string path = read_environment("GIMBAL_CUDA_PATH").value_or("auto");
  is_forced_ = path == "native";
  if (path == "staged") return "GIMBAL_CUDA_PATH=staged";
  if (path != "auto" && path != "native") return "GIMBAL_CUDA_PATH: \"" + path + "\" is not one of auto, staged, native";
  if (kernels_ == nullptr) return "this build has no kernels for devices";
  if (communicator_.size() > device::kMaxNativeRanks) {
    return std::to_string(communicator_.size()) + " ranks are more than the " + std::to_string(device::kMaxNativeRanks) +
           " that one kernel serves";
  }
  if (communicator_.spans_nodes()) return "the ranks are on several nodes";
  if (communicator_.settings().deterministic) return "deterministic sums are the host's";
  if (communicator_.settings().algorithms.contains(Collective::kAllReduce)) return "the algorithm is forced";
  return "";
}

Status NativeSetup::take_own_memory(Record& mine) {
  ASSIGN_OR_RETURN(const std::string bus_id, cuda_.bus_id(device_));
  copy_text(bus_id, mine.bus_id);
  mine.process = ProcessRegistry::instance().permanent<ProcessNumber>("cuda-process").value;
  mine.device = device_;
  mine.has_mps = cuda_.is_shared_by_processes(device_) ? 1 : 0;
  ASSIGN_OR_RETURN(mine.resident_blocks, kernels_->load());
  ASSIGN_OR_RETURN(void* const pinned, cuda_.allocate_pinned(sizeof(device::DeviceReport)));
  report_ = new (pinned) device::DeviceReport();
  const Rank nranks = communicator_.size();
  const size_t half_bytes = (kernels_->packet_memory_bytes(nranks, one_shot_limit(nranks), kMostBytes) / 2 + kAlignment - 1) /
                            kAlignment * kAlignment;
  layout_ = {.nranks = nranks, .channels = kChannels, .slot_count = kSlots, .slot_bytes = kSlotBytes};
  ASSIGN_OR_RETURN(uploads_, cuda_.create_stream());
  ASSIGN_OR_RETURN(own_, PacketMemory::create(cuda_, 2 * half_bytes + layout_.region_bytes()));
  mine.pointer = reinterpret_cast<uintptr_t>(own_->allocation());
  RETURN_IF_ERROR(ProcessRegistry::instance().find_or_create<PacketMemory>(
      registry_key(mine.pointer), [&]() -> Result<std::shared_ptr<PacketMemory>> { return own_; }));
  arguments_.rank = communicator_.rank();
  arguments_.nranks = nranks;
  arguments_.half_bytes = half_bytes;
  arguments_.watch = {own_->state(), report_, static_cast<uint64_t>(communicator_.settings().timeout_ms) * 1'000'000};
  arguments_.packets[static_cast<size_t>(arguments_.rank)] = own_->packets();
  // Ranks that are threads need no handle, and some machines give none.
  const Result<CudaIpcHandle> handle = cuda_.export_memory(own_->allocation());
  if (handle.ok()) mine.handle = *handle;
  return {};
}

Status NativeSetup::begin() {
  Record mine = {};
  std::string obstacle = find_obstacle();
  if (obstacle.empty()) obstacle = take_own_memory(mine).message();
  copy_text(obstacle, mine.obstacle);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&mine, 1));
  return exchange({bytes.begin(), bytes.end()});
}

Status NativeSetup::exchange(std::vector<std::byte> mine) {
  sent_ = std::move(mine);
  received_.assign(sent_.size() * static_cast<size_t>(communicator_.size()), std::byte{0});
  Call call;
  call.collective = Collective::kAllGather;
  call.count = sent_.size();
  call.send = sent_.data();
  call.recv = received_.data();
  ASSIGN_OR_RETURN(exchange_, communicator_.started().start(call));
  return {};
}

Status NativeSetup::finish_exchange() {
  if (!exchange_->done()) communicator_.started().wait(*exchange_);
  return exchange_->status();
}

Status NativeSetup::advance() {
  RETURN_IF_ERROR(finish_exchange());
  return ++exchanges_ == 1 ? read_records() : read_verdicts();
}

Status NativeSetup::read_records() {
  std::vector<Record> records(static_cast<size_t>(communicator_.size()));
  std::memcpy(records.data(), received_.data(), received_.size());
  const Record& mine = records[static_cast<size_t>(communicator_.rank())];
  Verdict verdict = {};
  for (const Record& record : records) {
    if (obstacle_.empty() && record.obstacle[0] != '\0')
      obstacle_.assign(record.obstacle, strnlen(record.obstacle, kObstacleBytes - 1));
  }
  if (obstacle_.empty()) count_blocks(records);
  for (Rank peer = 0; peer < communicator_.size() && obstacle_.empty(); ++peer) {
    if (peer != communicator_.rank()) obstacle_ = reach(peer, mine, records[static_cast<size_t>(peer)]).message();
  }
  if (obstacle_.empty()) obstacle_ = lay_links().message();
  copy_text(obstacle_, verdict.obstacle);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&verdict, 1));
  return exchange({bytes.begin(), bytes.end()});
}

// Blocks that wait must all be resident at once: those of all ranks that share the device.
void NativeSetup::count_blocks(const std::vector<Record>& records) {
  for (const Record& one : records) {
    const auto shares_device = [&](const Record& other) {
      return std::strncmp(one.bus_id, other.bus_id, sizeof(one.bus_id)) == 0;
    };
    const auto in_other_process = [&](const Record& other) { return shares_device(other) && other.process != one.process; };
    if (one.has_mps == 0 && std::any_of(records.begin(), records.end(), in_other_process)) {
      obstacle_ = std::string("processes share the device at ") + one.bus_id +
                  " without MPS, and so take turns on it: kernels would wait for kernels that do not run";
      return;
    }
    const auto sharers = static_cast<size_t>(std::count_if(records.begin(), records.end(), shares_device));
    const size_t blocks = one.resident_blocks / sharers;
    if (blocks == 0) {
      obstacle_ = std::string("the device at ") + one.bus_id + " holds " + std::to_string(one.resident_blocks) +
                  " waiting blocks at a time: at most " + std::to_string(one.resident_blocks) + " ranks fit, and " +
                  std::to_string(sharers) + " share it";
      return;
    }
    most_blocks_ = most_blocks_ == 0 ? blocks : std::min(most_blocks_, blocks);
  }
}

Status NativeSetup::reach(Rank peer, const Record& mine, const Record& theirs) {
  const auto place = static_cast<size_t>(peer);
  if (theirs.process == mine.process) {
    if (theirs.device != device_) RETURN_IF_ERROR(cuda_.enable_peer_access(theirs.device));
    ASSIGN_OR_RETURN(std::shared_ptr<PacketMemory> memory,
                     ProcessRegistry::instance().find_or_create<PacketMemory>(
                         registry_key(theirs.pointer), []() -> Result<std::shared_ptr<PacketMemory>> {
                           return Status(Code::kRemote, "a rank of this process has ended");
                         }));
    arguments_.packets[place] = memory->packets();
    of_threads_.push_back(std::move(memory));
    return {};
  }
  Result<void*> imported = cuda_.import_memory(theirs.handle);
  if (!imported.ok()) {
    return {Code::kDevice, "memory of rank " + std::to_string(peer) + " cannot be mapped here (" + imported.status().message() +
                               "); containers need --ipc=host and the same devices"};
  }
  imported_.push_back(*imported);
  arguments_.packets[place] = static_cast<std::byte*>(*imported) + PacketMemory::kStateBytes;
  return {};
}

Status NativeSetup::upload(void* to, const void* from, size_t bytes) const {
  RETURN_IF_ERROR(cuda_.copy(to, from, bytes, uploads_));
  return cuda_.synchronize(uploads_);
}

Status NativeSetup::lay_links() {
  std::array<std::byte*, device::kMaxNativeRanks> regions = {};
  for (Rank rank = 0; rank < layout_.nranks; ++rank) regions[static_cast<size_t>(rank)] = region(rank);
  const std::vector<device::DeviceLink> links = make_links(layout_, arguments_.rank, regions);
  return upload(region(arguments_.rank) + layout_.tables_at(), links.data(), links.size() * sizeof(links[0]));
}

Status NativeSetup::read_verdicts() {
  std::vector<Verdict> verdicts(static_cast<size_t>(communicator_.size()));
  std::memcpy(verdicts.data(), received_.data(), received_.size());
  std::string first;
  for (const Verdict& verdict : verdicts) {
    if (first.empty()) first.assign(verdict.obstacle, strnlen(verdict.obstacle, kObstacleBytes - 1));
  }
  obstacle_ = std::move(first);
  is_done_ = true;
  exchange_.reset();
  if (obstacle_.empty()) return {};
  // Nothing is given back before the end: freeing would wait for streams that wait for this rank's next call.
  if (is_forced_) return {Code::kUnsupported, "GIMBAL_CUDA_PATH=native, but " + obstacle_};
  const std::string text = "calls on device memory go by way of the host: " + obstacle_;
  if (own_ != nullptr && communicator_.settings().strict) return {Code::kUnsupported, "GIMBAL_STRICT=1: " + text};
  // What the user chose or the job is no warning; what the machine refuses is, and one rank says it.
  if (own_ != nullptr && communicator_.rank() == 0) {
    communicator_.log().warning(text);
  } else {
    communicator_.log().info(text);
  }
  return {};
}

void NativeSetup::abort() const {
  if (report_ != nullptr) std::atomic_ref<uint32_t>(report_->abort).store(1, std::memory_order_release);
}

bool NativeSetup::has_mismatch() const {
  if (report_ == nullptr) return false;
  const uint32_t error = std::atomic_ref<uint32_t>(report_->error).load(std::memory_order_acquire);
  return static_cast<device::DeviceError>(error) == device::DeviceError::kMismatch;
}

Status NativeSetup::report() const {
  if (report_ == nullptr) return {};
  const auto error =
      static_cast<device::DeviceError>(std::atomic_ref<uint32_t>(report_->error).load(std::memory_order_acquire));
  if (error <= device::DeviceError::kClaimed) [[likely]]
    return {};
  const std::string peer = "rank " + std::to_string(report_->peer);
  switch (error) {
    case device::DeviceError::kNone:
    case device::DeviceError::kClaimed:
      return {};
    case device::DeviceError::kAborted:
      return {Code::kAborted, "the kernel that waited for " + peer + " was aborted"};
    case device::DeviceError::kTimeout:
      return {Code::kTimeout, "the kernel waited " + std::to_string(communicator_.settings().timeout_ms) + " ms for " + peer};
    case device::DeviceError::kMismatch:
      return {Code::kMismatch, peer + " has launched another call: another collective, count, type, operation or root"};
    case device::DeviceError::kUnsupported:
      return {Code::kInternal, "the kernel does not know its operation"};
  }
  return {};
}

}  // namespace gimbal
