// A call on device memory by way of pinned memory and the host's engine: every collective, every link between the ranks, and
// however many ranks share a device, since nothing on the device waits for a peer.
//
// The caller's stream copies a piece in and reports; the communicator's thread exchanges it like any started operation, with
// its signature, flight recorder, deadline and abort; the stream, which waits for a word of memory meanwhile, copies it out.
#pragma once

#include <memory>

#include "runtime/cuda/enqueued_call.h"
#include "runtime/cuda/staging_lanes.h"
#include "runtime/cuda/staging_plan.h"

namespace gimbal {

class StagedCall final : public EnqueuedCall {
 public:
  // The call and its arrays must outlive this. awaited: somebody will wait for the request.
  StagedCall(Communicator& communicator, Cuda& cuda, const Call& call, const StagingPlan& plan,
             std::shared_ptr<StagingLane> lane, bool awaited)
      : communicator_(communicator),
        cuda_(cuda),
        call_(call),
        plan_(plan),
        lane_(std::move(lane)),
        awaited_(awaited),
        places_(lane_->slots()) {}

  Status advance() override;
  [[nodiscard]] bool is_enqueued() const override { return out_ == plan_.pieces(); }
  [[nodiscard]] std::shared_ptr<Request> request() const override { return last_; }

 private:
  // What a slot's piece still needs when it comes out.
  struct Place {
    StagedPiece piece;
    uint32_t number = 0;  // of the slot's pieces
  };

  Status put_in();
  Status take_out();
  Status enqueue_end();

  Communicator& communicator_;
  Cuda& cuda_;
  const Call& call_;
  const StagingPlan plan_;
  const std::shared_ptr<StagingLane> lane_;
  const bool awaited_;
  std::vector<Place> places_;  // by slot
  size_t in_ = 0;              // pieces enqueued up to their report
  size_t out_ = 0;             // pieces enqueued to their end
  std::shared_ptr<Request> last_;
};

}  // namespace gimbal
