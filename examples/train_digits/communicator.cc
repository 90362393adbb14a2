#include "communicator.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace digits {
namespace {

bool started_by_launcher() {
  constexpr const char* kRankVariables[] = {"GIMBAL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  return std::any_of(std::begin(kRankVariables), std::end(kRankVariables),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

void check(gimbal_status_t status) {
  if (status != GIMBAL_OK) throw std::runtime_error(std::string(gimbal_status_name(status)) + ": " + gimbal_last_error());
}

Communicator::Communicator() {
  if (started_by_launcher()) {
    check(gimbal_comm_create(nullptr, &comm_));
  } else {
    gimbal_config_t config = GIMBAL_CONFIG_INIT;
    config.rank = 0;
    config.size = 1;
    check(gimbal_comm_create(&config, &comm_));
  }
  check(gimbal_comm_rank(comm_, &rank_));
  check(gimbal_comm_size(comm_, &size_));
}

// The status is not looked at: destroy frees whatever state the communicator is in.
Communicator::~Communicator() { gimbal_comm_destroy(comm_); }

double Communicator::sum(double value) {
  check(gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT64, GIMBAL_SUM, comm_, nullptr));
  return value;
}

int64_t Communicator::sum(int64_t value) {
  check(gimbal_all_reduce(&value, &value, 1, GIMBAL_INT64, GIMBAL_SUM, comm_, nullptr));
  return value;
}

double Communicator::max(double value) {
  check(gimbal_all_reduce(&value, &value, 1, GIMBAL_FLOAT64, GIMBAL_MAX, comm_, nullptr));
  return value;
}

std::vector<uint64_t> Communicator::all_gather(uint64_t value) {
  std::vector<uint64_t> values(static_cast<size_t>(size_));
  check(gimbal_all_gather(&value, values.data(), 1, GIMBAL_UINT64, comm_, nullptr));
  return values;
}

}  // namespace digits
