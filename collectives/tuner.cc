#include "collectives/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "collectives/algorithm.h"
#include "collectives/chunk_space.h"

namespace gimbal {
namespace {

constexpr size_t kLeastBytes = 8;
constexpr size_t kMostBytes = size_t{1} << 30;

// Which option of `sizes` has the way; nothing when it does not exist there.
std::optional<size_t> find_way(const SizeOptions& size, const Way& way) {
  for (size_t i = 0; i < size.options.size(); ++i) {
    if (size.options[i].way == way) return i;
  }
  return std::nullopt;
}

bool on_gpus(const CostInputs& inputs) {
  return std::any_of(inputs.link_of.begin(), inputs.link_of.end(),
                     [](LinkClass link) { return link == LinkClass::kNvlink || link == LinkClass::kPci; });
}

}  // namespace

void choose_ways(std::vector<SizeOptions>& sizes, double hysteresis) {
  const double penalty = std::log1p(hysteresis);
  // least[i][j]: of all ways to come to option j at size i; came_from[i][j]: the option at size i - 1.
  std::vector<std::vector<double>> least(sizes.size());
  std::vector<std::vector<size_t>> came_from(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (const Option& option : sizes[i].options) {
      double before = i == 0 ? 0 : std::numeric_limits<double>::infinity();
      size_t from = 0;
      for (size_t j = 0; i > 0 && j < sizes[i - 1].options.size(); ++j) {
        const bool stays = sizes[i - 1].options[j].way == option.way;
        const bool must_leave = !find_way(sizes[i], sizes[i - 1].options[j].way).has_value();
        const double cost = least[i - 1][j] + (stays || must_leave ? 0 : penalty);
        if (cost < before) {
          before = cost;
          from = j;
        }
      }
      least[i].push_back(before + std::log(std::max(option.time_us, std::numeric_limits<double>::min())));
      came_from[i].push_back(from);
    }
  }
  if (sizes.empty()) return;
  const std::vector<double>& last = least.back();
  size_t chosen = static_cast<size_t>(std::min_element(last.begin(), last.end()) - last.begin());
  for (size_t i = sizes.size(); i-- > 0;) {
    sizes[i].chosen = chosen;
    chosen = came_from[i][chosen];
  }
}

DType table_type(Collective collective, DType dtype) {
  if (!reduces(collective)) return DType::kUint8;
  const size_t ratio = dtype_size(accumulator_type(dtype, ReduceOp::kSum)) / dtype_size(dtype);
  if (ratio >= 4) return DType::kFloat8E4m3;
  return ratio == 2 ? DType::kBfloat16 : DType::kFloat32;
}

std::vector<TableRow> rows_of(const std::vector<SizeOptions>& sizes) {
  std::vector<TableRow> rows;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Way& way = sizes[i].options[sizes[i].chosen].way;
    if (i == 0) {
      rows.push_back({0, way});
    } else if (way != rows.back().way) {
      const double between = std::sqrt(static_cast<double>(sizes[i - 1].bytes) * static_cast<double>(sizes[i].bytes));
      size_t from_bytes = static_cast<size_t>(between);
      if (rows.back().way.protocol == Protocol::kFlag && sizes[i - 1].bytes <= kFlagBytes) {
        from_bytes = std::min(from_bytes, kFlagBytes + 1);
      }
      rows.push_back({from_bytes, way});
    }
  }
  return rows;
}

const Way* find_row(const std::vector<TableRow>& rows, size_t bytes) {
  const auto above = std::upper_bound(rows.begin(), rows.end(), bytes,
                                      [](size_t wanted, const TableRow& row) { return wanted < row.from_bytes; });
  return above == rows.begin() ? nullptr : &std::prev(above)->way;
}

size_t stage_chunk_bytes(Rank nranks, Protocol protocol) {
  return nranks == 2 && protocol == Protocol::kOneShot ? kPairChunkBytes : kChunkBytes;
}

std::vector<Way> ways_for(const CostInputs& inputs, Rank nranks, Collective collective, size_t bytes) {
  std::vector<Way> ways;
  if (nranks <= inputs.ranks_per_node && !on_gpus(inputs)) {
    for (const Protocol protocol : {Protocol::kFlag, Protocol::kOneShot, Protocol::kTwoShots}) {
      if (!direct_serves(collective, protocol, bytes)) continue;
      const size_t chunk_bytes = protocol == Protocol::kFlag ? kFlagBytes : stage_chunk_bytes(nranks, protocol);
      ways.push_back({kDirectAlgorithm, protocol, 1, chunk_bytes});
    }
  }
  const bool spans_machines = nranks > inputs.ranks_per_node;
  for (const Algorithm* algorithm : algorithms_for(schedule_collective(collective))) {
    if (!spans_machines && algorithm->name.starts_with("hier_")) continue;
    ways.push_back({algorithm->name, Protocol::kSlots, kScheduleChannels, kSlotBytes});
  }
  return ways;
}

Result<Option> Tuner::estimate(const Way& way, Collective collective, size_t bytes, DType dtype) const {
  Option option;
  option.way = way;
  ASSIGN_OR_RETURN(option.estimate, model_.cost(way, collective, bytes, dtype));
  option.time_us = option.estimate.time_us() * corrections_.factor(way, collective, bytes);
  option.is_measured = corrections_.has(way, collective);
  return option;
}

SizeOptions Tuner::options(Collective collective, size_t bytes, DType dtype) const {
  SizeOptions size;
  size.bytes = bytes;
  for (const Way& way : ways_for(model_.inputs(), model_.nranks(), collective, bytes)) {
    Result<Option> option = estimate(way, collective, bytes, dtype);
    if (option.ok()) size.options.push_back(std::move(option).value());
  }
  std::stable_sort(size.options.begin(), size.options.end(),
                   [](const Option& a, const Option& b) { return a.time_us < b.time_us; });
  return size;
}

std::vector<SizeOptions> Tuner::table(Collective collective, DType dtype) const {
  std::vector<SizeOptions> sizes;
  for (size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 2) {
    SizeOptions size = options(collective, bytes, dtype);
    if (!size.options.empty()) sizes.push_back(std::move(size));
  }
  choose_ways(sizes);
  return sizes;
}

}  // namespace gimbal
