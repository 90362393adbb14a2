#include "runtime/chunk_table.h"

#include <algorithm>
#include <string>

#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

// Chunks of at least this many bytes begin at multiples of a cache line of their block: one line more in 4096 bytes is 1.6 %
// of imbalance at most, and no two chunks then share a line.
constexpr size_t kAlignedChunkBytes = 4096;
constexpr size_t kCacheLineBytes = 64;

Status check_array(std::span<const size_t> values, const char* name, size_t nranks) {
  if (values.size() == nranks) return {};
  return Status(Code::kInvalidArgument, std::string(name) + " has " + std::to_string(values.size()) +
                                            " entries; one per rank, " + std::to_string(nranks));
}

std::vector<size_t> packed(std::span<const size_t> counts) {
  std::vector<size_t> offsets(counts.size());
  size_t next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    offsets[i] = next;
    next += counts[i];
  }
  return offsets;
}

}  // namespace

Result<ChunkTable> ChunkTable::make(const BufferLayout& layout, size_t element_bytes, uint32_t chunk_count) {
  ChunkTable table;
  table.collective_ = layout.collective;
  table.nranks_ = static_cast<size_t>(layout.nranks);
  table.rank_ = static_cast<size_t>(layout.rank);
  table.root_ = static_cast<size_t>(layout.root);
  table.count_ = layout.count;
  table.element_bytes_ = element_bytes;
  table.block_total_ = gimbal::block_count(layout.collective, layout.nranks);
  if (chunk_count == 0 || chunk_count % table.block_total_ != 0) {
    return Status(Code::kInternal, "schedule of " + std::string(collective_name(layout.collective)) + " has " +
                                       std::to_string(chunk_count) + " chunks; a multiple of " +
                                       std::to_string(table.block_total_) + " is needed");
  }
  table.chunks_per_block_ = chunk_count / table.block_total_;
  RETURN_IF_ERROR(table.take_counts(layout));
  table.largest_count_ = table.find_largest_count();
  return table;
}

Status ChunkTable::take_counts(const BufferLayout& layout) {
  // Neighbouring blocks of an all_to_all are neighbours in its inputs or in its outputs, never in both.
  runs_are_contiguous_ = collective_ != Collective::kAllToAll;
  const bool sends = collective_ == Collective::kAllToAllV;
  if (!sends && collective_ != Collective::kAllGatherV) return {};

  runs_are_contiguous_ = false;
  RETURN_IF_ERROR(check_array(layout.recv_counts, "recv_counts", nranks_));
  recv_counts_.assign(layout.recv_counts.begin(), layout.recv_counts.end());
  recv_offsets_ = packed(layout.recv_counts);
  if (!layout.recv_displacements.empty()) {
    RETURN_IF_ERROR(check_array(layout.recv_displacements, "recv_displacements", nranks_));
    recv_offsets_.assign(layout.recv_displacements.begin(), layout.recv_displacements.end());
  }
  if (!sends) return {};

  RETURN_IF_ERROR(check_array(layout.send_counts, "send_counts", nranks_));
  send_counts_.assign(layout.send_counts.begin(), layout.send_counts.end());
  send_offsets_ = packed(layout.send_counts);
  if (!layout.send_displacements.empty()) {
    RETURN_IF_ERROR(check_array(layout.send_displacements, "send_displacements", nranks_));
    send_offsets_.assign(layout.send_displacements.begin(), layout.send_displacements.end());
  }
  if (send_counts_[rank_] != recv_counts_[rank_]) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank_) + " sends itself " +
                                              std::to_string(send_counts_[rank_]) + " elements and receives " +
                                              std::to_string(recv_counts_[rank_]) + "; the two must be equal");
  }
  return {};
}

size_t ChunkTable::find_largest_count() const {
  // Chunks of a block differ by one unit at most, and the first is never the smaller.
  if (recv_counts_.empty()) return first_element(0, 1);
  size_t largest = 0;
  for (size_t block = 0; block < block_total_; ++block) largest = std::max(largest, first_element(block, 1));
  return largest;
}

size_t ChunkTable::block_count(size_t block) const {
  if (collective_ == Collective::kAllGatherV) return recv_counts_[block];
  if (collective_ != Collective::kAllToAllV) return count_;
  const size_t from = block / nranks_;
  const size_t to = block % nranks_;
  if (from == rank_) return send_counts_[to];
  return to == rank_ ? recv_counts_[from] : 0;
}

std::optional<size_t> ChunkTable::block_offset(BufferId buffer, size_t block) const {
  const bool input = buffer == BufferId::kInput;
  switch (collective_) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
      return 0;
    case Collective::kReduceScatter:
      if (input) return block * count_;
      break;
    case Collective::kAllGather:
      if (!input) return block * count_;
      break;
    case Collective::kGather:
      if (!input) return rank_ == root_ ? std::optional(block * count_) : std::nullopt;
      break;
    case Collective::kScatter:
      if (input) return rank_ == root_ ? std::optional(block * count_) : std::nullopt;
      break;
    case Collective::kAllGatherV:
      if (!input) return recv_offsets_[block];
      break;
    case Collective::kAllToAll:
    case Collective::kAllToAllV: {
      const size_t mine = input ? block / nranks_ : block % nranks_;
      const size_t other = input ? block % nranks_ : block / nranks_;
      if (mine != rank_) return std::nullopt;
      if (collective_ == Collective::kAllToAll) return other * count_;
      return input ? send_offsets_[other] : recv_offsets_[other];
    }
  }
  return block == rank_ ? std::optional<size_t>(0) : std::nullopt;  // the buffer with only the own block
}

size_t ChunkTable::first_element(size_t block, size_t part) const {
  const size_t total = block_count(block);
  const size_t line = std::max<size_t>(kCacheLineBytes / element_bytes_, 1);
  const size_t unit = total / chunks_per_block_ >= kAlignedChunkBytes / element_bytes_ ? line : 1;
  const size_t units = total / unit + (total % unit != 0 ? 1 : 0);
  const size_t first_unit = part * (units / chunks_per_block_) + std::min(part, units % chunks_per_block_);
  return std::min(total, first_unit * unit);
}

size_t ChunkTable::count(uint32_t chunk) const {
  const size_t block = chunk / chunks_per_block_;
  const size_t part = chunk % chunks_per_block_;
  return first_element(block, part + 1) - first_element(block, part);
}

std::optional<size_t> ChunkTable::offset(BufferId buffer, uint32_t chunk) const {
  GIMBAL_DCHECK(buffer == BufferId::kInput || buffer == BufferId::kOutput);
  const size_t block = chunk / chunks_per_block_;
  const std::optional<size_t> start = block_offset(buffer, block);
  if (!start) return std::nullopt;
  return *start + first_element(block, chunk % chunks_per_block_);
}

}  // namespace gimbal
