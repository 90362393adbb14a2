// Every type and operation against the reference: all lengths up to two vectors and one, and all combinations of what a call
// can ask for.
#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/types.h"
#include "tests/unit/kernels/reduce_case.h"

namespace gimbal::test {
namespace {

// The reference costs 20 times as much under a sanitizer: there every seventh length is tried, a different one for each number
// of operands, and never a type or an operation less.
constexpr size_t kLengthStride = kSanitized ? 7 : 1;
constexpr size_t kVectorBytes = 64;

struct TypeAndOperation {
  DType dtype;
  ReduceOp op;
};

std::vector<TypeAndOperation> all_types_and_operations() {
  std::vector<TypeAndOperation> result;
  for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const TypeAndOperation pair{static_cast<DType>(dtype), static_cast<ReduceOp>(op)};
      if (is_supported(pair.dtype, pair.op)) result.push_back(pair);
    }
  }
  return result;
}

std::string name_of(const testing::TestParamInfo<TypeAndOperation>& parameter) {
  return std::string(dtype_name(parameter.param.dtype)) + "_" + std::string(reduce_op_name(parameter.param.op));
}

class Reduce : public testing::TestWithParam<TypeAndOperation> {
 protected:
  void expect_right(const ReduceCase& c) { ASSERT_TRUE(is_right(c, functions_)); }
  // Only these have weights; a divisor is the number of operands of an average.
  bool can_weigh() const {
    return is_floating(GetParam().dtype) && (GetParam().op == ReduceOp::kSum || GetParam().op == ReduceOp::kAvg);
  }
  ReduceCase new_case(size_t operand_count, size_t count) const {
    const double divisor = GetParam().op == ReduceOp::kAvg ? static_cast<double>(operand_count) : 1;
    return {.dtype = GetParam().dtype, .op = GetParam().op, .operand_count = operand_count, .count = count, .divisor = divisor};
  }

  std::vector<ReduceFunction> functions_ = find_reduce_of_every_instruction_set(GetParam().dtype, GetParam().op);
};

TEST_P(Reduce, EveryLengthUpToTwoVectorsAndOneIsRight) {
  const size_t last = 2 * kVectorBytes / dtype_size(GetParam().dtype) + 1;
  for (size_t operand_count = 1; operand_count <= 9; ++operand_count) {
    for (size_t count = operand_count % kLengthStride; count <= last; count += kLengthStride) {
      for (const SumOrder order : {SumOrder::kRankOrder, SumOrder::kTree}) {
        ReduceCase c = new_case(operand_count, count);
        c.order = order;
        c.misalignment = (count + operand_count) % 9;
        c.store = count % 3 == 0 ? StoreMode::kStreaming : StoreMode::kCached;
        c.destination_count = 1 + count % 5 / 3;
        c.in_place = count % 4 == 1;
        ASSERT_NO_FATAL_FAILURE(expect_right(c));
      }
    }
  }
}

TEST_P(Reduce, EveryCombinationOfFormsWeightsAndDestinationsIsRight) {
  constexpr std::array<size_t, 6> kOperandCounts = {1, 2, 3, 6, 8, 21};
  for (uint32_t bits = 0; bits < 128; ++bits) {
    ReduceCase c = new_case(kOperandCounts[bits % 6], 1 + bits * 5 % 37);
    c.order = bits & 1 ? SumOrder::kTree : SumOrder::kRankOrder;
    c.store = bits & 2 ? StoreMode::kStreaming : StoreMode::kCached;
    c.destination_form = bits & 4 ? Form::kPartial : Form::kElement;
    c.mixes_forms = bits & 8;
    c.weighs = (bits & 16) && can_weigh();
    c.in_place = bits & 32;
    c.destination_count = bits & 64 ? 3 : 1;
    for (c.misalignment = 0; c.misalignment < 3; ++c.misalignment) ASSERT_NO_FATAL_FAILURE(expect_right(c));
  }
}

TEST_P(Reduce, ManyBlocksAreRight) {
  for (const size_t operand_count : {2, 9, 25}) {
    for (uint32_t bits = 0; bits < (kSanitized ? 4 : 16); ++bits) {
      ReduceCase c = new_case(operand_count, kSanitized ? 1100 : 9001);
      c.order = bits & 1 ? SumOrder::kTree : SumOrder::kRankOrder;
      c.store = bits & 2 ? StoreMode::kStreaming : StoreMode::kCached;
      c.in_place = bits & 4;
      c.mixes_forms = bits & 8;
      c.destination_count = 1 + bits % 3;
      c.misalignment = bits;
      ASSERT_NO_FATAL_FAILURE(expect_right(c));
    }
  }
}

// Multiples of the element size reach a cache line after some elements, others never.
TEST_P(Reduce, StreamsToDestinationsOfAnyAlignment) {
  for (const size_t operand_count : {2, 3, 4, 8}) {
    for (const size_t destination_count : {size_t{1}, size_t{2}, operand_count}) {
      for (uint32_t bits = 0; bits < (kSanitized ? 4 : 16); ++bits) {
        ReduceCase c = new_case(operand_count, kSanitized ? 90 : 150);
        c.store = StoreMode::kStreaming;
        c.destination_count = destination_count;
        c.aligns_destinations_equally = bits & 1;
        c.cached_destinations = bits & 2 ? destination_count - 1 : 0;
        c.order = bits & 4 ? SumOrder::kTree : SumOrder::kRankOrder;
        c.in_place = bits & 8;
        for (const size_t misalignment : {0, 1, 4, 24}) {
          c.misalignment = misalignment;
          ASSERT_NO_FATAL_FAILURE(expect_right(c));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reduce, testing::ValuesIn(all_types_and_operations()), name_of);

// Small results are copied from the first destination, large ones stored from registers.
TEST(ReduceToMany, WritesAllDestinationsOfALargeResult) {
  const auto functions = find_reduce_of_every_instruction_set(DType::kFloat64, ReduceOp::kSum);
  ReduceCase c{.dtype = DType::kFloat64, .operand_count = 2, .destination_count = 3, .count = 17001, .misalignment = 3};
  EXPECT_TRUE(is_right(c, functions));
  c.in_place = true;
  EXPECT_TRUE(is_right(c, functions));
}

TEST(FindReduce, IsNullForBitwiseOperationsOnFloatingTypes) {
  for (int dtype = 0; dtype < kPublicDTypeCount; ++dtype) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const auto type = static_cast<DType>(dtype);
      const auto operation = static_cast<ReduceOp>(op);
      EXPECT_EQ(find_reduce(type, operation) != nullptr, is_supported(type, operation))
          << dtype_name(type) << " " << reduce_op_name(operation);
    }
  }
}

TEST(FindReduce, HasNoFunctionForAccumulatorsThatAreNoElements) {
  for (const DType dtype : {DType::kInt128, DType::kUint128}) EXPECT_EQ(find_reduce(dtype, ReduceOp::kSum), nullptr);
}

}  // namespace
}  // namespace gimbal::test
