// Buckets that travel in a smaller type and are added in float32.
//
// Each block of 256 elements has an owner, the rank that its number gives. Every rank encodes its blocks and sends each to its
// owner (all_to_all); the owner adds them in the order of ranks, encodes the result once more, and all gather it. So a result
// is the same on every rank, and depends neither on the size of buckets nor on their order. Compared with an all-reduce of
// float32 it moves the same blocks over the same number of hops in fewer bytes.
//
// With an 8-bit type each rank keeps what encoding lost of its own blocks, and the owner also what encoding the sum lost, and
// adds it to the next step's gradient: the sum over steps is right but for the last step's loss.
#pragma once

#include <array>
#include <memory>

#include "gimbal/gimbal.h"
#include "gradsync/bucket_reducer.h"
#include "gradsync/levels.h"
#include "gradsync/wire_blocks.h"

namespace gimbal::gradsync {

class WireReducer final : public BucketReducer {
 public:
  // Collective. between_nodes: within a node gradients stay as they are. The parameters and the layout must outlive it.
  static Result<std::unique_ptr<WireReducer>> create(gimbal_comm_t comm, gimbal_gradsync_wire_t wire, bool between_nodes,
                                                     std::span<const Parameter> parameters, const Layout& layout);
  ~WireReducer() override;

  [[nodiscard]] bool takes(DType dtype) const override { return is_compressed_by(wire_, dtype); }
  Status reduce(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder) override;
  std::vector<StateSection> state() override;
  [[nodiscard]] uint64_t sent_bytes() const override { return sent_bytes_; }
  void abort() override;

 private:
  // Blocks that follow each other in memory.
  struct Blocks {
    DType dtype;
    std::byte* memory;
    size_t first;
    size_t count;
    uint32_t track;  // of their bucket
  };
  // What a chunk under way needs.
  struct Lane {
    std::byte* send = nullptr;      // [ranks][slots] blocks: for each owner its own
    std::byte* received = nullptr;  // [ranks][slots]: of each rank, the blocks that this rank owns
    std::byte* owned = nullptr;     // [slots]: their sums
    std::byte* gathered = nullptr;  // [ranks][slots]: all owners' sums
    gimbal_request_t scatter = nullptr;
    gimbal_request_t gather = nullptr;
    Blocks chunk = {};
    size_t slots = 0;
  };
  static constexpr size_t kLanes = 3;

  WireReducer(gimbal_comm_t comm, gimbal_gradsync_wire_t wire, std::span<const Parameter> parameters, const Layout& layout)
      : comm_(comm), wire_(wire), block_bytes_(block_bytes(wire)), parameters_(parameters), layout_(layout) {}
  Status allocate();
  Status reduce_levels(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder);
  Status reduce_blocks(const Blocks& blocks, const Share& share, Recorder& recorder);
  Status scatter(const Blocks& chunk, const Share& share, Lane& lane, Recorder& recorder);
  Status combine(const Share& share, Lane& lane, Recorder& recorder);
  Status store(Lane& lane, Recorder& recorder);
  // Where a block lies among its owner's, and in an array of [ranks][slots] blocks.
  [[nodiscard]] size_t slot_of(const Lane& lane, size_t block) const { return block / ranks_ - lane.chunk.first / ranks_; }
  [[nodiscard]] size_t place_of(const Lane& lane, size_t block) const {
    return ((block % ranks_) * lane.slots + slot_of(lane, block)) * block_bytes_;
  }
  [[nodiscard]] float* error_of(size_t block) { return error_.empty() ? nullptr : error_.data() + block * kBlockElements; }

  gimbal_comm_t comm_;  // the one over which blocks are exchanged
  gimbal_gradsync_wire_t wire_;
  size_t block_bytes_;
  std::span<const Parameter> parameters_;
  const Layout& layout_;
  std::unique_ptr<Levels> levels_;
  size_t ranks_ = 1;
  size_t rank_ = 0;
  size_t chunk_blocks_ = 0;
  std::byte* memory_ = nullptr;
  std::array<Lane, kLanes> lanes_;
  std::vector<float> error_;  // by element of the layout, in units of the result; empty where nothing is carried
  uint64_t sent_bytes_ = 0;
};

}  // namespace gimbal::gradsync
