/* All-reduce of Gimbal by the method of bench/compare, through the public C API. Ranks come from the launcher's environment.
 * COMPARE_MEMORY=registered takes the buffers from gimbal_mem_alloc; COMPARE_ALGORITHM=name forces an algorithm. */
#include <gimbal/gimbal.h>

#include "method.h"

static int report(gimbal_status_t status, const char* what) {
  if (status == GIMBAL_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, gimbal_status_name(status), gimbal_last_error());
  return kMethodFailed;
}

static int barrier(void* comm) { return report(gimbal_barrier((gimbal_comm_t)comm, NULL), "gimbal_barrier"); }

static int all_reduce(void* comm, const float* send, float* recv, size_t count) {
  const gimbal_status_t status = gimbal_all_reduce(send, recv, count, GIMBAL_FLOAT32, GIMBAL_SUM, (gimbal_comm_t)comm, NULL);
  return report(status, "gimbal_all_reduce");
}

static int max(void* comm, double* values, size_t count) {
  const gimbal_status_t status =
      gimbal_all_reduce(values, values, count, GIMBAL_FLOAT64, GIMBAL_MAX, (gimbal_comm_t)comm, NULL);
  return report(status, "gimbal_all_reduce of times");
}

static int allocate_ordinary(void* comm, size_t bytes, float** buffer) {
  return (void)comm, method_allocate_pages(bytes, buffer);
}

static int allocate_registered(void* comm, size_t bytes, float** buffer) {
  void* memory = NULL;
  const gimbal_status_t status = gimbal_mem_alloc((gimbal_comm_t)comm, GIMBAL_MEMORY_HOST, bytes, &memory);
  *buffer = (float*)memory;
  return report(status, "gimbal_mem_alloc");
}

static int run(const MethodOptions* options) {
  const char* memory = getenv("COMPARE_MEMORY");
  const int registered = memory != NULL && strcmp(memory, "registered") == 0;
  gimbal_config_t config = GIMBAL_CONFIG_INIT;
  gimbal_comm_t comm = NULL;
  int32_t rank = 0;
  int32_t size = 0;
  int status = 0;
  config.algorithm = getenv("COMPARE_ALGORITHM");
  if ((status = report(gimbal_comm_create(&config, &comm), "gimbal_comm_create")) != 0) return status;
  if ((status = report(gimbal_comm_rank(comm, &rank), "gimbal_comm_rank")) != 0) return status;
  if ((status = report(gimbal_comm_size(comm, &size), "gimbal_comm_size")) != 0) return status;
  const MethodDriver driver = {
      comm, rank, size, barrier, all_reduce, max, registered ? allocate_registered : allocate_ordinary};
  if ((status = method_run(&driver, options)) != 0) return status;
  if ((status = barrier(comm)) != 0) return status;
  return report(gimbal_comm_destroy(comm), "gimbal_comm_destroy");
}

int main(int argc, char** argv) {
  MethodOptions options;
  const int status = method_parse(argc, argv, &options);
  return status != 0 ? status : run(&options);
}
