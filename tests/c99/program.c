/* The public header used from C99. Says what went wrong and exits 1, or exits 0. */
#include <stdio.h>
#include <string.h>

#include "gimbal/gimbal.h"

static int expect_text(const char* what, const char* actual, const char* expected) {
  if (strcmp(actual, expected) == 0) return 0;
  fprintf(stderr, "%s is \"%s\", expected \"%s\"\n", what, actual, expected);
  return 1;
}

int main(void) {
  int failures = 0;
  failures += expect_text("gimbal_status_name(GIMBAL_OK)", gimbal_status_name(GIMBAL_OK), "GIMBAL_OK");
  failures += expect_text("gimbal_status_name(GIMBAL_TIMEOUT)", gimbal_status_name(GIMBAL_TIMEOUT), "GIMBAL_TIMEOUT");
  return failures == 0 ? 0 : 1;
}
