#include "gradsync/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::gradsync {
namespace {

using ::testing::ElementsAre;

std::vector<Parameter> floats(std::initializer_list<size_t> counts) {
  std::vector<Parameter> parameters;
  for (const size_t count : counts) {
    parameters.push_back({"p" + std::to_string(parameters.size()), count, DType::kFloat32});
  }
  return parameters;
}

std::vector<std::vector<size_t>> contents(const Layout& layout) {
  std::vector<std::vector<size_t>> parameters;
  for (const Bucket& bucket : layout.buckets) parameters.push_back(bucket.parameters);
  return parameters;
}

TEST(Layout, LaysGradientsOutInReverseSoThatTheLastLayersBucketIsFirst) {
  const Layout layout = lay_out(floats({16, 16, 16, 16}), 128, 128);
  EXPECT_THAT(contents(layout), ElementsAre(ElementsAre(3, 2), ElementsAre(1, 0)));
  EXPECT_THAT(layout.offsets, ElementsAre(192, 128, 64, 0));
}

TEST(Layout, StartsWithASmallBucket) {
  EXPECT_THAT(contents(lay_out(floats({16, 16, 16, 16}), 64, 192)), ElementsAre(ElementsAre(3), ElementsAre(2, 1, 0)));
}

TEST(Layout, SplitsAParameterLargerThanABucketAndKeepsItContiguous) {
  const Layout layout = lay_out(floats({16, 100, 16}), 64, 256);
  EXPECT_THAT(contents(layout), ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(1, 0)));
  EXPECT_THAT(layout.held[1], ElementsAre(1, 2));
  EXPECT_EQ(layout.buckets[1].count, 64u);
  EXPECT_EQ(layout.buckets[2].offset, layout.buckets[1].offset + 256);
}

TEST(Layout, KeepsTypesApart) {
  std::vector<Parameter> parameters = floats({16, 16, 16});
  parameters[1].dtype = DType::kBfloat16;
  const Layout layout = lay_out(parameters, 1024, 1024);
  EXPECT_THAT(contents(layout), ElementsAre(ElementsAre(1), ElementsAre(2, 0)));
}

TEST(Layout, HasEveryElementInExactlyOneBucket) {
  const std::vector<Parameter> parameters = floats({1, 1000, 17, 4096, 3, 3, 250, 64});
  for (const size_t limit : {64, 100, 256, 4096, 1 << 20}) {
    const Layout layout = lay_out(parameters, 64, limit);
    std::vector<int> owners(layout.bytes, 0);
    for (const Bucket& bucket : layout.buckets) {
      for (size_t i = 0; i < bucket.count * sizeof(float); ++i) ++owners[bucket.offset + i];
      EXPECT_LE(bucket.count * sizeof(float), std::max<size_t>(limit / 64 * 64, 64)) << limit;
    }
    EXPECT_THAT(owners, ::testing::Each(1)) << limit;
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(layout.offsets[i] % kGradientAlignment, 0u);
      EXPECT_LE(layout.offsets[i] + parameters[i].bytes(), layout.bytes);
    }
  }
}

TEST(Layout, ReordersBucketsAndLeavesTheMemoryAsItIs) {
  Layout layout = lay_out(floats({16, 16, 16}), 64, 64);
  const std::vector<size_t> offsets = layout.offsets;
  const std::vector<size_t> order = {2, 0, 1};
  reorder(layout, order);
  EXPECT_THAT(contents(layout), ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(1)));
  EXPECT_EQ(layout.offsets, offsets);
  EXPECT_THAT(layout.held, ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(1)));
}

TEST(FirstDifference, NamesTheLineOnBothSides) {
  const Options options;
  const std::vector<Parameter> mine = floats({16, 17});
  const std::vector<Parameter> theirs = floats({16, 18});
  EXPECT_EQ(first_difference(manifest_of(mine, options), manifest_of(theirs, options)),
            "parameter 1: \"p1\", 17 of type 8 here, but parameter 1: \"p1\", 18 of type 8 on rank 0");
  EXPECT_EQ(first_difference(manifest_of(mine, options), manifest_of(floats({16}), options)),
            "parameter 1: \"p1\", 17 of type 8 here, but no more parameters on rank 0");
  EXPECT_EQ(first_difference(manifest_of(mine, options), manifest_of(mine, options)), "");
}

}  // namespace
}  // namespace gimbal::gradsync
