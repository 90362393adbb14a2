#include "topology/link_speeds.h"

namespace gimbal {
namespace {

constexpr double kBitsPerByte = 8;

double coding_efficiency(double speed_gts) {
  if (speed_gts >= 64) return 242.0 / 256.0;
  return speed_gts >= 8 ? 128.0 / 130.0 : 0.8;
}

}  // namespace

double pci_bandwidth_gbps(double speed_gts, int width) {
  if (speed_gts <= 0 || width <= 0) return 0;
  return speed_gts * coding_efficiency(speed_gts) * width / kBitsPerByte;
}

double interconnect_bandwidth_gbps(std::string_view cpu_model) {
  constexpr double kUpi = 10.4 * 16 / kBitsPerByte;
  if (cpu_model.find("AMD") != std::string_view::npos) return pci_bandwidth_gbps(16, 16);
  return kUpi;
}

double nvlink_bandwidth_gbps(int compute_capability) {
  if (compute_capability >= 100) return 50;
  return compute_capability >= 70 ? 25 : 20;
}

}  // namespace gimbal
