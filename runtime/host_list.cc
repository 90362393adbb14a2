#include "runtime/host_list.h"

#include <algorithm>

#include "base/parse.h"

namespace gimbal {
namespace {

Status malformed(std::string_view text, const std::string& why) {
  return {Code::kInvalidArgument, "host list \"" + std::string(text.substr(0, 200)) + "\": " + why};
}

// Zeros in front of the first number are kept: 01-10 has two digits everywhere.
std::string padded(int64_t number, size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits > text.size() ? digits - text.size() : 0, '0') + text;
}

// "01-03" or "7".
Result<std::vector<std::string>> expand_range(std::string_view range) {
  constexpr int64_t kLargest = 999'999'999;
  const size_t dash = range.find('-');
  const std::string first_text(range.substr(0, dash));
  const std::string last_text(dash == std::string_view::npos ? first_text : range.substr(dash + 1));
  ASSIGN_OR_RETURN(const int64_t first, parse_integer(first_text, 0, kLargest));
  ASSIGN_OR_RETURN(const int64_t last, parse_integer(last_text, first, kLargest));
  if (static_cast<size_t>(last - first) >= kMaxListedHosts) {
    return Status(Code::kInvalidArgument, "more than " + std::to_string(kMaxListedHosts) + " hosts");
  }
  std::vector<std::string> numbers;
  for (int64_t number = first; number <= last; ++number) numbers.push_back(padded(number, first_text.size()));
  return numbers;
}

// "01-03,7", what stands between brackets.
Result<std::vector<std::string>> expand_ranges(std::string_view ranges) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= ranges.size();) {
    const size_t end = std::min(ranges.find(',', begin), ranges.size());
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers, expand_range(ranges.substr(begin, end - begin)));
    all.insert(all.end(), numbers.begin(), numbers.end());
    if (all.size() > kMaxListedHosts) {
      return Status(Code::kInvalidArgument, "more than " + std::to_string(kMaxListedHosts) + " hosts");
    }
    begin = end + 1;
  }
  return all;
}

// One item: "node[1-2]x[3-4]" is node1x3, node1x4, node2x3, node2x4.
Result<std::vector<std::string>> expand_item(std::string_view item) {
  std::vector<std::string> names = {""};
  while (!item.empty()) {
    const size_t open = std::min(item.find('['), item.size());
    for (std::string& name : names) name.append(item.substr(0, open));
    item.remove_prefix(open);
    if (item.empty()) break;
    const size_t close = item.find(']');
    if (close == std::string_view::npos) return Status(Code::kInvalidArgument, "a bracket is not closed");
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers, expand_ranges(item.substr(1, close - 1)));
    item.remove_prefix(close + 1);
    if (names.size() * numbers.size() > kMaxListedHosts) {
      return Status(Code::kInvalidArgument, "more than " + std::to_string(kMaxListedHosts) + " hosts");
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
  }
  return names;
}

// The comma that ends the item at `begin`, or the end: commas between brackets do not count.
size_t end_of_item(std::string_view text, size_t begin) {
  bool inside = false;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return i;
  }
  return text.size();
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  constexpr size_t kLongestName = 253;  // RFC 1035's limit
  std::vector<std::string> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = end_of_item(text, begin);
    Result<std::vector<std::string>> item = expand_item(text.substr(begin, end - begin));
    if (!item.ok()) return malformed(text, item.status().message());
    for (std::string& name : *item) {
      if (name.empty() || name.size() > kLongestName)
        return malformed(text, "a name has " + std::to_string(name.size()) + " bytes");
      hosts.push_back(std::move(name));
    }
    if (hosts.size() > kMaxListedHosts) return malformed(text, "more than " + std::to_string(kMaxListedHosts) + " hosts");
    begin = end + 1;
  }
  return hosts;
}

}  // namespace gimbal
