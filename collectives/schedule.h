// A recorded algorithm of one rank: a list of steps in units of chunks. It knows no bytes, pointers, types or links.
//
// Chunk space. A collective divides its *full vector* into chunks, numbered the same on all ranks; the Plan gives each chunk
// its size and, per buffer, its place:
//
//   all_reduce, broadcast, reduce   the vector of `count` elements, chunk_count chunks
//   reduce_scatter                  nranks blocks; input holds all, output the own block
//   all_gather                      nranks blocks; input holds the own block, output all
//   gather, scatter                 nranks blocks; the root holds all (gather: output, scatter: input), others their own
//   all_to_all                      nranks * nranks blocks; block s*nranks + d goes from s to d: input of s holds the blocks
//                                   from s, output of d those to d
//
// Block b is the chunks b*C .. b*C + C-1, where C is chunk_count divided by the number of blocks. A step names one run of
// chunks [chunk, chunk + count); source and destination are the same chunks in two buffers, and the two ends of a message name
// the same run.
//
// Buffers. kInput and kOutput hold elements. kScratch holds partials (the accumulator type) and has room for exactly the chunks
// that the rank's own steps use there. In place, input and output of one chunk may be the same memory: builders and link()
// treat the two as one place. (all_to_all in place aliases blocks (s, d) and (d, s), which no schedule allows for: the Plan
// copies the input first.)
//
// Steps (⊕ is the reduction; what is written to kOutput is final: divided and rounded; what is written to kScratch is partial)
//   kSend            send src to peer
//   kRecv            dst = received
//   kRecvReduce      dst = received ⊕ src
//   kCopy            dst = src
//   kReduce          dst = scratch ⊕ src            (src is kInput)
//   kRecvSend        dst = received, and the same bytes go on to forward_to            (made by fuse() only; dst may be kNone)
//   kRecvReduceSend  dst = received ⊕ src, and the result goes on to forward_to        (made by fuse() only; dst may be kNone)
// `payload` is what travels: kRaw (elements of one rank's input that are still to be added), kPartial (accumulators), kFinal
// (elements of the result). For a fused step it describes what arrives and `sent` what leaves. Collectives that add nothing
// send kFinal only, from whichever buffer. The Plan maps payloads to wire types.
//
// Order. Each channel has two cursors: one over its kSend steps, one over all other steps, each in list order. A step begins
// when its predecessor on its cursor is complete and step `after` (an earlier one of the same channel, any cursor) is complete.
// Messages between two ranks on one channel match in order, without tags: link() makes sends of both cursors to one peer keep
// their list order. A step is carried out slice by slice, so a fused step forwards while it receives.
//
// Window. An unfused schedule never blocks for good, however few slots an endpoint has. A fused step goes on only when it can
// read a slot *and* write one, and its cursor stays until the last slice has left: where steps forward in a circle (a ring, a
// tree up and down) that ends only if the endpoint's window has room for one run of chunks (Algorithm::window_runs of them) and
// one slot more. A Plan with longer runs asks for more `pieces`, carries the list out part by part, or takes the unfused form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/plan_step.h"
#include "base/types.h"

namespace gimbal {

enum class Payload : uint8_t { kRaw, kPartial, kFinal };

inline constexpr int32_t kNoStep = -1;

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

class NodeShape;

struct CollectiveSpec {
  Collective collective = Collective::kAllReduce;
  Rank nranks = 1;
  Rank root = 0;         // broadcast, reduce, gather, scatter
  uint8_t channels = 1;  // chunk c belongs to one channel; no dependency crosses channels
  uint32_t pieces = 1;   // each channel's share is cut into so many parts that follow one another (pipelining, short runs)
  // For the hierarchical algorithms (hier_*): who shares a node (node_shape.h), of exactly nranks ranks. Borrowed: it must live
  // as long as the spec is used. Null: every rank is a node of its own.
  const NodeShape* nodes = nullptr;
};

}  // namespace gimbal
