// The handwritten digits of examples/data/digits.csv, split into a training part and a held-out fifth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace digits {

inline constexpr size_t kPixels = 64;
inline constexpr size_t kClasses = 10;

struct Example {
  uint8_t pixels[kPixels];  // 0 to 16
  uint8_t label;            // 0 to 9
};

struct Dataset {
  std::vector<Example> train;
  std::vector<Example> held_out;  // every fifth line of the file
};

// Throws std::runtime_error that names the file and line of what is not a digit.
Dataset load_dataset(const std::string& path);

// Examples as a network reads them: inputs[count x kPixels] scaled to 0..1.
template <typename T>
struct Batch {
  std::vector<T> inputs;
  std::vector<uint8_t> labels;

  [[nodiscard]] size_t size() const { return labels.size(); }
};

// The examples that `order` names.
template <typename T>
Batch<T> gather(std::span<const Example> examples, std::span<const size_t> order) {
  Batch<T> batch;
  batch.inputs.reserve(order.size() * kPixels);
  batch.labels.reserve(order.size());
  for (const size_t index : order) {
    for (const uint8_t pixel : examples[index].pixels) batch.inputs.push_back(static_cast<T>(pixel) / 16);
    batch.labels.push_back(examples[index].label);
  }
  return batch;
}

// The part of `items` that belongs to `rank` of `size`: consecutive, in rank order, lengths differ by at most one.
template <typename T>
std::span<const T> slice_of(std::span<const T> items, int32_t rank, int32_t size) {
  const auto r = static_cast<size_t>(rank);
  const auto n = static_cast<size_t>(size);
  const size_t begin = items.size() * r / n;
  return items.subspan(begin, items.size() * (r + 1) / n - begin);
}

}  // namespace digits
