// The chooser: of all ways to carry out a collective, the one that costs least at each size.
//
// For every collective and type it asks the cost model for each way at every power of two from 8 B to 1 GiB and keeps the lower
// envelope, with hysteresis: a way is left for another only where that pays, so that ways which cost the same do not alternate.
//
// Everything is a function of the model and the corrections: ranks that have equal ones choose equally.
#pragma once

#include <string>
#include <vector>

#include "collectives/corrections.h"
#include "collectives/cost.h"
#include "collectives/way.h"

namespace gimbal {

struct Option {
  Way way;
  double time_us = 0;
  Cost estimate = {};        // of the model alone
  bool is_measured = false;  // a correction has entered
};

// One size of a table: what there is, cheapest first, and which one is taken.
struct SizeOptions {
  size_t bytes = 0;
  std::vector<Option> options;
  size_t chosen = 0;
};

// A switch must save more than this over the sizes that it is made for.
inline constexpr double kHysteresis = 0.03;

// Sets `chosen` for sizes in ascending order, none without options: least is the product of all times, where each switch from
// one size to the next counts as a factor of 1 + hysteresis unless the way left does not exist there.
void choose_ways(std::vector<SizeOptions>& sizes, double hysteresis = kHysteresis);

// One row of a table: this way from so many bytes up to the next row's.
struct TableRow {
  size_t from_bytes = 0;
  Way way;

  bool operator==(const TableRow&) const = default;
};

// Where ways change between two sizes, they do so half-way on the logarithm; a flag's row ends where flags do at the latest.
std::vector<TableRow> rows_of(const std::vector<SizeOptions>& sizes);
// Null for an empty table.
const Way* find_row(const std::vector<TableRow>& rows, size_t bytes);

// Stage chunks: a pair in one shot adds a chunk while it stages the next, and both fit into a second-level cache of 1 MiB with
// the output; otherwise larger ones save flags (bench/results, node_direct.txt).
inline constexpr size_t kPairChunkBytes = size_t{128} << 10;
inline constexpr size_t kChunkBytes = size_t{256} << 10;
size_t stage_chunk_bytes(Rank nranks, Protocol protocol);

// Channels that run beside each other let one lane fill while another is reduced.
inline constexpr uint8_t kScheduleChannels = 2;
inline constexpr size_t kSlotBytes = size_t{32} << 10;

// All that can serve so many bytes per rank: direct where the ranks share a machine's memory, and the registry's schedules.
std::vector<Way> ways_for(const CostInputs& inputs, Rank nranks, Collective collective, size_t bytes);

// A type that stands for all between which no cost differs.
DType table_type(Collective collective, DType dtype);

class Tuner {
 public:
  explicit Tuner(CostModel model, Corrections corrections = {})
      : model_(std::move(model)), corrections_(std::move(corrections)) {}

  [[nodiscard]] const CostModel& model() const { return model_; }
  [[nodiscard]] const Corrections& corrections() const { return corrections_; }

  // What one way would cost, corrected.
  [[nodiscard]] Result<Option> estimate(const Way& way, Collective collective, size_t bytes, DType dtype) const;
  // Every way at exactly this size, cheapest first; `chosen` is 0. Ways that the model cannot judge are left out.
  [[nodiscard]] SizeOptions options(Collective collective, size_t bytes, DType dtype) const;
  // Every power of two with the way that is taken there. Types of one table_type() have the same table.
  [[nodiscard]] std::vector<SizeOptions> table(Collective collective, DType dtype) const;

 private:
  CostModel model_;
  Corrections corrections_;
};

}  // namespace gimbal
