// What a synchronizer is made from, and the comparison of it over the ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "gimbal/gradsync.h"

namespace gimbal::gradsync {

struct Parameter {
  std::string name;
  size_t count;
  DType dtype;
  size_t rows = 1;  // as a matrix

  [[nodiscard]] size_t bytes() const { return count * dtype_size(dtype); }
};

struct Options {
  gimbal_gradsync_reduction_t reduction = GIMBAL_GRADSYNC_MEAN;
  bool zero_missing = false;
  size_t bucket_bytes = 0;
  size_t first_bucket_bytes = size_t{1} << 20;
  bool reorder = true;
  bool uneven = false;
  gimbal_gradsync_wire_t wire = GIMBAL_GRADSYNC_WIRE_AS_IS;
  bool wire_between_nodes = false;
  std::optional<gimbal_codec_t> codec;
  size_t trace_steps = 0;

  // Whether buckets are reduced by a thread of the synchronizer, in another form than they have in memory.
  [[nodiscard]] bool compress() const { return wire != GIMBAL_GRADSYNC_WIRE_AS_IS || codec.has_value(); }
};

// Checked copies of what came over the C boundary.
Result<std::vector<Parameter>> take_parameters(const gimbal_gradsync_parameter_t* parameters, size_t count);
// Also sets the parameters' rows.
Result<Options> take_options(const gimbal_gradsync_options_t* options, std::span<Parameter> parameters);

// One line of text for the options and for each parameter: equal on ranks that agree.
std::string manifest_of(std::span<const Parameter> parameters, const Options& options);
// Where this rank's manifest first differs from rank 0's, as a sentence; "" when they are equal.
std::string first_difference(const std::string& mine, const std::string& of_rank_0);

}  // namespace gimbal::gradsync
