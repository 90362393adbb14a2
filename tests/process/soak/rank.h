// One rank of the soak: sums until a peer dies, shrinks, sums on; alone at last it leaves nothing behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gimbal::test {

enum class Plant : uint8_t { kNothing, kWrongSum, kLeak };  // the fault that the soak must find

struct SoakPlan {
  std::string rendezvous;
  std::string transport;
  uint64_t seed = 0;
  Plant plant = Plant::kNothing;
  bool may_be_refused = false;  // somebody may die before the communicator is there
};

// What a rank tells the driver. In memory that both see.
struct RankBoard {
  std::atomic<int32_t> size;  // of its communicator, once sums of it were right
  std::atomic<bool> refused;  // create failed, as it may
  std::atomic<bool> has_problem;
  char problem[400];  // written before has_problem
};

// The life of a rank, in a process of its own. Returns the exit code.
int live(const SoakPlan& plan, int32_t rank, int32_t size, RankBoard& board);

}  // namespace gimbal::test
