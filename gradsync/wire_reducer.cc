#include "gradsync/wire_reducer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gradsync/calls.h"

namespace gimbal::gradsync {
namespace {

// Of an 8-bit type half a megabyte: 4 ms at 1 Gb/s, long beside what starting an operation costs, while what the lanes of two
// ranks hold stays within a cache of the third level.
constexpr size_t kChunkBlocks = 2048;

void scale(Block& values, float factor) {
  for (float& value : values) value *= factor;
}

void divide(Block& values, float divisor) {
  for (float& value : values) value /= divisor;
}

void add(Block& sum, const Block& values) {
  for (size_t i = 0; i < kBlockElements; ++i) sum[i] += values[i];
}

void add(Block& sum, const float* values) {
  for (size_t i = 0; i < kBlockElements; ++i) sum[i] += values[i];
}

// wanted - sent; what is not finite is not carried: the step that had it is lost, the next one is not.
float lost(float wanted, float sent) {
  const float difference = wanted - sent;
  return std::abs(difference) <= std::numeric_limits<float>::max() ? difference : 0.0F;
}

}  // namespace

Result<std::unique_ptr<WireReducer>> WireReducer::create(gimbal_comm_t comm, gimbal_gradsync_wire_t wire, bool between_nodes,
                                                         std::span<const Parameter> parameters, const Layout& layout) {
  auto made = std::unique_ptr<WireReducer>(new WireReducer(comm, wire, parameters, layout));
  if (between_nodes) {
    made->levels_ = std::make_unique<Levels>();
    RETURN_IF_ERROR(made->levels_->split(comm));
    made->comm_ = made->levels_->between_nodes.get();
  }
  RETURN_IF_ERROR(made->allocate());
  return made;
}

WireReducer::~WireReducer() {
  // After an error both end at once. What an error leaves is freed with its communicator.
  for (Lane& lane : lanes_) {
    gimbal_wait(&lane.scatter);
    gimbal_wait(&lane.gather);
  }
  if (memory_ != nullptr) gimbal_mem_free(comm_, memory_);
}

Status WireReducer::allocate() {
  int32_t rank = 0;
  int32_t size = 1;
  RETURN_IF_ERROR(from_c(gimbal_comm_rank(comm_, &rank)));
  RETURN_IF_ERROR(from_c(gimbal_comm_size(comm_, &size)));
  rank_ = static_cast<size_t>(rank);
  ranks_ = static_cast<size_t>(size);
  constexpr size_t kLeastBlocksOfARank = 8;
  chunk_blocks_ = std::max(kChunkBlocks, ranks_ * kLeastBlocksOfARank);
  const size_t slot_bytes = (chunk_blocks_ / ranks_ + 2) * block_bytes_;
  const size_t lane_bytes = (3 * ranks_ + 1) * slot_bytes;
  void* memory = nullptr;
  RETURN_IF_ERROR(from_c(gimbal_mem_alloc(comm_, GIMBAL_MEMORY_HOST, kLanes * lane_bytes, &memory)));
  memory_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < kLanes; ++i) {
    std::byte* const begin = memory_ + i * lane_bytes;
    lanes_[i].send = begin;
    lanes_[i].received = begin + ranks_ * slot_bytes;
    lanes_[i].gathered = begin + 2 * ranks_ * slot_bytes;
    lanes_[i].owned = begin + 3 * ranks_ * slot_bytes;
  }
  if (has_error_feedback(wire_)) error_.resize(layout_.element_count);
  return {};
}

Status WireReducer::reduce(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder) {
  if (levels_ != nullptr) return reduce_levels(bucket, memory, share, recorder);
  return reduce_blocks({bucket.dtype, memory, bucket.element / kBlockElements, bucket.count / kBlockElements, track_of(bucket)},
                       share, recorder);
}

// The node's sum, then each of its ranks compresses a part of it on the way between nodes.
Status WireReducer::reduce_levels(const Bucket& bucket, std::byte* memory, const Share& share, Recorder& recorder) {
  int64_t begun = recorder.now();
  const OwnedCommunicator& node = levels_->node;
  const auto dtype = static_cast<gimbal_dtype_t>(bucket.dtype);
  gimbal_reduce_options_t options = GIMBAL_REDUCE_OPTIONS_INIT;
  options.weight = share.mine / share.total;
  RETURN_IF_ERROR(
      from_c(gimbal_all_reduce_options(memory, memory, bucket.count, dtype, GIMBAL_SUM, &options, node.get(), nullptr)));
  recorder.add_until_now(track_of(bucket), Activity::kReduce, begun);
  if (ranks_ == 1) return {};
  const size_t first = bucket.element / kBlockElements;
  const size_t count = bucket.count / kBlockElements;
  const auto local_ranks = static_cast<size_t>(node.size());
  std::vector<size_t> begins(local_ranks + 1);
  for (size_t i = 0; i <= local_ranks; ++i) begins[i] = count * i / local_ranks;
  const auto local_rank = static_cast<size_t>(node.rank());
  const size_t block_memory = kBlockElements * dtype_size(bucket.dtype);
  std::byte* const part = memory + begins[local_rank] * block_memory;
  RETURN_IF_ERROR(reduce_blocks(
      {bucket.dtype, part, first + begins[local_rank], begins[local_rank + 1] - begins[local_rank], track_of(bucket)}, Share{},
      recorder));
  std::vector<size_t> counts(local_ranks);
  for (size_t i = 0; i < local_ranks; ++i) counts[i] = (begins[i + 1] - begins[i]) * kBlockElements;
  begun = recorder.now();
  RETURN_IF_ERROR(
      from_c(gimbal_all_gather_v(part, counts[local_rank], memory, counts.data(), nullptr, dtype, node.get(), nullptr)));
  recorder.add_until_now(track_of(bucket), Activity::kReduce, begun);
  return {};
}

// Three chunks are under way: one is encoded while the one before it is scattered or gathered. The order of the operations
// depends on the number of chunks only, so it is the same on all ranks.
Status WireReducer::reduce_blocks(const Blocks& blocks, const Share& share, Recorder& recorder) {
  // What is carried to another step must have that step's unit too: the weight goes in before encoding.
  const Share own = error_.empty() ? share : Share{share.mine / share.total, 1};
  const size_t chunks = (blocks.count + chunk_blocks_ - 1) / chunk_blocks_;
  for (size_t turn = 0; turn < chunks + 2; ++turn) {
    if (turn < chunks) {
      const size_t begin = turn * chunk_blocks_;
      const Blocks chunk = {blocks.dtype, blocks.memory + begin * kBlockElements * dtype_size(blocks.dtype),
                            blocks.first + begin, std::min(chunk_blocks_, blocks.count - begin), blocks.track};
      RETURN_IF_ERROR(scatter(chunk, own, lanes_[turn % kLanes], recorder));
    }
    if (turn >= 1 && turn <= chunks) RETURN_IF_ERROR(combine(own, lanes_[(turn - 1) % kLanes], recorder));
    if (turn >= 2) RETURN_IF_ERROR(store(lanes_[(turn - 2) % kLanes], recorder));
  }
  return {};
}

Status WireReducer::scatter(const Blocks& chunk, const Share& share, Lane& lane, Recorder& recorder) {
  const int64_t begun = recorder.now();
  lane.chunk = chunk;
  lane.slots = (chunk.first + chunk.count - 1) / ranks_ - chunk.first / ranks_ + 1;
  const size_t block_memory = kBlockElements * dtype_size(chunk.dtype);
  Block values;
  Block sent;
  for (size_t i = 0; i < chunk.count; ++i) {
    const size_t block = chunk.first + i;
    load_block(chunk.dtype, chunk.memory + i * block_memory, values);
    scale(values, static_cast<float>(share.mine));
    std::byte* const place = lane.send + place_of(lane, block);
    float* const error = error_of(block);
    if (error == nullptr) {
      encode_block(wire_, values, place);
      continue;
    }
    add(values, error);
    encode_block(wire_, values, place);
    decode_block(wire_, place, sent);
    for (size_t k = 0; k < kBlockElements; ++k) error[k] = lost(values[k], sent[k]);
  }
  recorder.add_until_now(chunk.track, Activity::kEncode, begun);
  const size_t bytes = lane.slots * block_bytes_;
  sent_bytes_ += 2 * (ranks_ - 1) * bytes;  // here and to gather
  return from_c(gimbal_all_to_all_start(lane.send, lane.received, bytes, GIMBAL_UINT8, comm_, nullptr, &lane.scatter));
}

Status WireReducer::combine(const Share& share, Lane& lane, Recorder& recorder) {
  const int64_t begun = recorder.now();
  RETURN_IF_ERROR(from_c(gimbal_wait(&lane.scatter)));
  const int64_t came = recorder.add_until_now(lane.chunk.track, Activity::kScatter, begun);
  Block sum;
  Block values;
  for (size_t slot = 0; slot < lane.slots; ++slot) {
    const size_t block = (lane.chunk.first / ranks_ + slot) * ranks_ + rank_;
    if (block < lane.chunk.first || block >= lane.chunk.first + lane.chunk.count) continue;
    decode_block(wire_, lane.received + slot * block_bytes_, sum);
    for (size_t rank = 1; rank < ranks_; ++rank) {
      decode_block(wire_, lane.received + (rank * lane.slots + slot) * block_bytes_, values);
      add(sum, values);
    }
    if (share.total != 1) divide(sum, static_cast<float>(share.total));
    std::byte* const place = lane.owned + slot * block_bytes_;
    encode_block(wire_, sum, place);
    float* const error = error_of(block);
    if (error == nullptr) continue;
    decode_block(wire_, place, values);
    for (size_t k = 0; k < kBlockElements; ++k) error[k] += lost(sum[k], values[k]);
  }
  recorder.add_until_now(lane.chunk.track, Activity::kCombine, came);
  return from_c(gimbal_all_gather_start(lane.owned, lane.gathered, lane.slots * block_bytes_, GIMBAL_UINT8, comm_, nullptr,
                                        &lane.gather));
}

Status WireReducer::store(Lane& lane, Recorder& recorder) {
  const int64_t begun = recorder.now();
  RETURN_IF_ERROR(from_c(gimbal_wait(&lane.gather)));
  const int64_t came = recorder.add_until_now(lane.chunk.track, Activity::kGather, begun);
  const size_t block_memory = kBlockElements * dtype_size(lane.chunk.dtype);
  Block values;
  for (size_t i = 0; i < lane.chunk.count; ++i) {
    decode_block(wire_, lane.gathered + place_of(lane, lane.chunk.first + i), values);
    store_block(lane.chunk.dtype, values, lane.chunk.memory + i * block_memory);
  }
  recorder.add_until_now(lane.chunk.track, Activity::kDecode, came);
  return {};
}

std::vector<StateSection> WireReducer::state() {
  std::vector<StateSection> sections;
  if (error_.empty()) return sections;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!takes(parameters_[i].dtype)) continue;
    sections.push_back({parameters_[i].name, StateKind::kError,
                        std::as_writable_bytes(std::span(error_).subspan(layout_.elements[i], parameters_[i].count))});
  }
  return sections;
}

void WireReducer::abort() {
  if (levels_ == nullptr) return;
  gimbal_comm_abort(levels_->node.get());
  gimbal_comm_abort(levels_->between_nodes.get());
}

}  // namespace gimbal::gradsync
