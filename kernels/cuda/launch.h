// The device side's functions for the host: each enqueues one kernel on a stream, allocates nothing and waits for nothing, and
// may be captured into a graph.
//
// Kernels that wait for other ranks (all but launch_reduce) give up after Watch::timeout_ns or when DeviceReport::abort is set,
// say why in the report, and leave the device usable. All their blocks, of all ranks that share a GPU, must be resident at
// once: blocks_per_multiprocessor() says how many fit.
//
// The stream is one of the current device. Returned are CUDA's own errors: cudaErrorInvalidValue when is_supported(dtype, op)
// is false or a count is above its limit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/types.h"
#include "kernels/cuda/shared.h"

namespace gimbal::device {

enum class KernelKind : uint8_t { kReduce, kInterpreter, kOneShot, kTwoShot };

// Threads of a block; equal for all launches of a communicator.
struct BlockShape {
  unsigned blocks = 1;
  unsigned threads = kMaxThreads;
};

cudaError_t launch_reduce(DType dtype, const DeviceReduceArguments& arguments, BlockShape shape, cudaStream_t stream);

// Collectives that add nothing: kUint8 and kSum, whatever their type.
cudaError_t launch_interpreter(DType dtype, const InterpreterArguments& arguments, unsigned threads, cudaStream_t stream);

// Equal shapes and counts on all ranks, and the operations of all ranks in one order: a
// rank's n-th is everybody's n-th.
cudaError_t launch_one_shot(DType dtype, const NativeArguments& arguments, BlockShape shape, cudaStream_t stream);
cudaError_t launch_two_shot(DType dtype, const NativeArguments& arguments, BlockShape shape, cudaStream_t stream);

// Packet memory of each rank for one-shot messages of up to one_shot_bytes and two-shot messages of up to two_shot_bytes.
size_t native_bytes(Rank nranks, size_t one_shot_bytes, size_t two_shot_bytes);

cudaError_t blocks_per_multiprocessor(KernelKind kind, DType dtype, ReduceOp op, unsigned threads, int* blocks);

}  // namespace gimbal::device
