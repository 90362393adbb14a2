#include "tools/gimbal_bench/check_data.h"

#include <algorithm>
#include <cstring>

#include "tools/gimbal_bench/check_values.h"

namespace gimbal::bench {
namespace {

// A run of elements of a buffer: those of one source (or of the reduction), from its element `first` on.
struct Segment {
  Rank source;
  bool reduced;
  size_t first;
};

// The parts of what a rank receives, `operation.count` elements each.
std::vector<Segment> expected_segments(const Operation& operation, Rank rank, Rank ranks) {
  const size_t own = static_cast<size_t>(rank) * operation.count;
  std::vector<Segment> segments;
  switch (operation.kind) {
    case Kind::kAllReduce:
      return {{0, true, 0}};
    case Kind::kReduceScatter:
      return {{0, true, own}};
    case Kind::kBroadcast:
      return {{operation.root, false, 0}};
    case Kind::kReduce:
      if (rank == operation.root) segments.push_back({0, true, 0});
      return segments;
    case Kind::kAllToAll:
      for (Rank source = 0; source < ranks; ++source) segments.push_back({source, false, own});
      return segments;
    case Kind::kGather:
      if (rank != operation.root) return segments;
      [[fallthrough]];
    case Kind::kAllGather:
      for (Rank source = 0; source < ranks; ++source) segments.push_back({source, false, 0});
      return segments;
    case Kind::kScatter:
      return {{operation.root, false, own}};
    case Kind::kSendRecv:
      return {{(rank + ranks - 1) % ranks, false, 0}};
    case Kind::kBarrier:
      return segments;
  }
  return segments;
}

std::vector<std::byte> segment_values(const Operation& operation, Rank ranks, const Segment& segment, uint64_t round) {
  const size_t elements = segment.first + operation.count;
  return segment.reduced ? reduced_values(operation, ranks, round, elements)
                         : source_values(operation, ranks, segment.source, round, elements);
}

// Calls visit(at, values) for consecutive pieces of the elements [first, first + count) of a periodic sequence: `at` is the
// distance from the first in bytes, `values` the piece's bytes.
template <typename Visit>
void for_each_piece(std::span<const std::byte> period, size_t first, size_t count, size_t element_bytes, const Visit& visit) {
  const size_t period_elements = period.size() / element_bytes;
  for (size_t done = 0; done < count;) {
    const size_t begin = (first + done) % period_elements;
    const size_t piece = std::min(count - done, period_elements - begin);
    visit(done * element_bytes, period.subspan(begin * element_bytes, piece * element_bytes));
    done += piece;
  }
}

void write_periodic(std::byte* to, std::span<const std::byte> period, size_t count, size_t element_bytes) {
  for_each_piece(period, 0, count, element_bytes,
                 [to](size_t at, std::span<const std::byte> values) { std::memcpy(to + at, values.data(), values.size()); });
}

// So that an element that is not written cannot be right by chance.
void write_opposite(std::byte* to, std::span<const std::byte> period, size_t first, size_t count, size_t element_bytes) {
  for_each_piece(period, first, count, element_bytes, [to](size_t at, std::span<const std::byte> values) {
    std::transform(values.begin(), values.end(), to + at, [](std::byte value) { return ~value; });
  });
}

size_t count_different(const std::byte* result, std::span<const std::byte> period, size_t first, size_t count,
                       size_t element_bytes) {
  size_t different = 0;
  for_each_piece(period, first, count, element_bytes, [&](size_t at, std::span<const std::byte> values) {
    if (std::memcmp(result + at, values.data(), values.size()) == 0) return;
    for (size_t i = 0; i < values.size(); i += element_bytes) {
      if (std::memcmp(result + at + i, values.data() + i, element_bytes) != 0) ++different;
    }
  });
  return different;
}

template <typename Encoded>
std::vector<std::byte> encoded_values(size_t elements, size_t element_bytes, const Encoded& encoded) {
  const size_t count = std::min(elements, kPeriod);
  std::vector<std::byte> bytes(count * element_bytes);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = encoded(i);
    std::memcpy(bytes.data() + i * element_bytes, &bits, element_bytes);  // little-endian: the low bytes
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> source_values(const Operation& operation, Rank ranks, Rank source, uint64_t round, size_t elements) {
  return encoded_values(elements, dtype_size(operation.dtype), [&](size_t index) {
    const Element element = {round, index};
    if (!has_operation(operation.kind)) return random_bits(element, source);
    return encode(operation.dtype, contribution(operation.dtype, operation.op, ranks, source, element));
  });
}

std::vector<std::byte> reduced_values(const Operation& operation, Rank ranks, uint64_t round, size_t elements) {
  const auto& [kind, dtype, op, root, count] = operation;
  return encoded_values(elements, dtype_size(dtype), [&, type = dtype, reduction = op](size_t index) {
    const Element element = {round, index};
    Value value = contribution(type, reduction, ranks, 0, element);
    for (Rank rank = 1; rank < ranks; ++rank) {
      value = combine(type, reduction, value, contribution(type, reduction, ranks, rank, element));
    }
    return encode(type, finish(type, reduction, ranks, value));
  });
}

void write_inputs(const Operation& operation, Rank rank, Rank ranks, uint64_t round, const Buffers& buffers) {
  const size_t element_bytes = dtype_size(operation.dtype);
  // The result first: in place, the inputs overwrite their part of it.
  std::byte* to = buffers.receive;
  for (const Segment& segment : expected_segments(operation, rank, ranks)) {
    write_opposite(to, segment_values(operation, ranks, segment, round), segment.first, operation.count, element_bytes);
    to += operation.count * element_bytes;
  }
  const bool is_source = operation.kind == Kind::kBroadcast && rank == operation.root;
  const size_t elements = is_source ? operation.count : send_elements(operation, rank, ranks);
  std::byte* const inputs = is_source ? buffers.receive : buffers.send;
  write_periodic(inputs, source_values(operation, ranks, rank, round, elements), elements, element_bytes);
}

size_t count_wrong(const Operation& operation, Rank rank, Rank ranks, uint64_t round, const Buffers& buffers) {
  const size_t element_bytes = dtype_size(operation.dtype);
  const std::byte* result = buffers.receive;
  size_t wrong = 0;
  for (const Segment& segment : expected_segments(operation, rank, ranks)) {
    wrong += count_different(result, segment_values(operation, ranks, segment, round), segment.first, operation.count,
                             element_bytes);
    result += operation.count * element_bytes;
  }
  return wrong;
}

}  // namespace gimbal::bench
