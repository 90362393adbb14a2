// The device's reduction gives the bits of the CPU's, which tests/unit/kernels holds to its reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/reduce.h"
#include "tests/unit/cuda/device.h"

namespace gimbal::test {
namespace {

struct Case {
  DType dtype;
  ReduceOp op;
  size_t count;
  size_t sources;
  size_t destinations;
  size_t misalignment;  // elements before each array
  bool mixes_forms;
  bool weighs;
  Form form;
};

std::string describe(const Case& c) {
  return std::string(dtype_name(c.dtype)) + " " + std::string(reduce_op_name(c.op)) + " " + std::to_string(c.sources) + " x " +
         std::to_string(c.count) + ", misaligned " + std::to_string(c.misalignment) + (c.mixes_forms ? ", mixed" : "") +
         (c.form == Form::kPartial ? " to partials" : "");
}

// On both sides: the CPU's sum, and the device's.
std::string difference(const Case& c) {
  const size_t sizes[] = {dtype_size(c.dtype), dtype_size(accumulator_type(c.dtype, c.op))};
  const size_t before = c.misalignment;
  std::mt19937_64 random(c.count * 31 + c.sources);
  std::vector<std::vector<std::byte>> arrays;
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> copies;
  std::vector<ReduceSource> sources;
  device::DeviceReduceArguments arguments{};
  for (size_t s = 0; s < c.sources; ++s) {
    const Form form = c.mixes_forms && s % 2 == 0 ? Form::kPartial : Form::kElement;
    const size_t size = sizes[static_cast<size_t>(form)];
    auto& array = arrays.emplace_back((before + c.count) * size);
    for (std::byte& byte : array) byte = static_cast<std::byte>(random());
    copies.push_back(std::make_unique<DeviceArray<std::byte>>(array));
    const double weight = c.weighs ? 0.3 * static_cast<double>(s + 1) : 1;
    sources.push_back({array.data() + before * size, form, weight});
    arguments.sources[s] = {copies.back()->get() + before * size, weight, form};
  }
  const size_t out_size = sizes[static_cast<size_t>(c.form)];
  std::vector<std::byte> expected(c.count * out_size);
  void* const to = expected.data();
  const double divisor = c.op == ReduceOp::kAvg ? static_cast<double>(c.sources) : 1;
  find_reduce(c.dtype, c.op)(
      {.sources = sources, .destinations = {&to, 1}, .destination_form = c.form, .count = c.count, .divisor = divisor});
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> outputs;
  for (size_t d = 0; d < c.destinations; ++d) {
    outputs.push_back(std::make_unique<DeviceArray<std::byte>>((before + c.count + 1) * out_size));
    arguments.destinations[d] = outputs.back()->get() + before * out_size;
  }
  arguments.source_count = static_cast<uint32_t>(c.sources);
  arguments.destination_count = static_cast<uint32_t>(c.destinations);
  arguments.destination_form = c.form;
  arguments.op = c.op;
  arguments.count = c.count;
  arguments.divisor = divisor;
  const Stream stream;
  if (device::launch_reduce(c.dtype, arguments, {2, 8}, stream.get()) != cudaSuccess) return describe(c) + ": refused";
  if (stream.finish() != cudaSuccess) return describe(c) + ": failed";
  for (const auto& output : outputs) {
    const auto bytes = output->read();
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(before * out_size);
    const auto [right, wrong] = std::mismatch(expected.begin(), expected.end(), begin);
    if (right != expected.end()) return describe(c) + ": wrong at byte " + std::to_string(right - expected.begin());
    const bool clean = std::all_of(bytes.begin(), begin, [](std::byte byte) { return byte == std::byte{0}; }) &&
                       std::all_of(bytes.end() - static_cast<std::ptrdiff_t>(out_size), bytes.end(),
                                   [](std::byte byte) { return byte == std::byte{0}; });
    if (!clean) return describe(c) + ": wrote around the output";
  }
  return {};
}

template <typename Try>
void for_every_type_and_operation(const Try& attempt) {
  for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      if (is_supported(static_cast<DType>(dtype), static_cast<ReduceOp>(op))) {
        attempt(static_cast<DType>(dtype), static_cast<ReduceOp>(op));
      }
    }
  }
}

TEST(DeviceReduce, EveryTypeAndOperationGivesTheBitsOfTheCpu) {
  for_every_type_and_operation([](DType dtype, ReduceOp op) {
    for (const size_t sources : {1, 2, 5, 16}) {
      ASSERT_EQ(difference({dtype, op, 1000 / sources, sources, 1 + sources % 2, 0, false, false, Form::kElement}), "");
      ASSERT_EQ(difference({dtype, op, 97, sources, 1, sources % 4, false, false, Form::kElement}), "");
    }
  });
}

TEST(DeviceReduce, OperandsAndResultsOfTheAccumulatorsTypeGiveTheBitsOfTheCpu) {
  for_every_type_and_operation([](DType dtype, ReduceOp op) {
    const bool weighs = is_floating(dtype) && (op == ReduceOp::kSum || op == ReduceOp::kAvg);
    ASSERT_EQ(difference({dtype, op, 200, 3, 2, 0, true, weighs, Form::kElement}), "");
    ASSERT_EQ(difference({dtype, op, 77, 2, 1, 1, true, weighs, Form::kPartial}), "");
    ASSERT_EQ(difference({dtype, op, 150, 4, 1, 0, false, weighs, Form::kPartial}), "");
  });
}

TEST(DeviceReduce, WhatIsNotDefinedIsRefused) {
  const Stream stream;
  device::DeviceReduceArguments arguments{};
  arguments.source_count = 1;
  arguments.destination_count = 1;
  arguments.op = ReduceOp::kBand;
  EXPECT_EQ(device::launch_reduce(DType::kFloat32, arguments, {}, stream.get()), cudaErrorInvalidValue);
  arguments.op = ReduceOp::kSum;
  arguments.source_count = device::kMaxSources + 1;
  EXPECT_EQ(device::launch_reduce(DType::kFloat32, arguments, {}, stream.get()), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gimbal::test
