// Times every way of carrying out one all-reduce over shared memory, size by size: the table behind runtime/choice.cc.
//
//   bench_node_direct [ranks] [rounds] [least KiB]
//
// Ranks are processes. Inputs are rewritten and outputs read in every iteration; a flag barrier comes before; the time of an
// iteration is the slowest rank's; the median over iterations is printed in us. Variants are interleaved within a round.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "runtime/staged_exchange.h"

namespace gimbal {
namespace {

constexpr size_t kLargestBytes = size_t{64} << 20;

struct Variant {
  std::string name;
  StagedChoice choice;
};

struct Arena {  // anonymous shared memory beside the node's
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> wrong;
  std::atomic<uint64_t> slowest_ns[4096];
};

// Named as "2shot 256K css": chunk, stores to the stage, to the result slot (two shots) and to the output.
std::vector<Variant> variants() {
  constexpr std::array<StoreMode, 2> kModes = {StoreMode::kCached, StoreMode::kStreaming};
  const auto letter = [](StoreMode mode) { return mode == StoreMode::kCached ? "c" : "s"; };
  std::vector<Variant> all;
  for (const bool two_shot : {false, true}) {
    for (const size_t chunk : {8, 16, 32, 64, 128, 256}) {
      for (const StoreMode stage : kModes) {
        for (const StoreMode result : kModes) {
          if (!two_shot && result == StoreMode::kStreaming) continue;
          for (const StoreMode output : kModes) {
            const std::string name = std::string(two_shot ? "2shot " : "1shot ") + std::to_string(chunk) + "K " +
                                     letter(stage) + (two_shot ? letter(result) : "") + letter(output);
            all.push_back({name, {chunk << 10, two_shot, stage, result, output}});
          }
        }
      }
    }
  }
  return all;
}

void barrier(Arena& arena, uint32_t& round, uint32_t ranks) {
  ++round;
  arena.arrived.fetch_add(1, std::memory_order_acq_rel);
  while (arena.arrived.load(std::memory_order_acquire) < round * ranks) {
  }
}

// On a page, as large buffers of most programs are; lives as long as the process.
float* allocate() {
  auto* const buffer = static_cast<float*>(std::aligned_alloc(4096, kLargestBytes));
  if (buffer == nullptr) std::abort();
  std::fill_n(buffer, kLargestBytes / sizeof(float), 0.0F);
  return buffer;
}

void run_rank(NodeMemory& memory, Arena& arena, Rank rank, size_t rounds, size_t least_bytes) {
  NodeContext context(memory, rank, SumOrder::kRankOrder);
  const auto ranks = static_cast<uint32_t>(memory.layout().nranks);
  float* const send = allocate();
  float* const recv = allocate();
  uint32_t arrivals = 0;
  uint32_t sequence = 0;
  const std::vector<Variant> all = variants();
  for (size_t bytes = least_bytes; bytes <= kLargestBytes; bytes *= 2) {
    const size_t count = bytes / sizeof(float);
    const size_t iterations = std::clamp<size_t>((size_t{16} << 20) / bytes, 3, 200);
    std::vector<std::pair<double, std::string>> results;
    for (const Variant& variant : all) {
      if (variant.choice.chunk_bytes > bytes && variant.choice.chunk_bytes > (size_t{8} << 10)) continue;
      std::vector<double> medians;
      for (size_t round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < iterations; ++i) {
          const float value = static_cast<float>(rank + static_cast<Rank>(i % 64));
          std::fill_n(send, count, value);
          if (rank == 0) arena.slowest_ns[i].store(0);
          barrier(arena, arrivals, ranks);
          Call call;
          call.collective = Collective::kAllReduce;
          call.send = send;
          call.recv = recv;
          call.count = count;
          call.dtype = DType::kFloat32;
          const int64_t begin = monotonic_ns();
          const Signature signature = make_signature(call, ++sequence);
          StagedExchange operation(context, call, signature, find_reduce(call.dtype, call.op), variant.choice);
          while (true) {
            Result<Progress> progress = operation.progress();
            if (!progress.ok()) std::abort();
            if (*progress == Progress::kDone) break;
          }
          const auto took = static_cast<uint64_t>(monotonic_ns() - begin);
          uint64_t seen = arena.slowest_ns[i].load();
          while (seen < took && !arena.slowest_ns[i].compare_exchange_weak(seen, took)) {
          }
          const uint32_t sum_of_ranks = ranks * (ranks - 1) / 2;
          const auto expected = static_cast<float>(sum_of_ranks + ranks * static_cast<uint32_t>(i % 64));
          if (std::any_of(recv, recv + count, [&](float x) { return x != expected; })) {
            arena.wrong.fetch_add(1);
          }
          barrier(arena, arrivals, ranks);
        }
        std::vector<uint64_t> times;
        for (size_t i = 0; i < iterations; ++i) times.push_back(arena.slowest_ns[i].load());
        barrier(arena, arrivals, ranks);
        std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(iterations / 2), times.end());
        medians.push_back(static_cast<double>(times[iterations / 2]) / 1000);
      }
      std::sort(medians.begin(), medians.end());
      results.emplace_back(medians[medians.size() / 2], variant.name);
    }
    if (rank != 0) continue;
    std::sort(results.begin(), results.end());
    std::printf("%9zu", bytes);
    for (size_t i = 0; i < std::min<size_t>(results.size(), 6); ++i)
      std::printf("  | %9.2f %-15s", results[i].first, results[i].second.c_str());
    std::printf("  | worst %9.2f %s\n", results.back().first, results.back().second.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace gimbal

int main(int argc, char** argv) {
  using namespace gimbal;
  NodeLayout layout;
  layout.nranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const size_t rounds = argc > 2 ? static_cast<size_t>(std::atoi(argv[2])) : 3;
  const size_t least_bytes = (argc > 3 ? static_cast<size_t>(std::atoi(argv[3])) : 8) << 10;
  Result<std::shared_ptr<SharedSegment>> segment = SharedSegment::create("bench", layout.segment_bytes());
  if (!segment.ok()) return 1;
  NodeMemory memory(*segment, layout);
  void* const shared = mmap(nullptr, sizeof(Arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const arena = static_cast<Arena*>(shared);
  for (Rank rank = 1; rank < layout.nranks; ++rank) {
    if (fork() == 0) {
      run_rank(memory, *arena, rank, rounds, least_bytes);
      _exit(0);
    }
  }
  run_rank(memory, *arena, 0, rounds, least_bytes);
  for (Rank rank = 1; rank < layout.nranks; ++rank) wait(nullptr);
  std::printf("wrong results: %u\n", arena->wrong.load());
  return arena->wrong.load() == 0 ? 0 : 1;
}
