// One rank of a job that any launcher started: says who it is and what the sum is, twice, over two communicators in turn.
#include <gimbal/gimbal.h>
#include <stdio.h>

static int report(const char* what) {
  fprintf(stderr, "%s: %s\n", what, gimbal_last_error());
  return 1;
}

static int run_once(void) {
  gimbal_comm_t comm = NULL;
  if (gimbal_comm_create(NULL, &comm) != GIMBAL_OK) return report("gimbal_comm_create");
  int32_t rank = -1;
  int32_t size = -1;
  gimbal_comm_rank(comm, &rank);
  gimbal_comm_size(comm, &size);
  float sum = (float)(rank + 1);
  if (gimbal_all_reduce(&sum, &sum, 1, GIMBAL_FLOAT32, GIMBAL_SUM, comm, NULL) != GIMBAL_OK) return report("gimbal_all_reduce");
  printf("rank %d of %d: sum %g\n", (int)rank, (int)size, (double)sum);
  fflush(stdout);
  if (gimbal_comm_destroy(comm) != GIMBAL_OK) return report("gimbal_comm_destroy");
  return 0;
}

int main(void) {
  const int first = run_once();
  return first != 0 ? first : run_once();
}
