// The kernels of one type and operation, and who has them: each file of kernels/cuda knows some, as kernels/finders.h has it
// for the CPU. Every instance is compiled for every architecture, so operations share code wherever that costs no speed.
#pragma once

#include "kernels/cuda/interpreter.h"
#include "kernels/cuda/native.h"

namespace gimbal::device {

struct KernelSet {
  void (*reduce)(DeviceReduceArguments) = nullptr;
  void (*interpreter)(InterpreterArguments) = nullptr;
  void (*one_shot)(NativeArguments) = nullptr;
  void (*two_shot)(NativeArguments) = nullptr;
};

// Null when the file has none for the type and the operation.
const KernelSet* find_float_sum(DType dtype, ReduceOp op);        // float32, float64, float16, bfloat16
const KernelSet* find_float8_sum(DType dtype, ReduceOp op);       // e4m3 and e5m2
const KernelSet* find_float_product(DType dtype, ReduceOp op);    // floating types
const KernelSet* find_float_extreme(DType dtype, ReduceOp op);    // floating types: min and max
const KernelSet* find_integer(DType dtype, ReduceOp op);          // integers: sum, prod, band, bor, bxor
const KernelSet* find_integer_extreme(DType dtype, ReduceOp op);  // integers: min and max
const KernelSet* find_integer_average(DType dtype, ReduceOp op);  // integers

template <class A>
__global__ void __launch_bounds__(kMaxThreads, 1) reduce_kernel(const __grid_constant__ DeviceReduceArguments arguments) {
  const Reducer<A> reducer{A(arguments.op, arguments.divisor),
                           {arguments.sources.data(), arguments.destinations.data(), arguments.source_count,
                            arguments.destination_count, arguments.destination_form}};
  reducer.run(arguments.count, grid_team());
}

template <class A>
const KernelSet* kernels_of() {
  static const KernelSet kernels{reduce_kernel<A>, interpreter_kernel<A>, one_shot_kernel<A>, two_shot_kernel<A>};
  return &kernels;
}

}  // namespace gimbal::device
