// Ranks as threads of the test: run_ranks(p, body) runs body(rank) on p threads and returns what each returned.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/types.h"
#include "transport/job_key.h"

namespace gimbal::testing {

template <typename Body>
auto run_ranks(Rank ranks, const Body& body) {
  using Value = decltype(body(Rank{0}));
  std::vector<std::optional<Value>> slots(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { slots[static_cast<size_t>(rank)].emplace(body(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Value> values;
  for (std::optional<Value>& slot : slots) values.push_back(*std::move(slot));
  return values;
}

// Differs in every call: tests run at the same time as other jobs.
inline std::string unique_name() { return "test-" + to_hex(random_nonce()); }

}  // namespace gimbal::testing
