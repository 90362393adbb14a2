#include "tests/unit/runtime/collective_case.h"

#include <algorithm>
#include <cmath>

#include "collectives/chunk_space.h"
#include "tests/support/values.h"

namespace gimbal::test {
namespace {

double combine(const CollectiveCase& c, const InputFunction& input, size_t index) {
  double result = input(0, index);
  for (Rank r = 1; r < c.nranks; ++r) {
    const double value = input(r, index);
    switch (c.op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += value;
        break;
      case ReduceOp::kProd:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      case ReduceOp::kBand:
        result = static_cast<double>(static_cast<int64_t>(result) & static_cast<int64_t>(value));
        break;
      case ReduceOp::kBor:
        result = static_cast<double>(static_cast<int64_t>(result) | static_cast<int64_t>(value));
        break;
      case ReduceOp::kBxor:
        result = static_cast<double>(static_cast<int64_t>(result) ^ static_cast<int64_t>(value));
        break;
    }
  }
  if (c.op != ReduceOp::kAvg) return result;
  if (!is_floating(c.dtype)) return std::trunc(result / c.nranks);
  return c.dtype == DType::kFloat64 ? result / c.nranks : static_cast<float>(result) / static_cast<float>(c.nranks);
}

// Where input and output lie in the one buffer of a call in place, by the conventions of gimbal.h.
void place_in_one_buffer(const CollectiveCase& c, Rank rank, const BufferSizes& sizes, WorldRank& world_rank) {
  const size_t bytes = dtype_size(c.dtype);
  const size_t block = static_cast<size_t>(rank) * c.count * bytes;
  world_rank.in_place = true;
  if (sizes.input < sizes.output && sizes.input != 0) world_rank.in_place_offset = block;
  if (sizes.output < sizes.input && sizes.output != 0) world_rank.in_place_output_offset = block;
  world_rank.output = GuardedBuffer(std::max(sizes.input, sizes.output) * bytes);
}

std::vector<std::byte> input_bytes(const CollectiveCase& c, Rank rank, const InputFunction& input) {
  std::vector<double> values(buffer_sizes(c, rank).input);
  for (size_t i = 0; i < values.size(); ++i) values[i] = input(rank, i);
  return pack(c.dtype, values);
}

}  // namespace

std::string describe(const CollectiveCase& c) {
  return std::string(collective_name(c.collective())) + ":" + std::string(c.algorithm->name) + " of " +
         std::to_string(c.nranks) + " ranks, " + std::to_string(c.count) + " x " + std::string(dtype_name(c.dtype)) + " " +
         std::string(reduce_op_name(c.op)) + ", root " + std::to_string(c.root) + ", " + std::to_string(c.channels) +
         " channels, window " + std::to_string(c.window) + (c.fusion == Fusion::kFused ? ", fused" : ", not fused") +
         (c.in_place ? ", in place" : "") + (c.seed ? ", seed " + std::to_string(*c.seed) : "");
}

BufferSizes buffer_sizes(const CollectiveCase& c, Rank rank) {
  const size_t one = c.count;
  const size_t all = c.count * static_cast<size_t>(c.nranks);
  const bool is_root = rank == c.root;
  switch (c.collective()) {
    case Collective::kReduceScatter:
      return {all, one};
    case Collective::kAllGather:
      return {one, all};
    case Collective::kAllToAll:
      return {all, all};
    case Collective::kGather:
      return {one, is_root ? all : 0};
    case Collective::kScatter:
      return {is_root ? all : 0, one};
    case Collective::kBroadcast:
      return {is_root ? one : 0, one};
    case Collective::kReduce:
      return {one, is_root ? one : 0};
    case Collective::kAllReduce:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      break;
  }
  return {one, one};
}

double expected_output(const CollectiveCase& c, const InputFunction& input, Rank rank, size_t index) {
  const auto own = static_cast<size_t>(rank) * c.count + index;
  const auto from = c.count == 0 ? Rank{0} : static_cast<Rank>(index / c.count);
  switch (c.collective()) {
    case Collective::kReduceScatter:
      return combine(c, input, own);
    case Collective::kAllGather:
    case Collective::kGather:
      return input(from, index % c.count);
    case Collective::kAllToAll:
      return input(from, static_cast<size_t>(rank) * c.count + index % c.count);
    case Collective::kScatter:
      return input(c.root, own);
    case Collective::kBroadcast:
      return input(c.root, index);
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBarrier:
    case Collective::kSend:
    case Collective::kRecv:
    case Collective::kAllGatherV:
    case Collective::kAllToAllV:
      break;
  }
  return combine(c, input, index);
}

Result<std::unique_ptr<WorldRank>> make_world_rank(const CollectiveCase& c, Rank rank, const InputFunction& input) {
  auto world_rank = std::make_unique<WorldRank>();
  PlanOptions options;
  options.layout = {.collective = c.collective(), .nranks = c.nranks, .rank = rank, .root = c.root, .count = c.count};
  options.dtype = c.dtype;
  options.op = c.op;
  options.slice_bytes = c.slice_bytes;
  options.window = c.window;
  options.element_partials = c.element_partials;
  options.weighted = !c.weights.empty();
  ASSIGN_OR_RETURN(world_rank->plan, make_plan(build_schedule(*c.algorithm, c.spec(), rank, c.fusion), options));
  const BufferSizes sizes = buffer_sizes(c, rank);
  const size_t bytes = dtype_size(c.dtype);
  if (c.in_place) {
    place_in_one_buffer(c, rank, sizes, *world_rank);
  } else {
    world_rank->input = GuardedBuffer(sizes.input * bytes);
    world_rank->output = GuardedBuffer(sizes.output * bytes);
  }
  world_rank->scratch = GuardedBuffer(world_rank->plan.scratch_bytes);
  if (!c.weights.empty()) world_rank->weight = c.weights[static_cast<size_t>(rank)];
  world_rank->divisor = c.divisor;
  const std::vector<std::byte> written = input_bytes(c, rank, input);
  std::copy(written.begin(), written.end(), world_rank->input_data());
  return world_rank;
}

Result<std::vector<std::vector<std::byte>>> run_case(const CollectiveCase& c, const InputFunction& input) {
  Mesh mesh({.nranks = c.nranks,
             .slot_bytes = c.slice_bytes,
             .window = (c.window - 1) * c.algorithm->window_runs + 1,
             .channels = c.channels});
  std::vector<std::unique_ptr<WorldRank>> ranks;
  for (Rank r = 0; r < c.nranks; ++r) {
    ASSIGN_OR_RETURN(auto rank, make_world_rank(c, r, input));
    ranks.push_back(std::move(rank));
  }
  ExecutorWorld world(mesh, std::move(ranks));
  RETURN_IF_ERROR(world.run(c.seed));
  std::vector<std::vector<std::byte>> outputs;
  for (Rank r = 0; r < c.nranks; ++r) {
    const BufferSizes sizes = buffer_sizes(c, r);
    const std::byte* const data = world.rank(r).output_data();
    outputs.emplace_back(data, data + sizes.output * dtype_size(c.dtype));
    if (c.in_place) continue;
    const std::vector<std::byte> written = input_bytes(c, r, input);
    if (!std::equal(written.begin(), written.end(), world.rank(r).input_data())) {
      return Status(Code::kInternal, "rank " + std::to_string(r) + " wrote its input");
    }
  }
  return outputs;
}

std::string find_fault(const CollectiveCase& c, const InputFunction& input) {
  const auto outputs = run_case(c, input);
  if (!outputs.ok()) return describe(c) + ": " + outputs.status().message();
  for (Rank r = 0; r < c.nranks; ++r) {
    const auto values = unpack(c.dtype, (*outputs)[static_cast<size_t>(r)]);
    for (size_t i = 0; i < values.size(); ++i) {
      const double wanted = round_to(c.dtype, expected_output(c, input, r, i));
      if (values[i] == wanted) continue;
      return describe(c) + ": rank " + std::to_string(r) + " has " + std::to_string(values[i]) + " at " + std::to_string(i) +
             ", expected " + std::to_string(wanted);
    }
  }
  return {};
}

}  // namespace gimbal::test
