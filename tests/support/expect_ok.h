// For calls of the C API that must succeed.
#pragma once

#include <gtest/gtest.h>

#include "gimbal/gimbal.h"

namespace gimbal::test {

// Fails the test with the library's sentence.
inline void expect_ok(gimbal_status_t status, const char* what = "") {
  EXPECT_EQ(status, GIMBAL_OK) << what << ": " << gimbal_status_name(status) << ": " << gimbal_last_error();
}

}  // namespace gimbal::test
