// A recorded algorithm of one rank: a list of steps in units of chunks. It knows no bytes, pointers, types or links.
//
// Chunk space. A collective divides its *full vector* into chunks, numbered the same on all ranks; the Plan gives each chunk
// its size and, per buffer, its place:
//   all_reduce, broadcast, reduce        the vector of `count` elements, chunk_count chunks
//   reduce_scatter, all_gather           nranks blocks; block r (chunks r*C .. r*C+C-1, C = chunk_count / nranks) belongs to
//   rank r.
//                                        reduce_scatter: input holds all chunks, output the own block; all_gather: the reverse
//   gather, scatter                      nranks blocks; the root holds all (gather: in output; scatter: in input), others their
//   own all_to_all                           nranks * nranks blocks; block s*nranks + d goes from s to d: input of s holds
//   block (s, *),
//                                        output of d block (*, d)
// A step names one run of chunks [chunk, chunk + count); source and destination are the same chunks in two buffers.
//
// Buffers. kInput and kOutput hold elements. kScratch holds partials (the accumulator type) and has room for exactly the chunks
// that the rank's own steps use there. In place, input and output of one chunk may be the same memory: builders and link()
// treat the two as one place.
//
// Steps (⊕ is the reduction; what is written to kOutput is final: divided and rounded; what is written to kScratch is partial)
//   kSend            send src to peer
//   kRecv            dst = received
//   kRecvReduce      dst = received ⊕ src
//   kCopy            dst = src
//   kReduce          dst = scratch ⊕ src            (src is kInput)
//   kRecvSend        dst = received, and the same bytes go on to forward_to            (made by fuse() only)
//   kRecvReduceSend  dst = received ⊕ src, and the result goes on to forward_to        (made by fuse() only; dst may be kNone)
// `payload` is what travels: kRaw (elements of one rank's input), kPartial (accumulators), kFinal (elements of the result). For
// a fused step it describes what arrives and `sent` what leaves. The Plan maps payloads to wire types.
//
// Order. Each channel has two cursors: one over its kSend steps, one over all other steps, each in list order. A step begins
// when its predecessor on its cursor is complete and step `after` (same channel, any cursor) is complete. Messages between two
// ranks on one channel match in order, without tags: link() makes sends of both cursors to one peer keep their list order. A
// step is carried out slice by slice, so a fused step forwards while it receives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace gimbal {

enum class Op : uint8_t { kSend, kRecv, kRecvReduce, kCopy, kReduce, kRecvSend, kRecvReduceSend };
enum class Payload : uint8_t { kRaw, kPartial, kFinal };
enum class BufferId : uint8_t { kInput, kOutput, kScratch, kNone };

inline constexpr int32_t kNoStep = -1;
inline constexpr Rank kNoRank = -1;

// The same bytes for the CPU, the device and the proxy: fixed size, no pointers.
struct Step {
  Op op;
  Payload payload;
  Payload sent;
  BufferId src;
  BufferId dst;
  uint8_t channel;
  uint16_t reserved;
  Rank peer;
  Rank forward_to;
  uint32_t chunk;
  uint32_t count;
  int32_t after;
};
static_assert(sizeof(Step) == 28);

struct Schedule {
  uint32_t chunk_count = 0;
  uint8_t channels = 1;
  std::vector<Step> steps;
};

struct CollectiveSpec {
  Collective collective = Collective::kAllReduce;
  Rank nranks = 1;
  Rank root = 0;         // broadcast, reduce, gather, scatter
  uint8_t channels = 1;  // chunk c belongs to one channel; no dependency crosses channels
};

}  // namespace gimbal
