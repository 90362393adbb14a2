// All ranks of a job as one process: a full mesh of shared-memory endpoints on ordinary memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/parking.h"
#include "transport/shm_endpoint.h"

namespace gimbal::test {

struct MeshOptions {
  Rank nranks = 2;
  size_t slot_bytes = 256;
  size_t window = 2;
  Channel channels = 1;
};

class Mesh {
 public:
  explicit Mesh(const MeshOptions& options) : options_(options), doorbells_(static_cast<size_t>(options.nranks)) {
    const auto n = static_cast<size_t>(options.nranks);
    by_rank_.assign(n, std::vector<Endpoint*>(n, nullptr));
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < a; ++b) {
        const std::span<std::byte> up = add_lane();
        const std::span<std::byte> down = add_lane();
        connect(a, b, up, down);
        connect(b, a, down, up);
      }
    }
  }

  // One rank's, by peer; null for itself.
  [[nodiscard]] std::span<Endpoint* const> endpoints(Rank rank) const { return by_rank_[static_cast<size_t>(rank)]; }
  // Puts another endpoint, which must outlive the mesh's use, in the place of one.
  void replace(Rank rank, Rank peer, Endpoint* endpoint) {
    by_rank_[static_cast<size_t>(rank)][static_cast<size_t>(peer)] = endpoint;
  }

 private:
  struct alignas(64) CacheLine {
    std::array<std::byte, 64> bytes;
  };

  std::span<std::byte> add_lane() {
    const size_t bytes = ShmEndpoint::lane_bytes(options_.channels, options_.slot_bytes, options_.window);
    lanes_.emplace_back((bytes + sizeof(CacheLine) - 1) / sizeof(CacheLine), CacheLine{});
    return std::as_writable_bytes(std::span(lanes_.back())).first(bytes);
  }

  void connect(size_t rank, size_t peer, std::span<std::byte> send_lane, std::span<std::byte> receive_lane) {
    const ShmEndpointOptions options = {.peer = static_cast<Rank>(peer),
                                        .channels = options_.channels,
                                        .slot_bytes = options_.slot_bytes,
                                        .window = options_.window,
                                        .cost = {}};
    owned_.push_back(std::make_unique<ShmEndpoint>(options, send_lane, receive_lane, lot_, doorbells_[peer]));
    by_rank_[rank][peer] = owned_.back().get();
  }

  const MeshOptions options_;
  ParkingLot lot_{};
  std::vector<Doorbell> doorbells_;
  std::vector<std::vector<CacheLine>> lanes_;
  std::vector<std::unique_ptr<Endpoint>> owned_;
  std::vector<std::vector<Endpoint*>> by_rank_;
};

}  // namespace gimbal::test
