// One call of a reduce function on prepared memory, and the comparison of all that it may and may not have written.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/reduce.h"

namespace gimbal::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The same function for every instruction set that this build has and this CPU runs; the best first.
std::vector<ReduceFunction> find_reduce_of_every_instruction_set(DType dtype, ReduceOp op);

struct ReduceCase {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  SumOrder order = SumOrder::kRankOrder;
  StoreMode store = StoreMode::kCached;
  size_t operand_count = 2;
  size_t destination_count = 1;
  size_t cached_destinations = 0;
  size_t count = 1;
  size_t misalignment = 0;  // bytes past a cache line; differs between the arrays of a case, too
  bool aligns_destinations_equally = false;
  Form destination_form = Form::kElement;
  bool mixes_forms = false;  // every second operand is a partial
  bool weighs = false;
  bool in_place = false;  // the first destination is the last operand of the same form
  double divisor = 1;
};
std::ostream& operator<<(std::ostream& out, const ReduceCase& c);

// Runs the case on all functions and compares destinations with the reference, sources and the bytes around all arrays with
// what they were.
testing::AssertionResult is_right(const ReduceCase& c, const std::vector<ReduceFunction>& functions);

}  // namespace gimbal::test
