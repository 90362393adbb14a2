#include "kernels/cuda/launch.h"

#include <algorithm>

#include "kernels/cuda/kernel_set.h"

namespace gimbal::device {
namespace {

const KernelSet* find_kernels(DType dtype, ReduceOp op) {
  for (const auto find : {find_float_sum, find_float8_sum, find_float_product, find_float_extreme, find_integer,
                          find_integer_extreme, find_integer_average}) {
    if (const KernelSet* const kernels = find(dtype, op)) return kernels;
  }
  return nullptr;
}

template <typename Arguments>
cudaError_t launch(void (*kernel)(Arguments), const Arguments& arguments, BlockShape shape, cudaStream_t stream) {
  if (shape.blocks == 0 || shape.threads == 0 || shape.threads > kMaxThreads) return cudaErrorInvalidValue;
  Arguments copy = arguments;
  void* parameters[] = {&copy};
  return cudaLaunchKernel(kernel, dim3(shape.blocks), dim3(shape.threads), parameters, 0, stream);
}

bool is_valid(const NativeArguments& arguments, size_t area_packets) {
  const bool ranks_fit =
      arguments.nranks >= 1 && arguments.nranks <= kMaxNativeRanks && arguments.rank >= 0 && arguments.rank < arguments.nranks;
  return ranks_fit && (static_cast<size_t>(arguments.nranks) + area_packets) * kPacketBytes <= arguments.half_bytes;
}

size_t one_shot_packets(Rank nranks, size_t bytes) { return static_cast<size_t>(nranks) * packet_count(bytes); }

// Raw slices of all ranks, then all sums.
size_t two_shot_packets(Rank nranks, size_t bytes) {
  const auto ranks = static_cast<size_t>(nranks);
  return 2 * ranks * ((packet_count(bytes) + ranks - 1) / ranks);
}

}  // namespace

size_t native_bytes(Rank nranks, size_t one_shot_bytes, size_t two_shot_bytes) {
  const size_t packets = std::max(one_shot_packets(nranks, one_shot_bytes), two_shot_packets(nranks, two_shot_bytes));
  return 2 * (static_cast<size_t>(nranks) + packets) * kPacketBytes;
}

cudaError_t launch_reduce(DType dtype, const DeviceReduceArguments& arguments, BlockShape shape, cudaStream_t stream) {
  const KernelSet* const kernels = find_kernels(dtype, arguments.op);
  if (kernels == nullptr || arguments.source_count == 0 || arguments.source_count > kMaxSources ||
      arguments.destination_count == 0 || arguments.destination_count > kMaxDestinations) {
    return cudaErrorInvalidValue;
  }
  return launch(kernels->reduce, arguments, shape, stream);
}

cudaError_t launch_interpreter(DType dtype, const InterpreterArguments& arguments, unsigned threads, cudaStream_t stream) {
  const KernelSet* const kernels = find_kernels(dtype, arguments.op);
  const size_t slice_bytes = arguments.slice_elements * std::max(arguments.form_bytes[0], arguments.form_bytes[1]);
  const bool slice_fits = arguments.protocol == Protocol::kSimple || slice_bytes <= kMaxPacketPayload;
  if (kernels == nullptr || !slice_fits) return cudaErrorInvalidValue;
  return launch(kernels->interpreter, arguments, {arguments.channels, threads}, stream);
}

cudaError_t launch_one_shot(DType dtype, const NativeArguments& arguments, BlockShape shape, cudaStream_t stream) {
  const KernelSet* const kernels = find_kernels(dtype, arguments.op);
  const size_t bytes = arguments.count * dtype_size(dtype);
  if (kernels == nullptr || !is_valid(arguments, one_shot_packets(arguments.nranks, bytes))) return cudaErrorInvalidValue;
  return launch(kernels->one_shot, arguments, shape, stream);
}

cudaError_t launch_two_shot(DType dtype, const NativeArguments& arguments, BlockShape shape, cudaStream_t stream) {
  const KernelSet* const kernels = find_kernels(dtype, arguments.op);
  const size_t bytes = arguments.count * dtype_size(dtype);
  if (kernels == nullptr || !is_valid(arguments, two_shot_packets(arguments.nranks, bytes))) return cudaErrorInvalidValue;
  return launch(kernels->two_shot, arguments, shape, stream);
}

cudaError_t blocks_per_multiprocessor(KernelKind kind, DType dtype, ReduceOp op, unsigned threads, int* blocks) {
  const KernelSet* const kernels = find_kernels(dtype, op);
  if (kernels == nullptr) return cudaErrorInvalidValue;
  const auto ask = [&](auto kernel) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, static_cast<int>(threads), 0);
  };
  switch (kind) {
    case KernelKind::kReduce:
      return ask(kernels->reduce);
    case KernelKind::kOneShot:
      return ask(kernels->one_shot);
    case KernelKind::kTwoShot:
      return ask(kernels->two_shot);
    case KernelKind::kInterpreter:
      return ask(kernels->interpreter);
  }
  return cudaErrorInvalidValue;
}

}  // namespace gimbal::device
