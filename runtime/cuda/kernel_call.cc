#include "runtime/cuda/kernel_call.h"

#include <algorithm>

#include "base/deadline.h"
#include "runtime/communicator.h"

namespace gimbal {
namespace {

// How long a rank whose kernel was in another operation than a peer's waits for that peer to say which.
constexpr int64_t kMismatchPatienceNs = 2'000'000'000;

class KernelWatch final : public Operation {
 public:
  KernelWatch(Cuda& cuda, const NativeSetup& setup, std::shared_ptr<const CudaEvent> end)
      : cuda_(cuda), setup_(setup), end_(std::move(end)) {}
  ~KernelWatch() override {
    if (!has_ended_) setup_.abort();
  }

  Result<Progress> progress() override {
    ASSIGN_OR_RETURN(const bool has_ended, cuda_.has_happened(*end_));
    const Status report = setup_.report();
    if (setup_.has_mismatch()) {
      // The outer loop announces this rank's call and compares it with the peers': its sentence has both sides.
      const int64_t now = monotonic_ns();
      if (mismatch_ns_ == 0) mismatch_ns_ = now;
      if (now - mismatch_ns_ < kMismatchPatienceNs) return Progress::kAgain;
    }
    RETURN_IF_ERROR(report);
    has_ended_ = has_ended;
    return has_ended ? Progress::kDone : Progress::kAgain;
  }
  [[nodiscard]] uint64_t moves() const override { return has_ended_ ? 1 : 0; }
  [[nodiscard]] Rank waiting_for() const override { return kNoRank; }

 private:
  Cuda& cuda_;
  const NativeSetup& setup_;
  const std::shared_ptr<const CudaEvent> end_;
  int64_t mismatch_ns_ = 0;
  bool has_ended_ = false;
};

GridShape shape_of(size_t bytes, size_t most_blocks) {
  constexpr size_t kPacketPayload = 8;
  constexpr size_t kWarp = 32;
  const size_t packets = std::max<size_t>(1, (bytes + kPacketPayload - 1) / kPacketPayload);
  const size_t threads = std::min<size_t>(DeviceKernels::kMaxThreads, (packets + kWarp - 1) / kWarp * kWarp);
  const size_t blocks = std::clamp<size_t>((packets + threads - 1) / threads, 1, most_blocks);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)};
}

}  // namespace

EventPool::~EventPool() {
  for (const CudaEvent event : free_) cuda_.destroy_event(event);
}

Result<CudaEvent> EventPool::take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      const CudaEvent event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  return cuda_.create_event(false);
}

void EventPool::give_back(CudaEvent event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(event);
}

Status KernelCall::advance() {
  is_enqueued_ = true;
  ASSIGN_OR_RETURN(const bool capturing, cuda_.is_capturing(call_.stream));
  // A graph that is replayed beside other calls is the caller's to order.
  if (!capturing && last_.event != nullptr && last_.stream != call_.stream) {
    RETURN_IF_ERROR(cuda_.order_behind(*last_.event, call_.stream));
  }
  RETURN_IF_ERROR(launch());
  return capturing ? Status() : watch();
}

uint64_t KernelCall::tag() const {
  Call whole = call_;
  whole.whole_count = call_.count;
  return static_cast<uint64_t>(hash_signature(make_signature(whole, 0))) << 32 | static_cast<uint32_t>(call_.count);
}

Status KernelCall::watch() {
  ASSIGN_OR_RETURN(const CudaEvent event, events_->take());
  const std::shared_ptr<const CudaEvent> end(new CudaEvent(event), [pool = events_](const CudaEvent* used) {
    pool->give_back(*used);
    delete used;
  });
  RETURN_IF_ERROR(cuda_.record(event, call_.stream));
  last_ = {call_.stream, end};
  const auto prepare = [&](const Call&, const Signature&) -> std::unique_ptr<Operation> {
    return std::make_unique<KernelWatch>(cuda_, setup_, end);
  };
  Call watched = call_;
  watched.whole_count = call_.count;
  ASSIGN_OR_RETURN(request_, communicator_.started().start(watched, prepare));
  return {};
}

bool NativeCall::can_serve(const Call& call) {
  return call.collective == Collective::kAllReduce && !call.weighted && call.count > 0 &&
         call.bytes() <= NativeSetup::kMostBytes;
}

Status NativeCall::launch() {
  device::NativeArguments arguments = setup().arguments();
  arguments.input = call().send;
  arguments.output = call().recv;
  arguments.count = call().count;
  arguments.tag = tag();
  arguments.op = call().op;
  arguments.divisor = call().op == ReduceOp::kAvg ? arguments.nranks : 1;
  const NativeForm form =
      call().bytes() <= NativeSetup::one_shot_limit(arguments.nranks) ? NativeForm::kOneShot : NativeForm::kTwoShot;
  const GridShape shape = shape_of(call().bytes(), setup().most_blocks());
  return linked_device_kernels()->all_reduce(form, call().dtype, arguments, shape, call().stream);
}

}  // namespace gimbal
