#include "dataset.h"

#include <charconv>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace digits {
namespace {

constexpr size_t kHeldOutEvery = 5;
constexpr size_t kMaximumPixel = 16;

// Takes the number in front of the next comma off `text`; false unless it is at most `maximum`.
bool take_number(std::string_view& text, size_t maximum, uint8_t& number) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value > maximum) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  number = static_cast<uint8_t>(value);
  if (text.empty()) return true;
  if (text.front() != ',') return false;
  text.remove_prefix(1);
  return true;
}

bool parse_example(std::string_view line, Example& example) {
  for (uint8_t& pixel : example.pixels) {
    if (!take_number(line, kMaximumPixel, pixel) || line.empty()) return false;
  }
  return take_number(line, kClasses - 1, example.label) && line.empty();
}

}  // namespace

Dataset load_dataset(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("data set " + path + " cannot be opened");
  Dataset dataset;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    Example example;
    if (!parse_example(line, example)) {
      throw std::runtime_error(path + " line " + std::to_string(number) + " is not 64 pixels of 0 to 16 and a digit");
    }
    (number % kHeldOutEvery == 0 ? dataset.held_out : dataset.train).push_back(example);
  }
  if (dataset.held_out.empty()) throw std::runtime_error("data set " + path + " has fewer than 5 examples");
  return dataset;
}

}  // namespace digits
