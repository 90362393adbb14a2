/* A driver with a planted fault: from three elements up, the last but one is wrong. What compare must catch. */
#include "bench/compare/method.h"

static int barrier(void* context) { return (void)context, 0; }

static int all_reduce(void* context, const float* send, float* recv, size_t count) {
  (void)context;
  memcpy(recv, send, count * sizeof *recv);
  if (count > 2) recv[count - 2] += 1.0F;
  return 0;
}

static int max(void* context, double* values, size_t count) { return (void)context, (void)values, (void)count, 0; }

static int allocate(void* context, size_t bytes, float** buffer) { return (void)context, method_allocate_pages(bytes, buffer); }

int main(int argc, char** argv) {
  const MethodDriver driver = {NULL, 0, 1, barrier, all_reduce, max, allocate};
  MethodOptions options;
  const int status = method_parse(argc, argv, &options);
  return status != 0 ? status : method_run(&driver, &options);
}
