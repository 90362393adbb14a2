// The node-direct operations of several ranks driven by hand: one NodeMemory, one thread, and the test decides who moves.
//
// Every rank works through the same list of steps as fast as its peers let it, so that ranks run ahead of each other as far as
// the operations allow. When a rank has finished a step its whole output is compared; a slot that was overwritten too early
// shows as a wrong element.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/chunk_space.h"
#include "runtime/allocations.h"
#include "runtime/direct_exchange.h"
#include "runtime/small_exchange.h"
#include "runtime/staged_exchange.h"
#include "tests/unit/runtime/collective_case.h"

namespace gimbal::test {

enum class Way : uint8_t { kSmall, kStaged, kDirect };

struct NodeStep {
  CollectiveCase c;
  Way way = Way::kStaged;
  StagedChoice staged;
  DirectChoice direct;
  uint32_t ordinary_ranks = 0;  // kDirect: a bit per rank whose buffers are not registered
};

inline constexpr size_t kNodeBufferBytes = size_t{128} << 10;

class NodeRank {
 public:
  NodeRank(NodeMemory& memory, Rank rank, const std::shared_ptr<SharedSegment>& shared)
      : context_(memory, rank, SumOrder::kRankOrder),
        allocations_(rank),
        registered_(static_cast<std::byte*>(allocations_.add({shared, 2 * kNodeBufferBytes}))),
        ordinary_(2 * kNodeBufferBytes) {}

  [[nodiscard]] size_t finished() const { return finished_; }

  // One progress() of the step that this rank is in. False when something is wrong.
  bool move(const std::vector<NodeStep>& steps) {
    if (finished_ == steps.size()) return true;
    const NodeStep& step = steps[finished_];
    if (operation_ == nullptr) begin(step);
    const Result<Progress> progress = operation_->progress();
    if (!progress.ok()) {
      ADD_FAILURE() << describe(step.c) << ", rank " << context_.rank << ": " << progress.status().message();
      return false;
    }
    if (*progress == Progress::kAgain) return true;
    operation_.reset();
    ++finished_;
    return output_is_right(step.c);
  }

 private:
  static constexpr std::byte kUntouched{0xEE};

  double input(const CollectiveCase& c, Rank rank, size_t index) const {
    return static_cast<double>((*c.seed * 31 + static_cast<size_t>(rank) * 101 + index * 7) % 997);
  }

  void begin(const NodeStep& step) {
    const bool registered = step.way == Way::kDirect && (step.ordinary_ranks >> context_.rank & 1) == 0;
    place_buffers(step.c, registered ? registered_ : ordinary_.data());
    call_ = Call();
    call_.collective = step.c.collective();
    call_.dtype = step.c.dtype;
    call_.count = step.c.count;
    call_.root = has_root(step.c.collective()) ? step.c.root : -1;
    call_.send = send_;
    call_.recv = recv_;
    signature_ = make_signature(call_, static_cast<uint32_t>(finished_ + 1));
    const ReduceFunction reduce = gimbal::reduces(call_.collective) ? find_reduce(call_.dtype, call_.op) : nullptr;
    if (step.way == Way::kSmall) {
      operation_ = std::make_unique<SmallExchange>(context_, call_, signature_);
    } else if (registered) {
      const BufferSizes sizes = buffer_sizes(step.c, context_.rank);
      operation_ = std::make_unique<DirectExchange>(
          context_, allocations_, call_, signature_, reduce, allocations_.place_of(send_, sizes.input * sizeof(uint32_t)),
          allocations_.place_of(recv_, sizes.output * sizeof(uint32_t)), step.direct, step.staged);
    } else {
      if (step.way == Way::kDirect) announce(context_.memory.control(context_.rank), signature_, call_.weight, 0, 0);
      operation_ = std::make_unique<StagedExchange>(context_, call_, signature_, reduce, step.staged);
    }
  }

  static bool has_root(Collective collective) {
    return collective == Collective::kBroadcast || collective == Collective::kReduce || collective == Collective::kGather ||
           collective == Collective::kScatter;
  }

  // By the conventions of gimbal.h; a broadcast has one buffer.
  void place_buffers(const CollectiveCase& c, std::byte* base) {
    const BufferSizes sizes = buffer_sizes(c, context_.rank);
    const size_t block = static_cast<size_t>(context_.rank) * c.count * sizeof(uint32_t);
    send_ = base;
    recv_ = base + kNodeBufferBytes;
    if (c.in_place || c.collective() == Collective::kBroadcast) {
      recv_ = base;
      if (sizes.input < sizes.output && sizes.input != 0 && c.collective() != Collective::kBroadcast) send_ = base + block;
      if (sizes.output < sizes.input && sizes.output != 0) recv_ = base + block;
    }
    std::memset(recv_, static_cast<int>(kUntouched), sizes.output * sizeof(uint32_t) + kGuardBytes);
    for (size_t i = 0; i < sizes.input; ++i) store_value(c.dtype, send_ + i * sizeof(uint32_t), input(c, context_.rank, i));
  }

  bool output_is_right(const CollectiveCase& c) const {
    const BufferSizes sizes = buffer_sizes(c, context_.rank);
    const auto input_of = [&](Rank rank, size_t index) { return input(c, rank, index); };
    for (size_t i = 0; i < sizes.output; ++i) {
      const double expected = expected_output(c, input_of, context_.rank, i);
      const double actual = load_value(c.dtype, recv_ + i * sizeof(uint32_t));
      if (actual == expected) continue;
      ADD_FAILURE() << describe(c) << ", rank " << context_.rank << " has " << actual << " at " << i << ", expected "
                    << expected;
      return false;
    }
    if (c.in_place || c.collective() == Collective::kBroadcast) return true;
    const std::byte* const end = recv_ + sizes.output * sizeof(uint32_t);
    if (std::any_of(end, end + kGuardBytes, [](std::byte byte) { return byte != kUntouched; })) {
      ADD_FAILURE() << describe(c) << ", rank " << context_.rank << " wrote past its output";
      return false;
    }
    for (size_t i = 0; i < sizes.input; ++i) {
      if (load_value(c.dtype, send_ + i * sizeof(uint32_t)) == input(c, context_.rank, i)) continue;
      ADD_FAILURE() << describe(c) << ", rank " << context_.rank << " changed its input";
      return false;
    }
    return true;
  }

  static constexpr size_t kGuardBytes = 64;

  NodeContext context_;
  Allocations allocations_;
  std::byte* const registered_;
  std::vector<std::byte> ordinary_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  Call call_;
  Signature signature_;
  std::unique_ptr<Operation> operation_;
  size_t finished_ = 0;
};

class NodeWorld {
 public:
  NodeWorld(Rank nranks, size_t chunk_bytes)
      : layout_{.nranks = nranks, .chunk_bytes = chunk_bytes},
        memory_(SharedSegment::create("test", layout_.segment_bytes()).value(), layout_) {
    const auto shared = SharedSegment::create("test", 2 * kNodeBufferBytes * static_cast<size_t>(nranks)).value();
    for (Rank rank = 0; rank < nranks; ++rank) ranks_.push_back(std::make_unique<NodeRank>(memory_, rank, shared));
  }

  NodeRank& rank(size_t rank) { return *ranks_[rank]; }
  NodeMemory& memory() { return memory_; }

  [[nodiscard]] bool all_finished(size_t steps) const {
    return std::all_of(ranks_.begin(), ranks_.end(), [steps](const auto& rank) { return rank->finished() == steps; });
  }

 private:
  NodeLayout layout_;
  NodeMemory memory_;
  std::vector<std::unique_ptr<NodeRank>> ranks_;
};

}  // namespace gimbal::test
