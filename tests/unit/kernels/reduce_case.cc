#include "tests/unit/kernels/reduce_case.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "tests/unit/kernels/reference.h"

namespace gimbal::test {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr unsigned char kCanary = 0xA5;
constexpr size_t kGuardBytes = 64;
constexpr size_t kPoolLanes = 1 << 15;

// Bytes at a chosen distance from a cache line, between canaries.
class GuardedArray {
 public:
  GuardedArray(size_t bytes, size_t misalignment) : storage_(bytes + 2 * kGuardBytes + 128, kCanary), bytes_(bytes) {
    const size_t address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
    begin_ = kGuardBytes + (64 - address % 64) % 64 + misalignment % 64;
  }
  unsigned char* data() { return storage_.data() + begin_; }
  const unsigned char* data() const { return storage_.data() + begin_; }
  bool guards_are_intact() const {
    const auto is_canary = [](unsigned char byte) { return byte == kCanary; };
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<std::ptrdiff_t>(begin_), is_canary) &&
           std::all_of(storage_.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_), storage_.end(), is_canary);
  }

 private:
  std::vector<unsigned char> storage_;
  size_t bytes_;
  size_t begin_;
};

Uint128 random_lane(DType dtype, std::mt19937_64& random) {
  const uint64_t bits = random();
  if (dtype == DType::kInt128 || dtype == DType::kUint128) return bits;
  if (!is_floating(dtype)) return bits % 3 == 0 ? bits >> 40 : bits;
  // One in four any bits: NaN with payloads, infinities, subnormals, extremes. The others of like size, so that sums round.
  if (bits % 4 == 0) return bits >> 2;
  return encode_float(float_format(dtype), std::ldexp(static_cast<double>(static_cast<int64_t>(bits) >> 52), -5));
}

// Lanes of a type, made once: operands are windows of it.
const std::vector<unsigned char>& pool(DType dtype) {
  static std::map<DType, std::vector<unsigned char>> pools;
  std::vector<unsigned char>& bytes = pools[dtype];
  if (bytes.empty()) {
    std::mt19937_64 random(static_cast<uint64_t>(dtype) + 1);
    const size_t size = dtype_size(dtype);
    bytes.resize(kPoolLanes * size);
    for (size_t i = 0; i < kPoolLanes; ++i) {
      const Uint128 lane = random_lane(dtype, random);
      std::memcpy(bytes.data() + i * size, &lane, size);
    }
  }
  return bytes;
}

struct Operand {
  GuardedArray array;
  const unsigned char* content;
  Form form;
  double weight;
};

Uint128 lane_at(const unsigned char* lanes, size_t i, size_t size) {
  Uint128 bits = 0;
  std::memcpy(&bits, lanes + i * size, size);
  return bits;
}

DType type_of(const ReduceCase& c, Form form) { return form == Form::kElement ? c.dtype : accumulator_type(c.dtype, c.op); }

std::vector<Operand> make_operands(const ReduceCase& c) {
  static const std::array<double, 4> kWeights = {0.5, 3, 1.0 / 3, 1};
  std::vector<Operand> operands;
  for (size_t i = 0; i < c.operand_count; ++i) {
    const Form form = c.mixes_forms && i % 2 == 1 ? Form::kPartial : Form::kElement;
    const size_t size = dtype_size(type_of(c, form));
    const size_t first_lane = (i * 7919 + c.count * 31 + c.misalignment * 257) % (kPoolLanes - c.count);
    const unsigned char* content = pool(type_of(c, form)).data() + first_lane * size;
    const double weight = c.weighs ? kWeights[i % kWeights.size()] : 1;
    operands.push_back({GuardedArray(c.count * size, c.misalignment * (i + 1)), content, form, weight});
  }
  return operands;
}

std::vector<Uint128> expected_lanes(const ReduceCase& c, const std::vector<Operand>& operands) {
  std::vector<Uint128> result;
  std::vector<ReferenceOperand> lanes(operands.size());
  for (size_t i = 0; i < c.count; ++i) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const Operand& operand = operands[k];
      lanes[k] = {lane_at(operand.content, i, dtype_size(type_of(c, operand.form))), operand.form, operand.weight};
    }
    result.push_back(reference_reduce(c.dtype, c.op, c.order, lanes, c.destination_form, c.divisor));
  }
  return result;
}

testing::AssertionResult run(const ReduceCase& c, ReduceFunction function, std::vector<Operand>& operands,
                             const std::vector<unsigned char>& expected) {
  std::vector<ReduceSource> sources;
  for (Operand& operand : operands) {
    std::memcpy(operand.array.data(), operand.content, c.count * dtype_size(type_of(c, operand.form)));
    sources.push_back({operand.array.data(), operand.form, operand.weight});
  }
  std::vector<GuardedArray> outputs;
  for (size_t i = 0; i < c.destination_count; ++i) {
    outputs.emplace_back(expected.size(), c.misalignment * (c.aligns_destinations_equally ? 2 : 3 * i + 2));
  }
  std::vector<void*> destinations;
  for (GuardedArray& output : outputs) destinations.push_back(output.data());
  size_t aliased = operands.size();
  for (size_t i = 0; c.in_place && i < operands.size(); ++i) {
    if (operands[i].form == c.destination_form) aliased = i;
  }
  if (aliased < operands.size()) destinations[0] = operands[aliased].array.data();

  function({.sources = sources,
            .destinations = destinations,
            .destination_form = c.destination_form,
            .count = c.count,
            .order = c.order,
            .store = c.store,
            .cached_destinations = c.cached_destinations,
            .divisor = c.divisor});

  for (size_t i = 0; i < destinations.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(destinations[i]);
    const auto [right, wrong] = std::mismatch(expected.begin(), expected.end(), bytes);
    if (right != expected.end()) {
      return testing::AssertionFailure() << c << ": destination " << i << " is wrong at byte " << right - expected.begin();
    }
    if (!outputs[i].guards_are_intact()) return testing::AssertionFailure() << c << ": wrote around destination " << i;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t bytes = c.count * dtype_size(type_of(c, operands[i].form));
    const bool is_source_only = i != aliased;
    if (is_source_only && !std::equal(operands[i].content, operands[i].content + bytes, operands[i].array.data())) {
      return testing::AssertionFailure() << c << ": operand " << i << " was written";
    }
    if (!operands[i].array.guards_are_intact()) return testing::AssertionFailure() << c << ": wrote around operand " << i;
  }
  return testing::AssertionSuccess();
}

}  // namespace

std::vector<ReduceFunction> find_reduce_of_every_instruction_set(DType dtype, ReduceOp op) {
  std::vector<ReduceFunction> functions;
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0 && target != HWY_SCALAR) continue;
    hwy::GetChosenTarget().Update(target);
    const ReduceFunction function = find_reduce(dtype, op);
    if (std::find(functions.begin(), functions.end(), function) == functions.end()) functions.push_back(function);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return functions;
}

std::ostream& operator<<(std::ostream& out, const ReduceCase& c) {
  return out << reduce_op_name(c.op) << " of " << c.operand_count << " x " << c.count << " " << dtype_name(c.dtype)
             << (c.order == SumOrder::kTree ? " tree" : " rank order") << (c.store == StoreMode::kStreaming ? " streaming" : "")
             << " to " << c.destination_count << " (" << c.cached_destinations << " cached)"
             << (c.destination_form == Form::kPartial ? " partials" : " elements") << (c.mixes_forms ? ", mixed forms" : "")
             << (c.weighs ? ", weighted" : "") << (c.in_place ? ", in place" : "") << ", misalignment " << c.misalignment
             << (c.aligns_destinations_equally ? " of all destinations" : "") << ", divisor " << c.divisor;
}

testing::AssertionResult is_right(const ReduceCase& c, const std::vector<ReduceFunction>& functions) {
  std::vector<Operand> operands = make_operands(c);
  const size_t size = dtype_size(type_of(c, c.destination_form));
  std::vector<unsigned char> expected;
  for (const Uint128 lane : expected_lanes(c, operands)) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&lane);
    expected.insert(expected.end(), bytes, bytes + size);
  }
  for (const ReduceFunction function : functions) {
    if (auto result = run(c, function, operands, expected); !result) return result;
  }
  return testing::AssertionSuccess();
}

}  // namespace gimbal::test
