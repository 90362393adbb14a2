// GIMBAL_IB_*: which ports they admit, and which values they refuse.
#include "transport/verbs_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scoped_environment.h"

namespace gimbal::testing {
namespace {

using test::ScopedEnvironment;
using ::testing::HasSubstr;

PortFilter filter(std::string_view text) { return PortFilter::parse(text).value(); }

TEST(PortFilter, AdmitsAllPortsWithoutAList) {
  EXPECT_TRUE(PortFilter().admits("mlx5_0", 1));
  EXPECT_TRUE(PortFilter().admits("rxe0", 2));
}

TEST(PortFilter, TakesNamesForPrefixes) {
  EXPECT_TRUE(filter("mlx5").admits("mlx5_7", 1));
  EXPECT_TRUE(filter("bnxt,mlx5_1").admits("mlx5_11", 1));
  EXPECT_FALSE(filter("mlx5_1").admits("mlx5_0", 1));
}

TEST(PortFilter, TakesNamesExactlyAfterAnEqualsSign) {
  EXPECT_TRUE(filter("=mlx5_0:1,mlx5_1").admits("mlx5_0", 1));
  EXPECT_TRUE(filter("=mlx5_0:1,mlx5_1").admits("mlx5_1", 2));
  EXPECT_FALSE(filter("=mlx5_0:1,mlx5_1").admits("mlx5_0", 2));
  EXPECT_FALSE(filter("=mlx5_1").admits("mlx5_11", 1));
}

TEST(PortFilter, AdmitsAllOthersAfterACaret) {
  EXPECT_FALSE(filter("^mlx5_1").admits("mlx5_10", 1));
  EXPECT_TRUE(filter("^=mlx5_1").admits("mlx5_10", 1));
  EXPECT_TRUE(filter("^=mlx5_1:2").admits("mlx5_1", 1));
  EXPECT_FALSE(filter("^=mlx5_1:2").admits("mlx5_1", 2));
}

TEST(PortFilter, RefusesListsWithHolesAndPortsThatAreNone) {
  for (const char* text : {"^", "=", "mlx5_0,", ",mlx5_0", ":1", "mlx5_0:0", "mlx5_0:256", "mlx5_0:x", "mlx5_0:"}) {
    EXPECT_EQ(PortFilter::parse(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(VerbsSettings, AreTheDocumentedOnesByDefault) {
  const VerbsSettings settings = read_verbs_settings().value();
  EXPECT_EQ(settings.gid_index, -1);
  EXPECT_EQ(settings.timeout, 18);
  EXPECT_LT(settings.retry_count, 7) << "seven is for ever on soft-RoCE";
  EXPECT_EQ(settings.queue_pairs, 2u);
  EXPECT_EQ(settings.mtu, 0u);
}

TEST(VerbsSettings, AreReadFromTheEnvironment) {
  const ScopedEnvironment list("GIMBAL_IB_HCA", "^rxe1");
  const ScopedEnvironment mtu("GIMBAL_IB_MTU", "2048");
  const ScopedEnvironment level("GIMBAL_IB_SERVICE_LEVEL", "3");
  const VerbsSettings settings = read_verbs_settings().value();
  EXPECT_FALSE(settings.ports.admits("rxe1", 1));
  EXPECT_EQ(settings.mtu, 2048u);
  EXPECT_EQ(settings.service_level, 3);
}

TEST(VerbsSettings, NameTheVariableOfAValueThatIsRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {"GIMBAL_IB_MTU", "1500"},          {"GIMBAL_IB_MTU", "8192"},      {"GIMBAL_IB_TIMEOUT", "0"},
      {"GIMBAL_IB_TIMEOUT", "32"},        {"GIMBAL_IB_RETRY_COUNT", "8"}, {"GIMBAL_IB_SERVICE_LEVEL", "16"},
      {"GIMBAL_IB_TRAFFIC_CLASS", "256"}, {"GIMBAL_IB_GID_INDEX", "-1"},  {"GIMBAL_IB_QUEUE_PAIRS", "0"},
      {"GIMBAL_IB_QUEUE_PAIRS", "17"},    {"GIMBAL_IB_RAILS", "nine"},    {"GIMBAL_IB_HCA", "mlx5_0:"},
  };
  for (const auto& [name, value] : refused) {
    const ScopedEnvironment variable(name, value);
    const Status status = read_verbs_settings().status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name << "=" << value;
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace gimbal::testing
