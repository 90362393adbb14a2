#include "collectives/corrections.h"

#include <algorithm>
#include <cmath>

namespace gimbal {

void Corrections::add(const Correction& correction) {
  factors_[{correction.collective, correction.algorithm, correction.protocol}][correction.bytes] = correction.factor;
}

bool Corrections::has(const Way& way, Collective collective) const {
  return factors_.count({collective, std::string(way.algorithm), way.protocol}) != 0;
}

double Corrections::factor(const Way& way, Collective collective, size_t bytes) const {
  const auto found = factors_.find({collective, std::string(way.algorithm), way.protocol});
  if (found == factors_.end()) return 1;
  const std::map<size_t, double>& by_size = found->second;
  const auto above = by_size.lower_bound(bytes);
  if (above == by_size.end()) return by_size.rbegin()->second;
  if (above == by_size.begin() || above->first == bytes) return above->second;
  const auto below = std::prev(above);
  const auto place = [](size_t size) { return std::log2(static_cast<double>(std::max<size_t>(1, size))); };
  const double share = (place(bytes) - place(below->first)) / (place(above->first) - place(below->first));
  return below->second + share * (above->second - below->second);
}

std::vector<Correction> Corrections::all() const {
  std::vector<Correction> list;
  for (const auto& [key, by_size] : factors_) {
    const auto& [collective, algorithm, protocol] = key;
    for (const auto& [bytes, factor] : by_size) list.push_back({collective, algorithm, protocol, bytes, factor});
  }
  return list;
}

}  // namespace gimbal
