// Speed of reductions and copies in cache and in memory, beside memcpy in the same run.
//
// bytes_per_second counts bytes read and written, as a memory bus would see them without write-allocation: k operands and the
// results for a reduction, two for a copy.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/reduce.h"

namespace gimbal {
namespace {

constexpr size_t kPageBytes = 4096;

// Zeroed, page-aligned: zeros add at full speed in every type.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(static_cast<unsigned char*>(std::aligned_alloc(kPageBytes, bytes))) {
    std::memset(bytes_.get(), 0, bytes);
  }
  unsigned char* data() const { return bytes_.get(); }

 private:
  struct Free {
    void operator()(unsigned char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<unsigned char, Free> bytes_;
};

size_t round_to_page(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

void set_bytes(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

// Arguments: operands, bytes, destinations.
void reduce(benchmark::State& state, DType dtype, SumOrder order, StoreMode store) {
  const auto operand_count = static_cast<size_t>(state.range(0));
  const auto bytes = static_cast<size_t>(state.range(1));
  const auto destination_count = static_cast<size_t>(state.range(2));
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < operand_count + destination_count; ++i) buffers.emplace_back(round_to_page(bytes));
  std::vector<ReduceSource> sources;
  for (size_t i = 0; i < operand_count; ++i) sources.push_back({buffers[i].data(), Form::kElement, 1});
  std::vector<void*> destinations;
  for (size_t i = 0; i < destination_count; ++i) destinations.push_back(buffers[operand_count + i].data());
  const ReduceFunction function = find_reduce(dtype, ReduceOp::kSum);
  const ReduceArguments arguments{
      .sources = sources, .destinations = destinations, .count = bytes / dtype_size(dtype), .order = order, .store = store};
  for ([[maybe_unused]] auto iteration : state) {
    function(arguments);
    benchmark::ClobberMemory();
  }
  set_bytes(state, (operand_count + destination_count) * bytes);
}

template <void (*kCopy)(void*, const void*, size_t)>
void copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Buffer source(round_to_page(bytes)), destination(round_to_page(bytes));
  for ([[maybe_unused]] auto iteration : state) {
    kCopy(destination.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  set_bytes(state, 2 * bytes);
}

void copy_by_memcpy(void* destination, const void* source, size_t bytes) { std::memcpy(destination, source, bytes); }
void copy_cached(void* destination, const void* source, size_t bytes) {
  copy_bytes(destination, source, bytes, StoreMode::kCached);
}
void copy_streaming(void* destination, const void* source, size_t bytes) {
  copy_bytes(destination, source, bytes, StoreMode::kStreaming);
}

// In the first-level cache, in the second-level cache, in memory.
const std::vector<int64_t> kSizes = {4 << 10, 256 << 10, 16 << 20};

BENCHMARK(copy<copy_by_memcpy>)->Name("memcpy")->ArgName("bytes")->ArgsProduct({kSizes});
BENCHMARK(copy<copy_cached>)->Name("copy/cached")->ArgName("bytes")->ArgsProduct({kSizes});
BENCHMARK(copy<copy_streaming>)->Name("copy/streaming")->ArgName("bytes")->ArgsProduct({kSizes});
BENCHMARK_CAPTURE(reduce, float_two_elements, DType::kFloat32, SumOrder::kRankOrder, StoreMode::kCached)->Args({2, 8, 1});
BENCHMARK_CAPTURE(reduce, float, DType::kFloat32, SumOrder::kRankOrder, StoreMode::kCached)
    ->ArgsProduct({{2, 4, 8, 16}, kSizes, {1}});
BENCHMARK_CAPTURE(reduce, float_streaming, DType::kFloat32, SumOrder::kRankOrder, StoreMode::kStreaming)
    ->ArgsProduct({{2, 4, 8}, {16 << 20}, {1, 2}});
BENCHMARK_CAPTURE(reduce, bfloat16_streaming, DType::kBfloat16, SumOrder::kRankOrder, StoreMode::kStreaming)
    ->ArgsProduct({{2, 8}, {16 << 20}, {1}});
BENCHMARK_CAPTURE(reduce, float_to_all, DType::kFloat32, SumOrder::kRankOrder, StoreMode::kCached)
    ->ArgsProduct({{2}, kSizes, {2}})
    ->ArgsProduct({{4}, kSizes, {4}});
BENCHMARK_CAPTURE(reduce, float_tree, DType::kFloat32, SumOrder::kTree, StoreMode::kCached)
    ->ArgsProduct({{8, 16}, kSizes, {1}});
BENCHMARK_CAPTURE(reduce, bfloat16, DType::kBfloat16, SumOrder::kRankOrder, StoreMode::kCached)
    ->ArgsProduct({{2, 4, 8}, kSizes, {1}});
BENCHMARK_CAPTURE(reduce, half, DType::kFloat16, SumOrder::kRankOrder, StoreMode::kCached)
    ->ArgsProduct({{2, 4, 8}, kSizes, {1}});
BENCHMARK_CAPTURE(reduce, int8, DType::kInt8, SumOrder::kRankOrder, StoreMode::kCached)->ArgsProduct({{2, 4, 8}, kSizes, {1}});
BENCHMARK_CAPTURE(reduce, f8e4m3, DType::kFloat8E4m3, SumOrder::kRankOrder, StoreMode::kCached)
    ->ArgsProduct({{2}, kSizes, {1}});

}  // namespace
}  // namespace gimbal
