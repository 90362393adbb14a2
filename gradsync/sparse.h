// Sums of some rows of a table over ranks: the rows are gathered, or the whole table is added where that is predicted to be
// fewer bytes. Used by one thread at a time, as its communicator is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "gimbal/gradsync.h"

namespace gimbal::gradsync {

// Rows by ascending index, each once: values[i * columns] begins row indices[i].
struct Rows {
  std::vector<int64_t> indices;
  std::vector<float> values;
};

// Rows of equal index are added in the order in which they are given.
Rows add_up(std::span<const int64_t> indices, const float* values, size_t columns);

class SparseReducer {
 public:
  static Result<std::unique_ptr<SparseReducer>> create(gimbal_comm_t comm, size_t rows, size_t columns,
                                                       gimbal_gradsync_reduction_t reduction);

  // The arguments have been checked. The result is this object's until the next call.
  Status reduce(std::span<const int64_t> indices, const float* values, double weight, gimbal_sparse_form_t form,
                gimbal_sparse_result_t& result);

  [[nodiscard]] size_t rows() const { return rows_; }
  [[nodiscard]] bool weighted() const { return reduction_ == GIMBAL_GRADSYNC_WEIGHTED_MEAN; }

 private:
  // What each rank says before it sends.
  struct Announcement {
    uint64_t count;
    double weight;
  };

  SparseReducer(gimbal_comm_t comm, size_t rows, size_t columns, gimbal_gradsync_reduction_t reduction)
      : comm_(comm), rows_(rows), columns_(columns), reduction_(reduction) {}
  Result<double> announce(const Announcement& own);
  Status gather(const Rows& own);
  Status add_whole(const Rows& own);
  void spread(const Rows& from);
  void collect();

  gimbal_comm_t comm_;
  size_t ranks_ = 1;
  size_t rows_;
  size_t columns_;
  gimbal_gradsync_reduction_t reduction_;
  std::vector<Announcement> announced_;  // by rank, of this call
  Rows sum_;
  std::vector<float> whole_;
};

}  // namespace gimbal::gradsync
