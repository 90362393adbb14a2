// Communicators' meshes for tests: one rank, or all of them as threads.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/transport/rank_threads.h"
#include "transport/bootstrap.h"

namespace gimbal::testing {

inline constexpr int64_t kPatienceMs = 30'000;

inline Deadline soon() { return Deadline::after_ms(kPatienceMs); }

struct Joined {
  Status status;
  std::unique_ptr<Bootstrap> mesh;
};

// Opens the store and connects as a trainer's rank does.
inline Joined join_as(const std::string& rendezvous, BootstrapOptions options, int64_t timeout_ms = kPatienceMs) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  options.name = "world";
  if (options.version == 0) options.version = 0x000100;
  Result<std::unique_ptr<Store>> store = open_store(rendezvous, options.rank, options.job_key, deadline);
  if (!store.ok()) return {.status = store.status(), .mesh = nullptr};
  Result<std::unique_ptr<Bootstrap>> mesh = Bootstrap::connect(**store, options, Log(LogLevel::kError), deadline);
  if (!mesh.ok()) return {.status = mesh.status(), .mesh = nullptr};
  return {.status = {}, .mesh = std::move(mesh).value()};
}

inline std::vector<std::unique_ptr<Bootstrap>> make_meshes(Rank ranks, const std::string& rendezvous) {
  std::vector<Joined> joined = run_ranks(ranks, [&](Rank rank) {
    return join_as(rendezvous, {.rank = rank, .size = ranks, .job_key = "secret", .name = "", .version = 0});
  });
  std::vector<std::unique_ptr<Bootstrap>> meshes;
  for (Joined& one : joined) {
    EXPECT_TRUE(one.status.ok()) << one.status.message();
    meshes.push_back(std::move(one.mesh));
  }
  return meshes;
}

}  // namespace gimbal::testing
