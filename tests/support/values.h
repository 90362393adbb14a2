// Elements of any public type as numbers: tests write inputs and read results through these, independently of the kernels.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/types.h"

namespace gimbal::test {

// Stores a value within the type's range, rounded to nearest even (integers: truncated).
void store_value(DType dtype, void* to, double value);

double load_value(DType dtype, const void* from);

double round_to(DType dtype, double value);

std::vector<std::byte> pack(DType dtype, const std::vector<double>& values);

std::vector<double> unpack(DType dtype, std::span<const std::byte> bytes);

}  // namespace gimbal::test
