// Axes of plots: values to places, and where to put ticks.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace gimbal {

struct Extent {
  double least;
  double most;
};

// From a power of ten to a power of ten; one decade at least.
inline Extent rounded_out(double least, double most) {
  if (least <= 0 || most <= 0) return {1, 10};
  const double low = std::floor(std::log10(least));
  const double high = std::max(low + 1, std::ceil(std::log10(most)));
  return {std::pow(10, low), std::pow(10, high)};
}

class LogAxis {
 public:
  // Ticks at the powers of `base`.
  LogAxis(Extent values, double low, double high, double base) : values_(values), low_(low), high_(high), base_(base) {}

  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] double at(double value) const {
    const double share = std::log(value / values_.least) / std::log(values_.most / values_.least);
    return low_ + (high_ - low_) * share;
  }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> ticks;
    constexpr double kRounding = 1 + 1e-9;
    for (double tick = values_.least; tick <= values_.most * kRounding; tick *= base_) ticks.push_back(tick);
    return ticks;
  }

 private:
  Extent values_;
  double low_;
  double high_;
  double base_;
};

// "0.5", "32", "1.5M".
inline std::string short_number(double value) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G"}) {
    if (value < 1e4) break;
    value /= 1e3;
    unit = next;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g%s", value, unit);
  return text;
}

}  // namespace gimbal
