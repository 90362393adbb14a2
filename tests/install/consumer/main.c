/* consumer VERSION: one rank alone, with the library of that version. Says what went wrong and exits 1, or exits 0. */
#include <gimbal/gimbal.h>
#include <stdio.h>
#include <string.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, gimbal_last_error());
  return 1;
}

int main(int argc, char** argv) {
  const double sent[3] = {1.0, -2.5, 1e300};
  double received[3] = {0.0, 0.0, 0.0};
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  gimbal_comm_t comm;
  if (argc != 2 || strcmp(gimbal_version_string(), argv[1]) != 0) {
    fprintf(stderr, "the library is version %s, expected %s\n", gimbal_version_string(), argc == 2 ? argv[1] : "an argument");
    return 1;
  }
  config.rank = 0;
  config.size = 1;
  if (gimbal_comm_create(&config, &comm) != GIMBAL_OK) return fail("gimbal_comm_create");
  if (gimbal_all_reduce(sent, received, 3, GIMBAL_FLOAT64, GIMBAL_SUM, comm, NULL) != GIMBAL_OK)
    return fail("gimbal_all_reduce");
  if (gimbal_comm_destroy(comm) != GIMBAL_OK) return fail("gimbal_comm_destroy");
  if (memcmp(sent, received, sizeof sent) != 0) {
    fprintf(stderr, "one rank's sum is {%g, %g, %g}, expected what it sent\n", received[0], received[1], received[2]);
    return 1;
  }
  return 0;
}
