// The requests of one direction of a queue pair, from the user's threads to the adapter's.
//
// A request keeps its place until a completion of it or of a later one has been polled: that is what a send queue's depth means
// to a user who asks for few completions.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gimbal::hostile {

inline constexpr int kMostSges = 8;

struct SendRequest {
  uint64_t wr_id;
  ibv_wr_opcode opcode;
  unsigned flags;
  uint32_t immediate;
  uint64_t remote_address;
  uint32_t rkey;
  uint32_t bytes;
  int sge_count;
  std::array<ibv_sge, kMostSges> sges;
  std::vector<std::byte> inline_data;
};

struct ReceiveRequest {
  uint64_t wr_id;
  int sge_count;
  std::array<ibv_sge, kMostSges> sges;
};

template <typename Request>
class RequestQueue {
 public:
  explicit RequestQueue(size_t capacity) : slots_(capacity) {}

  // The user's side. False when every place is taken.
  bool push(Request request) {
    const std::lock_guard<std::mutex> guard(users_);
    const uint64_t posted = posted_.load(std::memory_order_relaxed);
    if (posted - retired_.load(std::memory_order_acquire) >= slots_.size()) return false;
    slots_[posted % slots_.size()] = std::move(request);
    posted_.store(posted + 1, std::memory_order_release);
    return true;
  }
  std::atomic<uint64_t>& retired() { return retired_; }

  // The adapter's side.
  [[nodiscard]] uint64_t posted() const { return posted_.load(std::memory_order_acquire); }
  [[nodiscard]] const Request& operator[](uint64_t index) const { return slots_[index % slots_.size()]; }

 private:
  std::vector<Request> slots_;
  std::mutex users_;
  std::atomic<uint64_t> posted_ = 0;
  std::atomic<uint64_t> retired_ = 0;
};

}  // namespace gimbal::hostile
