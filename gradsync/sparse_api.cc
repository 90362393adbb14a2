// C entry points of sparse gradients.
#include <cmath>

#include "base/entry.h"
#include "base/handle_table.h"
#include "gimbal/gradsync.h"
#include "gradsync/sparse.h"

namespace gradsync = gimbal::gradsync;
using gimbal::Code;
using gimbal::Status;

namespace {

using SparseTable = gimbal::HandleTable<gradsync::SparseReducer, 0x4>;

// Never destroyed: handles may be used by static destructors of the program.
SparseTable& reducers() {
  static auto* const kTable = new SparseTable();
  return *kTable;
}

uintptr_t number_of(gimbal_sparse_t sparse) { return reinterpret_cast<uintptr_t>(sparse); }

Status not_a_reducer(gimbal_sparse_t sparse) {
  if (sparse == nullptr) return {Code::kInvalidArgument, "sparse is NULL"};
  return {Code::kInvalidArgument, "the handle names no sparse gradient: it was destroyed or never made"};
}

Status check_rows(std::span<const int64_t> indices, size_t rows) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= 0 && static_cast<uint64_t>(indices[i]) < rows) continue;
    return {Code::kInvalidArgument, "indices[" + std::to_string(i) + "] is " + std::to_string(indices[i]) + "; allowed: 0 to " +
                                        std::to_string(rows - 1)};
  }
  return {};
}

Status check_weight(double weight, bool weighted) {
  if (!(weight >= 0) || std::isinf(weight)) {
    return {Code::kInvalidArgument, "weight is " + std::to_string(weight) + "; allowed: 0 and greater, finite"};
  }
  if (weighted || weight == 1) return {};
  return {Code::kInvalidArgument,
          "weight is " + std::to_string(weight) + "; only GIMBAL_GRADSYNC_WEIGHTED_MEAN takes another than 1"};
}

}  // namespace

gimbal_status_t gimbal_sparse_create(gimbal_comm_t comm, size_t rows, size_t columns, gimbal_gradsync_reduction_t reduction,
                                     gimbal_sparse_t* sparse) {
  return gimbal::enter([&]() -> Status {
    if (sparse == nullptr) return {Code::kInvalidArgument, "sparse is NULL"};
    *sparse = nullptr;
    size_t bytes = 0;
    if (rows == 0 || columns == 0 || __builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, 2 * sizeof(float), &bytes)) {
      return {Code::kInvalidArgument, "a table of " + std::to_string(rows) + " rows and " + std::to_string(columns) +
                                          " columns is empty or exceeds the address space"};
    }
    const int kind = reduction;
    if (kind < 0 || kind > GIMBAL_GRADSYNC_WEIGHTED_MEAN) {
      return {Code::kInvalidArgument, "reduction is " + std::to_string(kind) + "; allowed: 0 to 2"};
    }
    ASSIGN_OR_RETURN(auto made, gradsync::SparseReducer::create(comm, rows, columns, reduction));
    const uintptr_t handle = reducers().insert(std::move(made));
    if (handle == 0) return {Code::kNoMemory, "too many sparse gradients are alive in this process"};
    *sparse = reinterpret_cast<gimbal_sparse_t>(handle);
    return {};
  });
}

gimbal_status_t gimbal_sparse_destroy(gimbal_sparse_t sparse) {
  return gimbal::enter(
      [&]() -> Status { return reducers().erase(number_of(sparse)) == nullptr ? not_a_reducer(sparse) : Status(); });
}

gimbal_status_t gimbal_sparse_reduce(gimbal_sparse_t sparse, const int64_t* indices, const float* values, size_t count,
                                     double weight, gimbal_sparse_form_t form, gimbal_sparse_result_t* result) {
  return gimbal::enter([&]() -> Status {
    gradsync::SparseReducer* const found = reducers().find(number_of(sparse));
    if (found == nullptr) return not_a_reducer(sparse);
    if (count != 0 && indices == nullptr) return {Code::kInvalidArgument, "indices is NULL"};
    if (count != 0 && values == nullptr) return {Code::kInvalidArgument, "values is NULL"};
    if (result == nullptr || result->struct_bytes != sizeof(gimbal_sparse_result_t)) {
      return {Code::kInvalidArgument, "result is NULL or not set by GIMBAL_SPARSE_RESULT_INIT"};
    }
    const int form_value = form;
    if (form_value < 0 || form_value > GIMBAL_SPARSE_DENSE) {
      return {Code::kInvalidArgument, "form is " + std::to_string(form_value) + "; allowed: 0 to 2"};
    }
    RETURN_IF_ERROR(check_rows({indices, count}, found->rows()));
    RETURN_IF_ERROR(check_weight(weight, found->weighted()));
    return found->reduce({indices, count}, values, weight, form, *result);
  });
}
