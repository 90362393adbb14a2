// One call of an operation, as the C boundary hands it to the engine: checked, with nothing left at "default".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/cuda.h"
#include "base/types.h"

namespace gimbal {

inline bool is_message(Collective collective) { return collective == Collective::kSend || collective == Collective::kRecv; }

struct Call {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // as the API function counts it: elements of the whole vector, of one block, or of the message
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  Rank root = -1;  // root, or the peer of a send or recv; -1: none

  // Of a fused group of all-reduces: a hash of its parts' counts, so that ranks that fused different parts notice. 0: not
  // fused.
  uint32_t parts_hash = 0;

  // The weighted sum: every rank's contribution times its weight, divided by the weights' sum if normalize.
  bool weighted = false;
  bool normalize = false;
  double weight = 1;

  // On device memory: ordered by the stream (nullptr: the device's legacy default stream).
  bool on_device = false;
  int device = -1;
  CudaStream stream = nullptr;
  // Of a piece of such a call (runtime/cuda/staging_plan.h): which, and the whole call's count.
  uint32_t piece = 0;
  size_t whole_count = 0;

  // The v-forms: n entries each; displacements in elements. Borrowed from the caller for a blocking call.
  const size_t* send_counts = nullptr;
  const size_t* send_displacements = nullptr;
  const size_t* recv_counts = nullptr;
  const size_t* recv_displacements = nullptr;

  [[nodiscard]] size_t element_bytes() const { return dtype_size(dtype); }
  [[nodiscard]] size_t bytes() const { return count * element_bytes(); }
  // What statistics count: `bytes`, and for all_to_all_v, whose count is an array, all that this rank sends.
  [[nodiscard]] size_t payload_bytes(Rank ranks) const {
    if (send_counts == nullptr) return bytes();
    return std::accumulate(send_counts, send_counts + ranks, size_t{0}) * element_bytes();
  }
};

// A call that owns its arrays: the caller may free its own after _start, and inside a group.
class OwnedCall {
 public:
  OwnedCall(const Call& call, size_t ranks) : call_(call) {
    const size_t** const fields[kArrays] = {&call_.send_counts, &call_.send_displacements, &call_.recv_counts,
                                            &call_.recv_displacements};
    for (size_t i = 0; i < kArrays; ++i) {
      if (*fields[i] == nullptr) continue;
      arrays_[i].assign(*fields[i], *fields[i] + ranks);
      *fields[i] = arrays_[i].data();
    }
  }
  // The call points into arrays_, whose elements stay where they are when the vectors move.
  OwnedCall(OwnedCall&&) = default;
  OwnedCall& operator=(OwnedCall&&) = default;
  OwnedCall(const OwnedCall&) = delete;
  OwnedCall& operator=(const OwnedCall&) = delete;
  ~OwnedCall() = default;

  [[nodiscard]] const Call& get() const { return call_; }

 private:
  static constexpr size_t kArrays = 4;
  Call call_;
  std::array<std::vector<size_t>, kArrays> arrays_;
};

}  // namespace gimbal
