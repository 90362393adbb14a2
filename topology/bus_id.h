// A PCI address, as files, sysfs and drivers write it: "0000:3b:00.0". Ordered as devices are numbered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace gimbal {

struct BusId {
  uint32_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;
  uint8_t function = 0;

  bool operator==(const BusId&) const = default;
  bool operator<(const BusId& other) const {
    return std::tie(domain, bus, device, function) < std::tie(other.domain, other.bus, other.device, other.function);
  }
};

// domain:bus:device.function in hexadecimal, either case; the domain may be missing (0).
std::optional<BusId> parse_bus_id(std::string_view text);

std::string format(const BusId& id);

}  // namespace gimbal
