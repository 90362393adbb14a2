#include "tests/support/hostile_verbs/completion_queue.h"

namespace gimbal::hostile {

Cq::Cq(ibv_context* of_context, int capacity, void* cookie, Channel* events)
    : ibv_cq{}, entries_(static_cast<size_t>(capacity)) {
  context = of_context;
  channel = events;
  cq_context = cookie;
  cqe = capacity;
}

int Cq::poll(int most, ibv_wc* completions) {
  const std::lock_guard<std::mutex> guard(pollers_);
  if (broken_.load(std::memory_order_acquire)) return -1;
  uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t tail = tail_.load(std::memory_order_seq_cst);  // against arm(): see publish()
  int polled = 0;
  for (; polled < most && head != tail; ++head) {
    const Completion& completion = entries_[head % entries_.size()];
    if (completion.retired == nullptr) continue;  // forgotten
    completions[polled++] = completion.wc;
    if (completion.retired->load(std::memory_order_relaxed) < completion.retires) {
      completion.retired->store(completion.retires, std::memory_order_release);
    }
  }
  head_.store(head, std::memory_order_release);
  return polled;
}

void Cq::arm(bool solicited_only) { armed_.store(solicited_only ? Armed::kSolicited : Armed::kAny, std::memory_order_seq_cst); }

bool Cq::publish(const Completion& completion) {
  if (broken_.load(std::memory_order_relaxed)) return true;
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) == entries_.size()) {
    broken_.store(true, std::memory_order_release);
    return false;
  }
  entries_[tail % entries_.size()] = completion;
  // Sequentially consistent, both: either the user who arms and polls again finds the entry, or this finds the queue armed.
  tail_.store(tail + 1, std::memory_order_seq_cst);
  Armed armed = armed_.load(std::memory_order_seq_cst);
  const bool wanted =
      armed == Armed::kAny || (armed == Armed::kSolicited && (completion.solicited || completion.wc.status != IBV_WC_SUCCESS));
  if (wanted && channel != nullptr && armed_.compare_exchange_strong(armed, Armed::kNo)) {
    static_cast<Channel*>(channel)->events.push(this);
  }
  return true;
}

void Cq::forget(uint32_t qp_number) {
  const std::lock_guard<std::mutex> guard(pollers_);
  const uint64_t tail = tail_.load(std::memory_order_relaxed);
  for (uint64_t i = head_.load(std::memory_order_relaxed); i != tail; ++i) {
    Completion& entry = entries_[i % entries_.size()];
    if (entry.wc.qp_num == qp_number) entry.retired = nullptr;
  }
}

}  // namespace gimbal::hostile
