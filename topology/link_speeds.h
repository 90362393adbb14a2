// What links can carry, from their specifications: bounds until `tune` has measured the machine.
#pragma once

#include <string_view>

namespace gimbal {

// GB/s of one direction after line coding: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s (PCI Express Base 3.0), FLIT mode with
// 242 of 256 bytes at 64 GT/s (6.0). 0 when either is unknown.
double pci_bandwidth_gbps(double speed_gts, int width);

// GB/s of one direction between two packages, one link: Intel UPI carries 16 bits of data at 10.4 GT/s; AMD xGMI-2 16 lanes at
// 16 GT/s, coded 128b/130b as PCI Express is. Any other maker's is taken as the slower of the two.
double interconnect_bandwidth_gbps(std::string_view cpu_model);

// One NVLink's GB/s of one direction by compute capability, from the makers' totals of both directions: 160 GB/s over 4 links
// (60), 300 over 6 (70), 600 over 12 (80), 900 over 18 (90), 1800 over 18 (100). AMD's xGMI-3 has 16 lanes at 25 GT/s.
double nvlink_bandwidth_gbps(int compute_capability);
inline constexpr double kXgmiBandwidthGbps = 50;

// Latencies, for order and for the first plan: a switch chip's data sheet says 0.1 to 0.15 us (Broadcom PEX 97xx); DMA between
// a device and host memory takes 0.4 us over an idle link one way (Neugebauer et al., Understanding PCIe performance, 2018).
inline constexpr double kSwitchLatencyUs = 0.15;
inline constexpr double kHostBridgeLatencyUs = 0.4;
inline constexpr double kInterconnectLatencyUs = 0.1;  // remote less local load latency of two-package servers
inline constexpr double kNvlinkLatencyUs = 0.6;        // measured per hop by NCCL's tuning table (Volta to Hopper)

}  // namespace gimbal
