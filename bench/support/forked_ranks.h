// Ranks of a benchmark as forked processes, which write what they measured into memory that all share.
//
// The caller must not have threads or a communicator when it forks (gimbal.h, convention 9).
#pragma once

#include <gimbal/gimbal.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

double monotonic_seconds();

// Exits with the library's sentence when status is not GIMBAL_OK.
void require_ok(gimbal_status_t status, const char* what);

// A communicator of `size` forked ranks that meet under `rendezvous`.
gimbal_comm_t create_comm(int32_t rank, int32_t size, const std::string& rendezvous);

// A name that no other run uses: "unix://<prefix>-<process>-<counter>".
std::string unique_rendezvous(const std::string& prefix);

// Forks `size` ranks, lets them go together, and returns what each returned. Exits when one of them failed.
std::vector<double> run_forked(int32_t size, const std::function<double(int32_t rank)>& rank_main);

}  // namespace bench
