#include "runtime/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostList, IsExpandedInItsOrder) {
  EXPECT_THAT(expand_host_list("login").value(), ElementsAre("login"));
  EXPECT_THAT(expand_host_list("node[01-03,7],login").value(), ElementsAre("node01", "node02", "node03", "node7", "login"));
  EXPECT_THAT(expand_host_list("b,a").value(), ElementsAre("b", "a"));
  EXPECT_THAT(expand_host_list("n[1-2]x[3-4].cluster").value(),
              ElementsAre("n1x3.cluster", "n1x4.cluster", "n2x3.cluster", "n2x4.cluster"));
  EXPECT_THAT(expand_host_list("r[098-101]").value(), ElementsAre("r098", "r099", "r100", "r101"));
}

TEST(HostList, ThatIsMalformedIsAnErrorThatShowsIt) {
  for (const char* text : {"", ",", "a,,b", "a[1", "a[]", "a[1-]", "a[-1]", "a[2-1]", "a[x]", "a[1,]", "[", "a[0-999999999]",
                           "a[1-1000][1-1000]"}) {
    const Result<std::vector<std::string>> hosts = expand_host_list(text);
    ASSERT_FALSE(hosts.ok()) << text;
    EXPECT_EQ(hosts.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(hosts.status().message(), HasSubstr("host list \"" + std::string(text) + "\": "));
  }
}

}  // namespace
}  // namespace gimbal::test
