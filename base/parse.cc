#include "base/parse.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace gimbal {
namespace {

struct Quantity {
  long double value;
  std::string unit;  // lower case
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// digits [ '.' digits ] unit
Result<Quantity> parse_quantity(std::string_view text, std::string_view allowed) {
  const Status bad(Code::kInvalidArgument, "\"" + std::string(text) + "\" is not " + std::string(allowed));
  if (text.empty() || !is_digit(text[0])) return bad;
  long double value = 0;
  size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) value = value * 10 + (text[at] - '0');
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (at == text.size() || !is_digit(text[at])) return bad;
    for (long double place = 0.1L; at < text.size() && is_digit(text[at]); ++at, place /= 10) value += place * (text[at] - '0');
  }
  return Quantity{value, lower(text.substr(at))};
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kAllowed = "a size: a number with an optional K, M, G, T or P (binary), below 8E";
  ASSIGN_OR_RETURN(Quantity quantity, parse_quantity(text, kAllowed));
  const Status bad(Code::kInvalidArgument, "\"" + std::string(text) + "\" is not " + std::string(kAllowed));
  std::string unit = quantity.unit;
  int shift = 0;
  constexpr std::string_view kUnits = "kmgtp";
  if (!unit.empty() && unit != "b") {
    const size_t index = kUnits.find(unit[0]);
    if (index == std::string_view::npos) return bad;
    const std::string rest = unit.substr(1);
    if (!rest.empty() && rest != "b" && rest != "ib") return bad;
    shift = 10 * (static_cast<int>(index) + 1);
  }
  const long double bytes = std::floor(std::ldexp(quantity.value, shift) + 1e-9L);
  if (!(bytes < std::ldexp(1.0L, 63))) return bad;
  return static_cast<uint64_t>(bytes);
}

Result<int64_t> parse_duration_ns(std::string_view text) {
  constexpr std::string_view kAllowed = "a duration: a number with an optional us, ms, s, m or h (seconds without)";
  ASSIGN_OR_RETURN(const Quantity quantity, parse_quantity(text, kAllowed));
  const Status bad(Code::kInvalidArgument, "\"" + std::string(text) + "\" is not " + std::string(kAllowed));
  long double factor = 1e9L;
  if (quantity.unit == "us") {
    factor = 1e3L;
  } else if (quantity.unit == "ms") {
    factor = 1e6L;
  } else if (quantity.unit == "m" || quantity.unit == "min") {
    factor = 60e9L;
  } else if (quantity.unit == "h") {
    factor = 3600e9L;
  } else if (!quantity.unit.empty() && quantity.unit != "s") {
    return bad;
  }
  const long double nanoseconds = quantity.value * factor;
  constexpr long double kTenYearsNs = 315'360'000e9L;
  if (nanoseconds > kTenYearsNs) return bad;
  return static_cast<int64_t>(std::llround(nanoseconds));
}

Result<int64_t> parse_duration_ms(std::string_view text) {
  ASSIGN_OR_RETURN(const int64_t nanoseconds, parse_duration_ns(text));
  return (nanoseconds + 500'000) / 1'000'000;
}

Result<int64_t> parse_integer(std::string_view text, int64_t minimum, int64_t maximum) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < minimum || value > maximum) {
    return Status(Code::kInvalidArgument, "\"" + std::string(text) + "\" is not a whole number from " +
                                              std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return value;
}

Result<bool> parse_bool(std::string_view text) {
  const std::string value = lower(text);
  if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
  if (value == "0" || value == "false" || value == "no" || value == "off") return false;
  return Status(Code::kInvalidArgument, "\"" + std::string(text) + "\" is neither 0 nor 1");
}

}  // namespace gimbal
