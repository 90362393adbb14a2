#include "collectives/chunk_space.h"

#include "base/status.h"

namespace gimbal {

Collective schedule_collective(Collective collective) {
  if (collective == Collective::kAllGatherV) return Collective::kAllGather;
  if (collective == Collective::kAllToAllV) return Collective::kAllToAll;
  return collective;
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter || collective == Collective::kReduce;
}

uint32_t block_count(Collective collective, Rank nranks) {
  const auto n = static_cast<uint32_t>(nranks);
  switch (schedule_collective(collective)) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScatter:
      return n;
    case Collective::kAllToAll:
      return n * n;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return 1;
  }
  return 1;
}

bool has_blocks(Collective collective) { return block_count(collective, 2) > 1; }

ChunkSpace::ChunkSpace(const CollectiveSpec& spec, uint32_t chunk_count)
    : collective_(schedule_collective(spec.collective)),
      nranks_(spec.nranks),
      root_(spec.root),
      chunks_per_block_(chunk_count / block_count(spec.collective, spec.nranks)) {
  GIMBAL_DCHECK(chunks_per_block_ > 0 && chunk_count % block_count(spec.collective, spec.nranks) == 0);
}

Rank ChunkSpace::source(uint32_t chunk) const {
  if (reduces(collective_)) return kNoRank;
  if (collective_ == Collective::kAllToAll) return block(chunk) / nranks_;
  const bool from_owner = collective_ == Collective::kAllGather || collective_ == Collective::kGather;
  return from_owner ? block(chunk) : root_;
}

bool ChunkSpace::in_input(Rank rank, uint32_t chunk) const { return reduces(collective_) || source(chunk) == rank; }

bool ChunkSpace::in_output(Rank rank, uint32_t chunk) const {
  switch (collective_) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return block(chunk) == rank;
    case Collective::kReduce:
    case Collective::kGather:
      return rank == root_;
    case Collective::kAllToAll:
      return block(chunk) % nranks_ == rank;
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      return true;
  }
  return true;
}

}  // namespace gimbal
