// The machine's limit of an all-reduce of two ranks: two threads on shared pages with the least synchronisation that an
// all-reduce has, one flag each way before (the peer's input is there) and one after (the peer no longer reads mine, and has
// written its part of my output). Measured by the method that the libraries are measured by.
//
//   two-shot   each rank adds one half of both inputs and stores the sums into both outputs
//   one-shot   each rank reads both inputs whole and writes its own output
//
// Each with ordinary and with streaming stores. The variant is the first argument: one-shot, one-shot-streaming, two-shot or
// two-shot-streaming; compare takes the fastest at each size.
#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/compare/limit_kernels.h"
#include "bench/compare/method.h"

namespace compare {
namespace {

constexpr size_t kRanks = 2;

// A multiple of the 64-byte line, so that two halves of streaming stores never meet in one line.
constexpr size_t kHalfGranule = 16;

enum class Shots { kOne, kTwo };

struct Variant {
  std::string_view name;
  Shots shots;
  Stores stores;
};

constexpr std::array<Variant, 4> kVariants = {{{"one-shot", Shots::kOne, Stores::kOrdinary},
                                               {"one-shot-streaming", Shots::kOne, Stores::kStreaming},
                                               {"two-shot", Shots::kTwo, Stores::kOrdinary},
                                               {"two-shot-streaming", Shots::kTwo, Stores::kStreaming}}};

// What one rank shows the other. The flag has its line to itself: it is all that is written per meeting.
struct alignas(128) Desk {
  std::atomic<uint64_t> meetings{0};
  alignas(128) float* send = nullptr;
  float* recv = nullptr;
  double* values = nullptr;
};

struct Machine {
  std::array<Desk, kRanks> desks;
  Variant variant;
};

struct Seat {
  Machine* machine;
  size_t rank;

  Desk& mine() const { return machine->desks[rank]; }
  Desk& peer() const { return machine->desks[1 - rank]; }

  // Both ranks have come. Release and acquire: what each wrote before is visible to the other after.
  void meet() const {
    const uint64_t meeting = mine().meetings.load(std::memory_order_relaxed) + 1;
    mine().meetings.store(meeting, std::memory_order_release);
    while (peer().meetings.load(std::memory_order_acquire) < meeting) {
      // On the machine of the benchmark both ranks have a CPU of their own, and nothing is faster than looking.
    }
  }
};

Seat& seat_of(void* context) { return *static_cast<Seat*>(context); }

int barrier(void* context) {
  seat_of(context).meet();
  return 0;
}

// The pointers were shown by allocate(); the ranks' buffers are the same in every iteration.
int all_reduce(void* context, const float* send, float* recv, size_t count) {
  const Seat& seat = seat_of(context);
  const Variant& variant = seat.machine->variant;
  const Desk& peer = seat.peer();
  seat.meet();
  if (variant.shots == Shots::kOne) {
    add_into_one(send, peer.send, recv, count, variant.stores);
  } else {
    const size_t middle = std::min(count, (count / 2 + kHalfGranule - 1) / kHalfGranule * kHalfGranule);
    const size_t begin = seat.rank == 0 ? 0 : middle;
    const size_t end = seat.rank == 0 ? middle : count;
    add_into_two(send + begin, peer.send + begin, recv + begin, peer.recv + begin, end - begin, variant.stores);
  }
  seat.meet();
  return 0;
}

int max(void* context, double* values, size_t count) {
  const Seat& seat = seat_of(context);
  std::vector<double> own(values, values + count);
  seat.mine().values = own.data();
  seat.meet();
  const double* theirs = seat.peer().values;
  for (size_t i = 0; i < count; ++i) values[i] = std::max(own[i], theirs[i]);
  seat.meet();  // own lives until the peer has read it
  return 0;
}

// The method allocates the input first, then the output.
int allocate(void* context, size_t bytes, float** buffer) {
  Desk& mine = seat_of(context).mine();
  const int status = method_allocate_pages(bytes, buffer);
  if (mine.send == nullptr) {
    mine.send = *buffer;
  } else {
    mine.recv = *buffer;
  }
  return status;
}

int run(const Variant& variant, const MethodOptions& options) {
  Machine machine{{}, variant};
  std::array<int, kRanks> statuses{};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&machine, &options, &statuses, rank] {
      Seat seat{&machine, rank};
      const MethodDriver driver = {&seat, static_cast<int>(rank), kRanks, barrier, all_reduce, max, allocate};
      statuses[rank] = method_run(&driver, &options);
      // The peer would wait for ever for a rank that has given up.
      if (statuses[rank] != 0) exit(statuses[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(statuses.begin(), statuses.end());
}

}  // namespace
}  // namespace compare

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto variant = std::find_if(compare::kVariants.begin(), compare::kVariants.end(),
                                    [name](const compare::Variant& candidate) { return candidate.name == name; });
  if (variant == compare::kVariants.end()) {
    return method_usage("the first argument is not one-shot, one-shot-streaming, two-shot or two-shot-streaming");
  }
  MethodOptions options;
  const int status = method_parse(argc - 1, argv + 1, &options);
  return status != 0 ? status : compare::run(*variant, options);
}
