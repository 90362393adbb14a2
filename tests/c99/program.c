/* The public header used from C99. Says what went wrong and exits 1, or exits 0. */
#include <stdio.h>
#include <string.h>

#include "gimbal/gimbal.h"

static int expect_text(const char* what, const char* actual, const char* expected) {
  if (strcmp(actual, expected) == 0) return 0;
  fprintf(stderr, "%s is \"%s\", expected \"%s\"\n", what, actual, expected);
  return 1;
}

static int expect_ok(const char* call, gimbal_status_t status) {
  if (status == GIMBAL_OK) return 0;
  fprintf(stderr, "%s is %s: %s\n", call, gimbal_status_name(status), gimbal_last_error());
  return 1;
}

/* One rank alone, with every initializer macro and a started operation. */
static int use_a_communicator(void) {
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  gimbal_reduce_options_t options = GIMBAL_REDUCE_OPTIONS_INIT;
  gimbal_stats_t stats = GIMBAL_STATS_INIT;
  const int32_t sent[2] = {3, -4};
  const float weighted[2] = {1.0f, 2.0f};
  int32_t received[2] = {0, 0};
  float scaled[2] = {0.0f, 0.0f};
  gimbal_comm_t comm = NULL;
  gimbal_request_t request = NULL;
  int failures = 0;

  config.rank = 0;
  config.size = 1;
  if (expect_ok("gimbal_comm_create", gimbal_comm_create(&config, &comm)) != 0) return 1;
  failures += expect_ok("gimbal_all_reduce_start",
                        gimbal_all_reduce_start(sent, received, 2, GIMBAL_INT32, GIMBAL_MAX, comm, NULL, &request));
  failures += expect_ok("gimbal_wait", gimbal_wait(&request));
  options.weight = 0.5;
  failures += expect_ok("gimbal_all_reduce_options",
                        gimbal_all_reduce_options(weighted, scaled, 2, GIMBAL_FLOAT32, GIMBAL_SUM, &options, comm, NULL));
  failures += expect_ok("gimbal_comm_stats", gimbal_comm_stats(comm, &stats));
  failures += expect_ok("gimbal_comm_destroy", gimbal_comm_destroy(comm));
  if (received[0] != 3 || received[1] != -4 || scaled[0] != 0.5f || scaled[1] != 1.0f || stats.operations != 2) {
    fprintf(stderr, "received {%d, %d} and {%g, %g} in %d operations, expected {3, -4} and {0.5, 1} in 2\n", (int)received[0],
            (int)received[1], (double)scaled[0], (double)scaled[1], (int)stats.operations);
    ++failures;
  }
  return failures;
}

int main(void) {
  int failures = 0;
  failures += expect_text("gimbal_status_name(GIMBAL_OK)", gimbal_status_name(GIMBAL_OK), "GIMBAL_OK");
  failures += expect_text("gimbal_status_name(GIMBAL_TIMEOUT)", gimbal_status_name(GIMBAL_TIMEOUT), "GIMBAL_TIMEOUT");
  failures += use_a_communicator();
  return failures == 0 ? 0 : 1;
}
