// What the ranks of a communicator tell each other once, so that a kernel of each reaches the memory of all: who is in which
// process, on which device, and where its packet memory and its ends of the interpreters' links are.
//
// Every rank makes the same two exchanges at its first collective on device memory, by started operations like any other; they
// end alike on all: with kernels for everybody, or with the first rank's obstacle for everybody, and all calls then go by way
// of the host.
//
// Used by the communicator's caller; abort word and report by any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/cuda.h"
#include "kernels/device_kernels.h"
#include "runtime/cuda/link_layout.h"
#include "runtime/started_operations.h"

namespace gimbal {

// A rank's packet memory, its ends of the links, and its kernels' state. Ranks of one process hold each other's: a peer's
// kernel may write to it as long as the peer's communicator is there.
class PacketMemory {
 public:
  static Result<std::shared_ptr<PacketMemory>> create(Cuda& cuda, size_t bytes);
  ~PacketMemory();
  PacketMemory(const PacketMemory&) = delete;
  PacketMemory& operator=(const PacketMemory&) = delete;

  [[nodiscard]] std::byte* packets() const { return static_cast<std::byte*>(memory_) + kStateBytes; }
  [[nodiscard]] device::DeviceState* state() const { return static_cast<device::DeviceState*>(memory_); }
  [[nodiscard]] void* allocation() const { return memory_; }
  static constexpr size_t kStateBytes = 256;  // of the allocation, before the packets

 private:
  explicit PacketMemory(Cuda& cuda) : cuda_(cuda) {}
  Cuda& cuda_;
  void* memory_ = nullptr;
};

class NativeSetup {
 public:
  // Of an all-reduce without a schedule: above it bandwidth counts, and packets are twice the data (docs/cuda.md).
  static constexpr size_t kMostBytes = size_t{256} << 10;
  // Of the interpreters' links: a block for each channel, and slots for a plan whose ranks do not move in step. How many a
  // device wants is a measurement that is still to be made.
  static constexpr uint8_t kChannels = 4;
  static constexpr uint32_t kSlots = 8;
  static constexpr size_t kSlotBytes = size_t{32} << 10;

  // The device is current.
  NativeSetup(Communicator& communicator, Cuda& cuda, int device);
  ~NativeSetup();
  NativeSetup(const NativeSetup&) = delete;
  NativeSetup& operator=(const NativeSetup&) = delete;

  // Begins the first exchange; then each advance() waits for one and begins the next.
  Status begin();
  Status advance();
  [[nodiscard]] bool has_begun() const { return exchange_ != nullptr || is_done_; }
  [[nodiscard]] bool is_done() const { return is_done_; }
  // Once done: whether the kernels can be used.
  [[nodiscard]] bool is_native() const { return is_done_ && obstacle_.empty(); }

  // Once native: arguments of this rank's kernels but for the call's, and how many blocks one launch may have.
  [[nodiscard]] const device::NativeArguments& arguments() const { return arguments_; }
  [[nodiscard]] size_t most_blocks() const { return most_blocks_; }
  static size_t one_shot_limit(Rank nranks);
  [[nodiscard]] const LinkLayout& links() const { return layout_; }
  // On the device, by peer and channel.
  [[nodiscard]] const device::DeviceLink* outgoing_links() const { return tables(); }
  [[nodiscard]] const device::DeviceLink* incoming_links() const { return tables() + layout_.links(); }
  // To the device; waits for nothing else than the copy.
  Status upload(void* to, const void* from, size_t bytes) const;

  // Kernels under way and later ones return at once.
  void abort() const;
  // What a kernel has reported; OK while none has.
  [[nodiscard]] Status report() const;
  [[nodiscard]] bool has_mismatch() const;

 private:
  struct Record;
  struct Verdict;

  [[nodiscard]] std::string find_obstacle();
  Status take_own_memory(Record& mine);
  Status exchange(std::vector<std::byte> mine);
  Status finish_exchange();
  Status read_records();
  Status read_verdicts();
  void count_blocks(const std::vector<Record>& records);
  Status reach(Rank peer, const Record& mine, const Record& theirs);
  Status lay_links();
  // A rank's part of the links, as this rank reaches it.
  [[nodiscard]] std::byte* region(Rank rank) const {
    return arguments_.packets[static_cast<size_t>(rank)] + 2 * arguments_.half_bytes;
  }
  [[nodiscard]] const device::DeviceLink* tables() const {
    return reinterpret_cast<const device::DeviceLink*>(region(arguments_.rank) + layout_.tables_at());
  }

  Communicator& communicator_;
  Cuda& cuda_;
  DeviceKernels* const kernels_;
  const int device_;
  device::DeviceReport* report_ = nullptr;  // pinned
  CudaStream uploads_ = nullptr;
  LinkLayout layout_;
  std::shared_ptr<PacketMemory> own_;
  std::vector<std::shared_ptr<PacketMemory>> of_threads_;
  std::vector<void*> imported_;

  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  std::shared_ptr<Request> exchange_;
  int exchanges_ = 0;
  bool is_done_ = false;
  bool is_forced_ = false;  // GIMBAL_CUDA_PATH=native
  std::string obstacle_;
  size_t most_blocks_ = 0;
  device::NativeArguments arguments_ = {};
};

}  // namespace gimbal
