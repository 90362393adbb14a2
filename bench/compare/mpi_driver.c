/* All-reduce of any MPI library by the method of bench/compare; compare builds it once per library. */
#include <mpi.h>

#include "method.h"

/* MPI's default error handler ends the job with a message, so that its return values need no look. */
static int barrier(void* context) { return (void)context, MPI_Barrier(MPI_COMM_WORLD); }

static int all_reduce(void* context, const float* send, float* recv, size_t count) {
  return (void)context, MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int max(void* context, double* values, size_t count) {
  return (void)context, MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static int allocate(void* context, size_t bytes, float** buffer) { return (void)context, method_allocate_pages(bytes, buffer); }

int main(int argc, char** argv) {
  MethodDriver driver = {NULL, 0, 0, barrier, all_reduce, max, allocate};
  MethodOptions options;
  int status = method_parse(argc, argv, &options);
  if (status != 0) return status;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &driver.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &driver.size);
  status = method_run(&driver, &options);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  return MPI_Finalize();
}
