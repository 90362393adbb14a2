// Fibers: the threads of a block take turns on one host thread, and go on where they left.
//
// ThreadSanitizer is told of each change of fiber, and that it orders nothing: to it the fibers are threads that meet at
// atomics and at barriers only. So what the scheduler and the fibers share here is atomic, and relaxed.
#include "tests/support/cuda_sim/block.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#elif defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_sim {
namespace {

constexpr size_t kStackBytes = 256 << 10;  // sanitizers' frames are large; only touched pages count

// Stacks are kept: a launch takes one for each of its threads.
class StackPool {
 public:
  void* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void give(void* stack) {
    const std::lock_guard lock(mutex_);
    free_.push_back(stack);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> free_;
};
StackPool& stacks() {
  static auto* const pool = new StackPool;
  return *pool;
}

enum class State : uint8_t { kReady, kAtBarrier, kFinished };

struct Fiber {
  ucontext_t context{};
  ThreadPlace place;
  void* stack = nullptr;
  std::atomic<State> state = State::kReady;
  void* tsan = nullptr;
  void* fake_stack = nullptr;
};

class Block {
 public:
  Block(const std::function<void()>& body, const ThreadPlace& first, uint64_t seed)
      : body_(body), random_(seed), shuffles_(seed != 0) {
    const dim3 size = first.block_size;
    for (unsigned i = 0; i < size.x * size.y * size.z; ++i) {
      auto fiber = std::make_unique<Fiber>();
      fiber->place = first;
      fiber->place.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
      fiber->stack = stacks().take();
      fibers_.push_back(std::move(fiber));
    }
  }
  ~Block() {
    for (const auto& fiber : fibers_) stacks().give(fiber->stack);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run();
  int barrier(int value);
  void yield() {
    yielded_.store(true, std::memory_order_relaxed);
    leave(State::kReady);
  }
  bool flip_coin() { return shuffles_ && random() % 4 == 0; }
  [[nodiscard]] Fiber& current() const { return *current_.load(std::memory_order_relaxed); }

 private:
  // Knuth's MMIX generator; the upper bits are the random ones.
  uint64_t random() {
    const uint64_t next = random_.load(std::memory_order_relaxed) * 6364136223846793005U + 1442695040888963407U;
    random_.store(next, std::memory_order_relaxed);
    return next >> 33;
  }
  static void enter();
  void enter_fiber(Fiber& fiber);
  void leave(State state);
  void run_one(Fiber& fiber);
  bool open_barrier();

  const std::function<void()>& body_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::atomic<uint64_t> random_;
  const bool shuffles_;
  std::atomic<Fiber*> current_ = nullptr;
  std::atomic<bool> yielded_ = false;
  // What orders the fibers: everybody's arrival before everybody's departure, and both sides of run().
  std::atomic<int> meeting_ = 0;
  std::atomic<int> votes_ = 0;
  std::atomic<int> verdict_ = 0;
  ucontext_t scheduler_{};
  [[maybe_unused]] void* scheduler_tsan_ = nullptr;
  [[maybe_unused]] void* scheduler_fake_stack_ = nullptr;
  [[maybe_unused]] const void* scheduler_stack_ = nullptr;
  [[maybe_unused]] size_t scheduler_stack_bytes_ = 0;
};

thread_local std::atomic<Block*> block_of_thread = nullptr;
Block& block() {
  Block* const block = block_of_thread.load(std::memory_order_relaxed);
  if (block == nullptr) std::abort();
  return *block;
}

void Block::enter() {
  Block& own = block();
  own.enter_fiber(own.current());
}

void Block::enter_fiber(Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  meeting_.load(std::memory_order_acquire);
  body_();
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  fiber.state.store(State::kFinished, std::memory_order_relaxed);
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(scheduler_tsan_, __tsan_switch_to_fiber_no_sync);
#elif defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, scheduler_stack_, scheduler_stack_bytes_);
#endif
  setcontext(&scheduler_);
}

void Block::leave(State state) {
  Fiber& fiber = current();
  fiber.state.store(state, std::memory_order_relaxed);
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(scheduler_tsan_, __tsan_switch_to_fiber_no_sync);
#elif defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
#endif
  swapcontext(&fiber.context, &scheduler_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

void Block::run_one(Fiber& fiber) {
  current_.store(&fiber, std::memory_order_relaxed);
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(fiber.tsan, __tsan_switch_to_fiber_no_sync);
#elif defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&scheduler_fake_stack_, fiber.stack, kStackBytes);
#endif
  swapcontext(&scheduler_, &fiber.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(scheduler_fake_stack_, nullptr, nullptr);
#endif
}

// When nobody is left who has not come to it. Threads that have returned count as there.
bool Block::open_barrier() {
  bool any = false;
  for (const auto& fiber : fibers_) {
    const State state = fiber->state.load(std::memory_order_relaxed);
    if (state == State::kReady) return false;
    any |= state == State::kAtBarrier;
  }
  if (!any) return false;
  verdict_.store(votes_.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
  for (const auto& fiber : fibers_) {
    State at_barrier = State::kAtBarrier;
    fiber->state.compare_exchange_strong(at_barrier, State::kReady, std::memory_order_relaxed);
  }
  return true;
}

int Block::barrier(int value) {
  if (value != 0) votes_.store(1, std::memory_order_relaxed);
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  leave(State::kAtBarrier);
  meeting_.load(std::memory_order_acquire);
  return verdict_.load(std::memory_order_relaxed);
}

void Block::run() {
  block_of_thread.store(this, std::memory_order_relaxed);
  for (const auto& fiber : fibers_) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Block::enter, 0);
#if defined(__SANITIZE_THREAD__)
    fiber->tsan = __tsan_create_fiber(0);
#endif
  }
#if defined(__SANITIZE_THREAD__)
  scheduler_tsan_ = __tsan_get_current_fiber();
#endif
  meeting_.fetch_add(1, std::memory_order_release);
  while (true) {
    const size_t start = shuffles_ ? random() % fibers_.size() : 0;
    bool ran = false;
    for (size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = *fibers_[(start + i) % fibers_.size()];
      if (fiber.state.load(std::memory_order_relaxed) != State::kReady) continue;
      ran = true;
      run_one(fiber);
    }
    if (!ran && !open_barrier()) break;
    if (yielded_.exchange(false, std::memory_order_relaxed)) std::this_thread::yield();
  }
  meeting_.load(std::memory_order_acquire);
#if defined(__SANITIZE_THREAD__)
  for (const auto& fiber : fibers_) __tsan_destroy_fiber(fiber->tsan);
#endif
  block_of_thread.store(nullptr, std::memory_order_relaxed);
}

}  // namespace

void run_block(const std::function<void()>& body, const ThreadPlace& first, uint64_t seed) { Block(body, first, seed).run(); }

const ThreadPlace& place() { return block().current().place; }
int barrier(int value) { return block().barrier(value); }
void yield() { block().yield(); }

// The host shares flags with kernels and takes part in the protocols, outside any block.
void shuffle() {
  Block* const own = block_of_thread.load(std::memory_order_relaxed);
  if (own != nullptr && own->flip_coin()) own->yield();
}

}  // namespace cuda_sim
