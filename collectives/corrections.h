// Residual factors: what measurements say of a way, over what the cost model says of it.
//
// A factor holds for the size where it was measured and, between two sizes, for those between them (linear over the logarithm);
// beyond the last one it stays as it is. A way that was not measured has the factor 1.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/types.h"
#include "collectives/way.h"

namespace gimbal {

struct Correction {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  Protocol protocol = Protocol::kOneShot;
  size_t bytes = 0;
  double factor = 1;
};

class Corrections {
 public:
  // A second factor for the same place replaces the first.
  void add(const Correction& correction);

  [[nodiscard]] bool empty() const { return factors_.empty(); }
  [[nodiscard]] bool has(const Way& way, Collective collective) const;
  [[nodiscard]] double factor(const Way& way, Collective collective, size_t bytes) const;
  // By collective, algorithm, protocol, bytes.
  [[nodiscard]] std::vector<Correction> all() const;

 private:
  using Key = std::tuple<Collective, std::string, Protocol>;
  std::map<Key, std::map<size_t, double>> factors_;
};

}  // namespace gimbal
