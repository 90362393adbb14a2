#include "topology/bus_id.h"

#include <charconv>
#include <cstdio>

namespace gimbal {
namespace {

// The hexadecimal number before the separator, which is taken too; the rest of the text when there is no separator ('\0').
template <typename T>
std::optional<T> take_hexadecimal(std::string_view& text, char separator) {
  const size_t end = separator == '\0' ? text.size() : text.find(separator);
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  T value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + end, value, 16);
  if (error != std::errc() || stop != text.data() + end) return std::nullopt;
  text.remove_prefix(separator == '\0' ? end : end + 1);
  return value;
}

}  // namespace

std::optional<BusId> parse_bus_id(std::string_view text) {
  BusId id;
  if (text.find(':') != text.rfind(':')) {
    const auto domain = take_hexadecimal<uint32_t>(text, ':');
    if (!domain) return std::nullopt;
    id.domain = *domain;
  }
  const auto bus = take_hexadecimal<uint8_t>(text, ':');
  const auto device = bus ? take_hexadecimal<uint8_t>(text, '.') : std::nullopt;
  const auto function = device ? take_hexadecimal<uint8_t>(text, '\0') : std::nullopt;
  if (!function) return std::nullopt;
  id.bus = *bus;
  id.device = *device;
  id.function = *function;
  return id;
}

std::string format(const BusId& id) {
  char text[32];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", id.domain, id.bus, id.device, id.function);
  return text;
}

}  // namespace gimbal
