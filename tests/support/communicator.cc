#include "tests/support/communicator.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace gimbal::test {
namespace {

void check(gimbal_status_t status) {
  if (status != GIMBAL_OK) throw std::runtime_error(std::string(gimbal_status_name(status)) + ": " + gimbal_last_error());
}

}  // namespace

gimbal_config_t rank_config(const RankContext& context) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  config.rank = context.rank;
  config.size = context.size;
  config.rendezvous = context.rendezvous.c_str();
  config.timeout_ms = kTimeoutMs;
  config.connect_timeout_ms = kTimeoutMs;
  return config;
}

Communicator::Communicator(const RankContext& context, const std::string& algorithm) {
  gimbal_config_t config = rank_config(context);
  const std::string forced = "all_reduce:" + algorithm;
  if (!algorithm.empty()) config.algorithm = forced.c_str();
  check(gimbal_comm_create(&config, &comm_));
}

Communicator::Communicator(const gimbal_config_t& config) { check(gimbal_comm_create(&config, &comm_)); }

// The status is not looked at: the tests of destroy call it themselves.
Communicator::~Communicator() { gimbal_comm_destroy(comm_); }

int32_t Communicator::rank() const {
  int32_t rank = -1;
  check(gimbal_comm_rank(comm_, &rank));
  return rank;
}

int32_t Communicator::size() const {
  int32_t size = -1;
  check(gimbal_comm_size(comm_, &size));
  return size;
}

void Communicator::all_reduce(const void* send, void* recv, size_t count, gimbal_dtype_t dtype, gimbal_op_t op) {
  check(gimbal_all_reduce(send, recv, count, dtype, op, comm_, nullptr));
}

bool Communicator::equal_on_all_ranks(std::span<const std::byte> bytes) {
  const uint64_t own = hash_bytes(bytes);
  std::vector<uint64_t> hashes(static_cast<size_t>(size()));
  check(gimbal_all_gather(&own, hashes.data(), 1, GIMBAL_UINT64, comm_, nullptr));
  return std::all_of(hashes.begin(), hashes.end(), [&](uint64_t hash) { return hash == own; });
}

uint64_t hash_bytes(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace gimbal::test
