#include "runtime/cuda/staged_call.h"

#include <algorithm>
#include <utility>

#include "runtime/communicator.h"

namespace gimbal {
namespace {

// The host's part of one piece: waits for the stream, then runs the piece as a call on host memory. However it ends, the stream
// goes on: an error is the communicator's, not a stream that stands still.
class StagedOperation final : public Operation {
 public:
  StagedOperation(Communicator& communicator, const Call& call, const Signature& signature, std::shared_ptr<StagingLane> lane,
                  StagingSlot& slot, uint32_t number)
      : communicator_(communicator), call_(call), signature_(signature), lane_(std::move(lane)), slot_(slot), number_(number) {}
  ~StagedOperation() override {
    inner_.reset();  // it may still use the slot
    slot_.release(number_);
  }

  Result<Progress> progress() override {
    if (inner_ == nullptr) {
      if (!slot_.has_arrived(number_)) return Progress::kAgain;
      ASSIGN_OR_RETURN(inner_, communicator_.make_operation(call_, signature_));
    }
    return inner_->progress();
  }
  [[nodiscard]] uint64_t moves() const override { return inner_ == nullptr ? 0 : 1 + inner_->moves(); }
  // Itself: its own stream.
  [[nodiscard]] Rank waiting_for() const override { return inner_ == nullptr ? communicator_.rank() : inner_->waiting_for(); }

 private:
  Communicator& communicator_;
  const Call& call_;
  const Signature& signature_;
  const std::shared_ptr<StagingLane> lane_;  // keeps the slot
  StagingSlot& slot_;
  const uint32_t number_;
  std::unique_ptr<Operation> inner_;
};

}  // namespace

Status StagedCall::advance() {
  if (in_ == 0) {
    while (in_ < std::min(plan_.pieces(), lane_->slots())) RETURN_IF_ERROR(put_in());
    return {};
  }
  RETURN_IF_ERROR(take_out());
  if (in_ < plan_.pieces()) return put_in();
  return is_enqueued() ? enqueue_end() : Status();
}

Status StagedCall::put_in() {
  const size_t at = in_ % lane_->slots();
  StagingSlot& slot = lane_->slot(at);
  Place& place = places_[at];
  place.piece = plan_.piece(in_);
  place.piece.call.piece = static_cast<uint32_t>(in_);
  place.piece.call.whole_count = call_.count;
  place.number = slot.next_piece();
  gimbal::place(place.piece, slot.memory());
  for (const StagedCopy& copy : place.piece.in) {
    const auto* const from = static_cast<const std::byte*>(call_.send) + copy.device_offset;
    RETURN_IF_ERROR(cuda_.copy(slot.memory() + copy.slot_offset, from, copy.bytes, call_.stream));
  }
  RETURN_IF_ERROR(slot.enqueue_report(cuda_, call_.stream));
  const auto prepare = [&](const Call& call, const Signature& signature) -> std::unique_ptr<Operation> {
    return std::make_unique<StagedOperation>(communicator_, call, signature, lane_, slot, place.number);
  };
  ASSIGN_OR_RETURN(last_, communicator_.started().start(place.piece.call, prepare));
  ++in_;
  return {};
}

Status StagedCall::take_out() {
  const size_t at = out_ % lane_->slots();
  StagingSlot& slot = lane_->slot(at);
  const Place& place = places_[at];
  RETURN_IF_ERROR(slot.enqueue_wait(cuda_, place.number, call_.stream));
  for (const StagedCopy& copy : place.piece.out) {
    auto* const to = static_cast<std::byte*>(call_.recv) + copy.device_offset;
    RETURN_IF_ERROR(cuda_.copy(to, slot.memory() + copy.slot_offset, copy.bytes, call_.stream));
  }
  ++out_;
  return {};
}

Status StagedCall::enqueue_end() {
  if (awaited_) {
    // One report more, which no piece belongs to: it wakes whoever waits for the request.
    StagingSlot& slot = lane_->slot(0);
    const uint32_t number = slot.next_piece();
    RETURN_IF_ERROR(slot.enqueue_report(cuda_, call_.stream));
    last_->end_with_stream([lane = lane_, &slot, number] { return slot.has_arrived(number) || !lane->has_ended().ok(); });
  }
  return lane_->enqueue_end(call_.stream);
}

}  // namespace gimbal
