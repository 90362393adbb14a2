// Sparse gradients over the C API: rows of a table that are gathered or added whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "gimbal/gradsync.h"
#include "tests/support/communicator.h"
#include "tests/support/ranks.h"

namespace gimbal::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Sparse {
 public:
  Sparse(const RankContext& context, size_t rows, size_t columns, gimbal_gradsync_reduction_t reduction)
      : comm_(context), columns_(columns) {
    EXPECT_EQ(gimbal_sparse_create(comm_.get(), rows, columns, reduction, &sparse_), GIMBAL_OK) << gimbal_last_error();
  }
  ~Sparse() { EXPECT_EQ(gimbal_sparse_destroy(sparse_), GIMBAL_OK) << gimbal_last_error(); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  [[nodiscard]] gimbal_sparse_t get() const { return sparse_; }
  gimbal_sparse_result_t reduce(const std::vector<int64_t>& indices, const std::vector<float>& values,
                                gimbal_sparse_form_t form = GIMBAL_SPARSE_CHEAPER, double weight = 1) {
    gimbal_sparse_result_t result = GIMBAL_SPARSE_RESULT_INIT;
    EXPECT_EQ(values.size(), indices.size() * columns_);
    EXPECT_EQ(gimbal_sparse_reduce(sparse_, indices.data(), values.data(), indices.size(), weight, form, &result), GIMBAL_OK)
        << gimbal_last_error();
    return result;
  }
  [[nodiscard]] std::vector<int64_t> indices(const gimbal_sparse_result_t& result) const {
    return {result.indices, result.indices + result.count};
  }
  [[nodiscard]] std::vector<float> values(const gimbal_sparse_result_t& result) const {
    return {result.values, result.values + result.count * columns_};
  }
  bool equal_on_all_ranks(const gimbal_sparse_result_t& result) {
    return comm_.equal_on_all_ranks(std::as_bytes(std::span(result.values, result.count * columns_)));
  }

 private:
  Communicator comm_;
  size_t columns_;
  gimbal_sparse_t sparse_ = nullptr;
};

class SparseGradient : public ::testing::TestWithParam<RankKind> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SparseGradient, ::testing::ValuesIn(rank_kinds()),
                         [](const auto& kind) { return rank_kind_name(kind.param); });

TEST_P(SparseGradient, AddsRowsThatAreThereMoreThanOnce) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Sparse sparse(context, 1000, 2, GIMBAL_GRADSYNC_SUM);
    const gimbal_sparse_result_t result =
        context.rank == 0 ? sparse.reduce({7, 3, 7}, {1, 2, 3, 4, 10, 20}) : sparse.reduce({999, 7}, {5, 6, 100, 200});
    EXPECT_EQ(result.is_dense, 0);
    EXPECT_EQ(result.travelled_dense, 0);
    EXPECT_THAT(sparse.indices(result), ElementsAre(3, 7, 999));
    EXPECT_THAT(sparse.values(result), ElementsAre(3, 4, 111, 222, 5, 6));
    EXPECT_EQ(result.rows_bytes, 4u * (8 + 2 * 4) / 2);  // 2 rows of each rank, after adding up its own
    EXPECT_EQ(result.dense_bytes, 1000u * 2 * 4);
  });
}

TEST_P(SparseGradient, MeansMayBeWeightedAndARankMayHaveNoRows) {
  run_ranks(GetParam(), 3, [](const RankContext& context) {
    Sparse mean(context, 100, 1, GIMBAL_GRADSYNC_MEAN);
    const bool has_rows = context.rank != 1;
    gimbal_sparse_result_t result = mean.reduce(has_rows ? std::vector<int64_t>{5} : std::vector<int64_t>{},
                                                has_rows ? std::vector<float>{6} : std::vector<float>{});
    EXPECT_THAT(mean.indices(result), ElementsAre(5));
    EXPECT_THAT(mean.values(result), ElementsAre(4));
    result = mean.reduce({}, {});
    EXPECT_EQ(result.count, 0u);

    Sparse weighted({context.rank, context.size, context.rendezvous + "-w"}, 100, 1, GIMBAL_GRADSYNC_WEIGHTED_MEAN);
    result = weighted.reduce({8}, {static_cast<float>(context.rank)}, GIMBAL_SPARSE_CHEAPER, context.rank == 2 ? 2 : 1);
    EXPECT_THAT(weighted.values(result), ElementsAre(1.25F));
  });
}

TEST_P(SparseGradient, TravelsWholeWhereThatIsFewerBytes) {
  run_ranks(GetParam(), 2, [](const RankContext& context) {
    Sparse sparse(context, 10, 4, GIMBAL_GRADSYNC_MEAN);
    std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<float> values(indices.size() * 4, 2.0F);
    for (int64_t& index : indices) index = 8 - index;
    const gimbal_sparse_result_t result = sparse.reduce(indices, values);
    EXPECT_LT(result.dense_bytes, result.rows_bytes);
    EXPECT_EQ(result.travelled_dense, 1);
    EXPECT_EQ(result.is_dense, 1);
    EXPECT_EQ(result.count, 10u);
    EXPECT_THAT(std::span(result.values, 36), Each(2.0F));
    EXPECT_THAT(std::span(result.values + 36, 4), Each(0.0F));
    const gimbal_sparse_result_t rows = sparse.reduce(indices, values, GIMBAL_SPARSE_ROWS);
    EXPECT_EQ(rows.travelled_dense, 1);
    EXPECT_THAT(sparse.indices(rows), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(sparse.values(rows), Each(2.0F));
  });
}

// The same sums by both ways, for ranks whose rows overlap; the order of additions is fixed, so all ranks have the same bits.
TEST_P(SparseGradient, GivesTheSameSumsInEitherForm) {
  for (const int32_t ranks : {1, 2, 4}) {
    run_ranks(GetParam(), ranks, [](const RankContext& context) {
      constexpr size_t kRows = 500;
      constexpr size_t kColumns = 7;
      Sparse sparse(context, kRows, kColumns, GIMBAL_GRADSYNC_SUM);
      std::vector<double> expected(kRows * kColumns);
      std::vector<int64_t> indices;
      std::vector<float> values;
      for (int32_t rank = 0; rank < context.size; ++rank) {
        std::mt19937 generator(static_cast<unsigned>(rank));
        std::vector<int64_t> rows(60);
        for (int64_t& row : rows) row = generator() % kRows;
        std::vector<float> numbers(rows.size() * kColumns);
        for (float& number : numbers) number = static_cast<float>(generator() % 1000) / 8;
        for (size_t i = 0; i < numbers.size(); ++i) {
          expected[static_cast<size_t>(rows[i / kColumns]) * kColumns + i % kColumns] += static_cast<double>(numbers[i]);
        }
        if (rank == context.rank) {
          indices = rows;
          values = numbers;
        }
      }
      const gimbal_sparse_result_t dense = sparse.reduce(indices, values, GIMBAL_SPARSE_DENSE);
      ASSERT_EQ(dense.count, kRows);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(static_cast<double>(dense.values[i]), expected[i]) << i;
      const gimbal_sparse_result_t rows = sparse.reduce(indices, values, GIMBAL_SPARSE_ROWS);
      for (size_t i = 0; i < rows.count * kColumns; ++i) {
        const size_t place = static_cast<size_t>(rows.indices[i / kColumns]) * kColumns + i % kColumns;
        ASSERT_EQ(static_cast<double>(rows.values[i]), expected[place]) << i;
      }
      EXPECT_TRUE(sparse.equal_on_all_ranks(rows));
    });
  }
}

TEST(SparseGradientArguments, AreToldWithWhatIsAllowed) {
  run_ranks(RankKind::kThreads, 1, [](const RankContext& context) {
    Sparse sparse(context, 10, 2, GIMBAL_GRADSYNC_MEAN);
    const int64_t index = 10;
    const float values[] = {1, 2};
    gimbal_sparse_result_t result = GIMBAL_SPARSE_RESULT_INIT;
    const auto refused = [&](gimbal_status_t status, const char* sentence) {
      EXPECT_EQ(status, GIMBAL_INVALID_ARGUMENT) << sentence;
      EXPECT_THAT(gimbal_last_error(), HasSubstr(sentence));
    };
    refused(gimbal_sparse_reduce(sparse.get(), &index, values, 1, 1, GIMBAL_SPARSE_ROWS, &result),
            "indices[0] is 10; allowed: 0 to 9");
    refused(gimbal_sparse_reduce(sparse.get(), &index, nullptr, 1, 1, GIMBAL_SPARSE_ROWS, &result), "values is NULL");
    refused(gimbal_sparse_reduce(sparse.get(), nullptr, nullptr, 0, 2, GIMBAL_SPARSE_ROWS, &result), "weight is 2.0");
    refused(gimbal_sparse_reduce(nullptr, nullptr, nullptr, 0, 1, GIMBAL_SPARSE_ROWS, &result), "sparse is NULL");
    result.struct_bytes = 0;
    refused(gimbal_sparse_reduce(sparse.get(), nullptr, nullptr, 0, 1, GIMBAL_SPARSE_ROWS, &result),
            "GIMBAL_SPARSE_RESULT_INIT");
    gimbal_sparse_t none = nullptr;
    refused(gimbal_sparse_create(nullptr, 0, 3, GIMBAL_GRADSYNC_MEAN, &none), "a table of 0 rows and 3 columns");
  });
}

}  // namespace
}  // namespace gimbal::test
