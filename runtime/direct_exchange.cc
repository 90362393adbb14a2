#include "runtime/direct_exchange.h"

#include <algorithm>
#include <utility>

namespace gimbal {
namespace {

// Between two looks at the fault word: well under a millisecond.
constexpr size_t kMoveBytes = size_t{4} << 20;

}  // namespace

bool DirectExchange::serves(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kAllGather || collective == Collective::kBroadcast;
}

DirectExchange::DirectExchange(NodeContext& context, const Allocations& allocations, const Call& call,
                               const Signature& signature, ReduceFunction reduce, uint64_t send_place, uint64_t recv_place,
                               const DirectChoice& choice, const StagedChoice& staged)
    : context_(context),
      allocations_(allocations),
      call_(call),
      signature_(signature),
      reduce_(reduce),
      send_place_(send_place),
      recv_place_(recv_place),
      choice_(choice),
      staged_choice_(staged),
      element_bytes_(call.element_bytes()),
      peers_(static_cast<size_t>(context.nranks)) {}

size_t DirectExchange::send_bytes() const {
  const bool blocks = call_.collective == Collective::kReduceScatter;
  return call_.bytes() * (blocks ? static_cast<size_t>(context_.nranks) : 1);
}

size_t DirectExchange::recv_bytes() const {
  const bool blocks = call_.collective == Collective::kAllGather;
  return call_.bytes() * (blocks ? static_cast<size_t>(context_.nranks) : 1);
}

bool DirectExchange::all_announced() {
  for (; next_ < context_.nranks; ++next_) {
    const Announcement& entry = context_.memory.control(next_).board[signature_.sequence % kBoardEntries];
    if (static_cast<uint32_t>(entry.word.load(std::memory_order_acquire) >> 32) != signature_.sequence) return false;
  }
  next_ = 0;
  return true;
}

Result<bool> DirectExchange::resolve_peers() {
  RETURN_IF_ERROR(compare_announcements(context_, signature_));
  for (Rank rank = 0; rank < context_.nranks; ++rank) {
    const Announcement& entry = context_.memory.control(rank).board[signature_.sequence % kBoardEntries];
    const uint64_t send_place = entry.send_place.load(std::memory_order_relaxed);
    const uint64_t recv_place = entry.recv_place.load(std::memory_order_relaxed);
    if (send_place == 0 || recv_place == 0) return false;
    Peer& peer = peers_[static_cast<size_t>(rank)];
    peer.send = allocations_.resolve(rank, send_place, send_bytes());
    peer.recv = allocations_.resolve(rank, recv_place, recv_bytes());
    if (peer.send == nullptr || peer.recv == nullptr) {
      return Status(Code::kInternal, "rank " + std::to_string(rank) + " announced registered memory that does not exist");
    }
  }
  return true;
}

bool DirectExchange::anyone_in_place() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.send == peer.recv; });
}

Result<Progress> DirectExchange::progress() {
  if (fallback_) return fallback_->progress();
  Result<Progress> progress = advance();
  // After the moving, not before: the fence of a ring waits until this rank's stores have left.
  if (std::exchange(unrung_, false)) context_.memory.ring_all();
  return progress;
}

Result<Progress> DirectExchange::advance() {
  if (phase_ == Phase::kAnnounce) {
    announce(context_.memory.control(context_.rank), signature_, call_.weight, send_place_, recv_place_);
    unrung_ = true;
    phase_ = Phase::kGather;
  }
  if (phase_ == Phase::kGather) {
    if (!all_announced()) return Progress::kAgain;
    ASSIGN_OR_RETURN(const bool zero_copy, resolve_peers());
    if (!zero_copy) {
      fallback_.emplace(context_, call_, signature_, reduce_, staged_choice_);
      return fallback_->progress();
    }
    if (reduce_ != nullptr) {
      ASSIGN_OR_RETURN(divisor_, final_divisor(context_, call_.op, call_.normalize));
    }
    epoch_ = ++context_.direct_epoch;
    if (anyone_in_place()) choice_.two_shot = true;
    end_ = call_.count;
    if (call_.collective == Collective::kAllReduce && choice_.two_shot) {
      const size_t line = std::max<size_t>(1, 64 / element_bytes_);
      const size_t lines = (call_.count + line - 1) / line;
      const auto ranks = static_cast<size_t>(context_.nranks);
      const auto rank = static_cast<size_t>(context_.rank);
      at_ = std::min(lines * rank / ranks * line, call_.count);
      end_ = std::min(lines * (rank + 1) / ranks * line, call_.count);
    }
    phase_ = Phase::kMove;
  }
  if (phase_ == Phase::kMove) {
    while (at_ < end_) {
      if (context_.memory.faulted()) return Progress::kAgain;
      move_some();
    }
    context_.memory.control(context_.rank).finished.store(epoch_, std::memory_order_release);
    unrung_ = true;
    phase_ = Phase::kFinish;
  }
  for (; next_ < context_.nranks; ++next_) {
    if (!has_reached(context_.memory.control(next_).finished, epoch_)) return Progress::kAgain;
  }
  return Progress::kDone;
}

void DirectExchange::move_some() {
  const size_t begin = at_;
  const size_t end = std::min(end_, begin + kMoveBytes / element_bytes_);
  at_ = end;
  if (reduce_ != nullptr) {
    reduce_some(begin, end, call_.collective == Collective::kAllReduce && choice_.two_shot);
    return;
  }
  std::byte* const recv = peers_[static_cast<size_t>(context_.rank)].recv;
  const size_t bytes = (end - begin) * element_bytes_;
  const bool from_all = call_.collective == Collective::kAllGather;
  for (Rank step = 0; step < (from_all ? context_.nranks : 1); ++step) {
    const Rank peer = from_all ? (context_.rank + step) % context_.nranks : call_.root;
    const std::byte* const source = peers_[static_cast<size_t>(peer)].send + begin * element_bytes_;
    const size_t block = from_all ? static_cast<size_t>(peer) * call_.count : 0;
    std::byte* const destination = recv + (block + begin) * element_bytes_;
    if (destination != source) copy_bytes(destination, source, bytes, choice_.store);
  }
}

void DirectExchange::reduce_some(size_t begin, size_t end, bool to_everybody) {
  const bool blocks = call_.collective == Collective::kReduceScatter;
  const size_t first = (blocks ? static_cast<size_t>(context_.rank) * call_.count : 0) + begin;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const double weight = call_.weighted ? context_.weights[rank] : 1.0;
    context_.sources[rank] = {peers_[rank].send + first * element_bytes_, Form::kElement, weight};
    context_.destinations[rank] = peers_[rank].recv + begin * element_bytes_;
  }
  void* const own = context_.destinations[static_cast<size_t>(context_.rank)];
  ReduceArguments arguments;
  arguments.sources = context_.sources;
  arguments.destinations = to_everybody ? std::span<void* const>(context_.destinations) : std::span<void* const>(&own, 1);
  arguments.count = end - begin;
  arguments.order = context_.order;
  arguments.store = choice_.store;
  arguments.divisor = divisor_;
  reduce_(arguments);
}

}  // namespace gimbal
