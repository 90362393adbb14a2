#include "transport/verbs_settings.h"

#include <algorithm>
#include <array>

#include "base/environment.h"
#include "base/parse.h"

namespace gimbal {
namespace {

constexpr std::array<int64_t, 5> kMtus = {256, 512, 1024, 2048, 4096};

template <typename Integer>
Status read_number(std::string_view name, int64_t minimum, int64_t maximum, Integer& value) {
  ASSIGN_OR_RETURN(const int64_t number, environment_integer(name, value, minimum, maximum));
  value = static_cast<Integer>(number);
  return {};
}

}  // namespace

Result<PortFilter> PortFilter::parse(std::string_view text) {
  PortFilter filter;
  std::string_view left = text;
  if (left.starts_with('^')) {
    filter.others_ = true;
    left.remove_prefix(1);
  }
  if (left.starts_with('=')) {
    filter.exactly_ = true;
    left.remove_prefix(1);
  }
  while (true) {
    const size_t end = std::min(left.find(','), left.size());
    const std::string_view item = left.substr(0, end);
    const size_t colon = std::min(item.find(':'), item.size());
    Entry entry = {.device = std::string(item.substr(0, colon))};
    if (colon < item.size()) {
      const Result<int64_t> port = parse_integer(item.substr(colon + 1), 1, UINT8_MAX);
      if (!port.ok())
        return Status(Code::kInvalidArgument, "port of \"" + std::string(item) + "\": " + port.status().message());
      entry.port = static_cast<uint8_t>(*port);
    }
    if (entry.device.empty()) {
      return Status(Code::kInvalidArgument,
                    "\"" + std::string(text) + "\" is not a list like mlx5_0,mlx5_1 or =mlx5_0:1 or ^mlx5_2");
    }
    filter.entries_.push_back(std::move(entry));
    if (end == left.size()) return filter;
    left.remove_prefix(end + 1);
  }
}

bool PortFilter::admits(std::string_view device, uint8_t port) const {
  if (entries_.empty()) return true;
  const bool is_listed = std::ranges::any_of(entries_, [&](const Entry& entry) {
    return (exactly_ ? device == entry.device : device.starts_with(entry.device)) && (entry.port == 0 || entry.port == port);
  });
  return is_listed != others_;
}

Result<VerbsSettings> read_verbs_settings() {
  VerbsSettings settings;
  settings.port_list = read_environment("GIMBAL_IB_HCA").value_or("");
  if (!settings.port_list.empty()) {
    Result<PortFilter> filter = PortFilter::parse(settings.port_list);
    if (!filter.ok()) return Status(Code::kInvalidArgument, "GIMBAL_IB_HCA: " + filter.status().message());
    settings.ports = std::move(filter).value();
  }
  RETURN_IF_ERROR(read_number("GIMBAL_IB_GID_INDEX", 0, UINT8_MAX, settings.gid_index));
  RETURN_IF_ERROR(read_number("GIMBAL_IB_TIMEOUT", 1, 31, settings.timeout));
  RETURN_IF_ERROR(read_number("GIMBAL_IB_RETRY_COUNT", 0, 7, settings.retry_count));
  RETURN_IF_ERROR(read_number("GIMBAL_IB_SERVICE_LEVEL", 0, 15, settings.service_level));
  RETURN_IF_ERROR(read_number("GIMBAL_IB_TRAFFIC_CLASS", 0, UINT8_MAX, settings.traffic_class));
  RETURN_IF_ERROR(read_number("GIMBAL_IB_MTU", 256, 4096, settings.mtu));
  if (settings.mtu != 0 && std::ranges::find(kMtus, settings.mtu) == kMtus.end()) {
    return Status(Code::kInvalidArgument,
                  "GIMBAL_IB_MTU: " + std::to_string(settings.mtu) + " is not one of 256, 512, 1024, 2048, 4096");
  }
  RETURN_IF_ERROR(read_number("GIMBAL_IB_QUEUE_PAIRS", 1, kMaxVerbsQueuePairs, settings.queue_pairs));
  RETURN_IF_ERROR(read_number("GIMBAL_IB_RAILS", 1, kMaxVerbsRails, settings.rails));
  return settings;
}

}  // namespace gimbal
