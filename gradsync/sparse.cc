#include "gradsync/sparse.h"

#include <algorithm>
#include <numeric>

#include "gradsync/calls.h"

namespace gimbal::gradsync {
namespace {

void divide(std::span<float> values, double total) {
  if (total == 1) return;
  const auto divisor = static_cast<float>(total);
  for (float& value : values) value /= divisor;
}

}  // namespace

Rows add_up(std::span<const int64_t> indices, const float* values, size_t columns) {
  std::vector<size_t> order(indices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return indices[a] < indices[b]; });
  Rows rows;
  rows.indices.reserve(indices.size());
  rows.values.reserve(indices.size() * columns);
  for (const size_t place : order) {
    const float* const row = values + place * columns;
    if (rows.indices.empty() || rows.indices.back() != indices[place]) {
      rows.indices.push_back(indices[place]);
      rows.values.insert(rows.values.end(), row, row + columns);
      continue;
    }
    float* const sum = rows.values.data() + rows.values.size() - columns;
    for (size_t i = 0; i < columns; ++i) sum[i] += row[i];
  }
  return rows;
}

Result<std::unique_ptr<SparseReducer>> SparseReducer::create(gimbal_comm_t comm, size_t rows, size_t columns,
                                                             gimbal_gradsync_reduction_t reduction) {
  auto made = std::unique_ptr<SparseReducer>(new SparseReducer(comm, rows, columns, reduction));
  int32_t size = 1;
  RETURN_IF_ERROR(from_c(gimbal_comm_size(comm, &size)));
  made->ranks_ = static_cast<size_t>(size);
  return made;
}

Status SparseReducer::reduce(std::span<const int64_t> indices, const float* values, double weight, gimbal_sparse_form_t form,
                             gimbal_sparse_result_t& result) {
  Rows own = add_up(indices, values, columns_);
  if (weighted()) {
    for (float& value : own.values) value *= static_cast<float>(weight);
  }
  ASSIGN_OR_RETURN(const double total, announce({own.indices.size(), weight}));
  const uint64_t rows = std::accumulate(announced_.begin(), announced_.end(), uint64_t{0},
                                        [](uint64_t sum, const Announcement& each) { return sum + each.count; });
  // Of all ranks' rows each rank passes on all but one rank's; of the table, twice all but one rank's part.
  const uint64_t others = ranks_ - 1;
  result.rows_bytes = rows * (sizeof(int64_t) + columns_ * sizeof(float)) * others / ranks_;
  result.dense_bytes = 2 * rows_ * columns_ * sizeof(float) * others / ranks_;
  result.travelled_dense = result.dense_bytes < result.rows_bytes ? 1 : 0;
  result.is_dense = form == GIMBAL_SPARSE_CHEAPER ? result.travelled_dense : form == GIMBAL_SPARSE_DENSE ? 1 : 0;
  if (result.travelled_dense == 1) {
    RETURN_IF_ERROR(add_whole(own));
    divide(whole_, total);
    if (result.is_dense == 0) collect();
  } else {
    RETURN_IF_ERROR(gather(own));
    divide(sum_.values, total);
    if (result.is_dense == 1) spread(sum_);
  }
  result.count = result.is_dense == 1 ? rows_ : sum_.indices.size();
  result.indices = result.is_dense == 1 ? nullptr : sum_.indices.data();
  result.values = result.is_dense == 1 ? whole_.data() : sum_.values.data();
  return {};
}

// What the sum is divided by.
Result<double> SparseReducer::announce(const Announcement& own) {
  static_assert(sizeof(Announcement) == 2 * sizeof(uint64_t));
  announced_.resize(ranks_);
  RETURN_IF_ERROR(from_c(gimbal_all_gather(&own, announced_.data(), 2, GIMBAL_UINT64, comm_, nullptr)));
  if (reduction_ == GIMBAL_GRADSYNC_SUM) return 1.0;
  if (reduction_ == GIMBAL_GRADSYNC_MEAN) return static_cast<double>(ranks_);
  double total = 0;
  for (const Announcement& each : announced_) total += each.weight;
  if (total > 0) return total;
  return Status(Code::kInvalidArgument, "the weights of all ranks are 0");
}

Status SparseReducer::gather(const Rows& own) {
  std::vector<size_t> counts(ranks_);
  std::vector<size_t> value_counts(ranks_);
  for (size_t rank = 0; rank < ranks_; ++rank) {
    counts[rank] = announced_[rank].count;
    value_counts[rank] = counts[rank] * columns_;
  }
  const size_t rows = std::accumulate(counts.begin(), counts.end(), size_t{0});
  std::vector<int64_t> indices(rows);
  std::vector<float> values(rows * columns_);
  RETURN_IF_ERROR(from_c(gimbal_all_gather_v(own.indices.data(), own.indices.size(), indices.data(), counts.data(), nullptr,
                                             GIMBAL_INT64, comm_, nullptr)));
  RETURN_IF_ERROR(from_c(gimbal_all_gather_v(own.values.data(), own.values.size(), values.data(), value_counts.data(), nullptr,
                                             GIMBAL_FLOAT32, comm_, nullptr)));
  sum_ = add_up(indices, values.data(), columns_);
  return {};
}

Status SparseReducer::add_whole(const Rows& own) {
  spread(own);
  return from_c(gimbal_all_reduce(whole_.data(), whole_.data(), whole_.size(), GIMBAL_FLOAT32, GIMBAL_SUM, comm_, nullptr));
}

void SparseReducer::spread(const Rows& from) {
  whole_.assign(rows_ * columns_, 0.0F);
  for (size_t i = 0; i < from.indices.size(); ++i) {
    std::copy_n(from.values.data() + i * columns_, columns_, whole_.data() + static_cast<size_t>(from.indices[i]) * columns_);
  }
}

void SparseReducer::collect() {
  sum_ = {};
  for (size_t row = 0; row < rows_; ++row) {
    const auto values = std::span(whole_).subspan(row * columns_, columns_);
    if (std::ranges::all_of(values, [](float value) { return value == 0; })) continue;
    sum_.indices.push_back(static_cast<int64_t>(row));
    sum_.values.insert(sum_.values.end(), values.begin(), values.end());
  }
}

}  // namespace gimbal::gradsync
