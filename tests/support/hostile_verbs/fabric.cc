#include "tests/support/hostile_verbs/fabric.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include "base/hash.h"

namespace gimbal::hostile {

struct FabricMemory {
  std::atomic<uint32_t> processes;
  std::atomic<uint32_t> adapters;
  std::atomic<uint32_t> queue_pairs;
  std::array<std::atomic<uint64_t>, kMostHosts> host_names;  // their hashes
  std::array<std::array<std::array<std::atomic<bool>, kPortsPerDevice>, kMostDevices>, kMostHosts> cut;
  std::array<AdapterRecord, kMostAdapters> adapter_records;
  alignas(4096) std::array<QueuePairRecord, kMostQueuePairs> queue_pair_records;
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Counts up to `most`; false beyond.
bool take_next(std::atomic<uint32_t>& counter, size_t most, uint32_t& taken) {
  taken = counter.fetch_add(1, std::memory_order_relaxed);
  if (taken < most) return true;
  errno = ENOMEM;
  return false;
}

// A record lock on the byte of a process: the kernel takes it back when the process ends, while a process id stays until the
// parent asks, and may be another's afterwards. A forked child does not inherit it.
struct flock lock_of(uint32_t process) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = process;
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::shared_ptr<Fabric> Fabric::join() {
  static std::mutex mutex;
  static std::weak_ptr<Fabric> joined;
  const std::lock_guard<std::mutex> guard(mutex);
  if (auto fabric = joined.lock()) return fabric;
  std::shared_ptr<Fabric> fabric(new Fabric());
  if (!fabric->map() || !fabric->register_process() || !fabric->register_host()) return nullptr;
  joined = fabric;
  return fabric;
}

bool Fabric::map() {
  const char* const path = std::getenv("HOSTILE_VERBS_FABRIC");
  file_ = FileDescriptor(path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : memfd_create("hostile_verbs", MFD_CLOEXEC));
  // All processes set the same size; what is never touched takes no memory.
  if (!file_.valid() || ftruncate(file_.get(), sizeof(FabricMemory)) != 0) return false;
  void* const memory = mmap(nullptr, sizeof(FabricMemory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<FabricMemory*>(memory);
  return true;
}

Fabric::~Fabric() {
  if (memory_ != nullptr) munmap(memory_, sizeof(FabricMemory));
}

bool Fabric::register_process() {
  if (!take_next(memory_->processes, kMostProcesses, process_)) return false;
  struct flock lock = lock_of(process_);
  return fcntl(file_.get(), F_SETLK, &lock) == 0;
}

bool Fabric::is_alive(uint32_t process) const {
  if (process == process_) return true;
  struct flock lock = lock_of(process);
  return fcntl(file_.get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Fabric::register_host() {
  struct utsname names = {};
  if (uname(&names) != 0) return false;
  const uint64_t hash = hash_text(names.nodename);
  for (size_t i = 0; i < kMostHosts; ++i) {
    uint64_t found = 0;
    if (memory_->host_names[i].compare_exchange_strong(found, hash) || found == hash) {
      host_ = static_cast<uint8_t>(i + 1);
      return true;
    }
  }
  errno = ENOMEM;
  return false;
}

bool Fabric::add_adapter(uint32_t& adapter) { return take_next(memory_->adapters, kMostAdapters, adapter); }

bool Fabric::add_queue_pair(uint32_t& qp_number) {
  uint32_t index = 0;
  if (!take_next(memory_->queue_pairs, kMostQueuePairs, index)) return false;
  qp_number = kFirstQpNumber + index;
  return true;
}

void Fabric::ring(uint32_t adapter) {
  std::atomic<uint32_t>& doorbell = memory_->adapter_records[adapter].doorbell;
  // Release only: whoever rings learns nothing of what the adapter has done.
  doorbell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Fabric::ring_all() {
  const uint32_t adapters = std::min<uint32_t>(memory_->adapters.load(std::memory_order_relaxed), kMostAdapters);
  for (uint32_t adapter = 0; adapter < adapters; ++adapter) ring(adapter);
}

uint32_t Fabric::doorbell(uint32_t adapter) const {
  return memory_->adapter_records[adapter].doorbell.load(std::memory_order_acquire);
}

void Fabric::sleep(uint32_t adapter, uint32_t seen, int64_t timeout_ns) {
  const timespec timeout = {timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  syscall(SYS_futex, &memory_->adapter_records[adapter].doorbell, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

bool Fabric::has_link(const PortAddress& port) const {
  const bool plugged = port.host != 0 && !(port.device == 1 && port.port == 2);
  return plugged && !memory_->cut[port.host - 1][port.device][port.port - 1].load(std::memory_order_acquire);
}

void Fabric::cut_link(const PortAddress& port) {
  memory_->cut[port.host - 1][port.device][port.port - 1].store(true, std::memory_order_release);
  ring_all();
}

QueuePairRecord* Fabric::queue_pair(uint32_t qp_number) const {
  const uint32_t made = std::min<uint32_t>(memory_->queue_pairs.load(std::memory_order_acquire), kMostQueuePairs);
  if (qp_number < kFirstQpNumber || qp_number - kFirstQpNumber >= made) return nullptr;
  return &memory_->queue_pair_records[qp_number - kFirstQpNumber];
}

}  // namespace gimbal::hostile
