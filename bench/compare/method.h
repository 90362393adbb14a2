/* The measuring loop that every driver of bench/compare runs, so that the libraries differ in nothing but the all-reduce.
 *
 * Per iteration: the input is rewritten with new values, a barrier of the library's own, the all-reduce is timed by the clock
 * of each rank, the whole output is read and checked. The time of an iteration is the slowest rank's. Values are small
 * integers, so that a float sum is exact in any order. C11 and C++; one rank is one process or (limit) one thread.
 *
 * Rank 0 prints one JSON line per size as soon as it is known: a run that is stopped keeps what it has measured.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* What a driver gives. Each returns 0 for success; on failure it has printed why. */
typedef struct {
  void* context;
  int rank;
  int size;
  int (*barrier)(void* context);
  int (*all_reduce)(void* context, const float* send, float* recv, size_t count); /* sum */
  int (*max)(void* context, double* values, size_t count); /* in place, on every rank the greatest over ranks */
  int (*allocate)(void* context, size_t bytes, float** buffer);
} MethodDriver;

typedef struct {
  size_t sizes[64];
  size_t size_count;
  double budget_seconds; /* per size: fewer iterations when they would take longer */
} MethodOptions;

enum { kMethodMinimumIterations = 5, kMethodMaximumIterations = 2000 };

/* Exit statuses that compare knows. */
enum { kMethodFailed = 1, kMethodUsage = 2, kMethodWrongResult = 3 };

static inline double method_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Iterations by size alone: enough for a steady median of small ones, few of large ones. */
static inline size_t method_planned_iterations(size_t bytes) {
  const size_t by_bytes = ((size_t)512 << 20) / (bytes + 1);
  if (by_bytes > kMethodMaximumIterations) return kMethodMaximumIterations;
  return by_bytes < kMethodMinimumIterations ? (size_t)kMethodMinimumIterations : by_bytes;
}

/* Every element changes from one iteration to the next, so that a stale output is never right, and the part of a rank differs
 * from every other rank's, so that one taken twice is seen. */
static inline void method_write(float* send, size_t count, size_t iteration, int rank) {
  const uint32_t shift = (uint32_t)iteration;
  for (size_t k = 0; k < count; ++k) send[k] = (float)((((uint32_t)k + shift) & 7u) + (uint32_t)rank + 1u);
}

static inline float method_expected(size_t k, size_t iteration, int size) {
  const uint32_t ranks = (uint32_t)size;
  const uint32_t sum_of_ranks = ranks * (ranks + 1u) / 2u;
  return (float)(ranks * (((uint32_t)k + (uint32_t)iteration) & 7u) + sum_of_ranks);
}

/* Reads the whole output; branch-free, so that the compiler reads it by vectors. */
static inline int method_check(const float* recv, size_t count, size_t iteration, const MethodDriver* driver) {
  size_t wrong = 0;
  for (size_t k = 0; k < count; ++k) wrong += recv[k] != method_expected(k, iteration, driver->size);
  if (wrong == 0) return 0;
  size_t first = 0;
  while (recv[first] == method_expected(first, iteration, driver->size)) ++first;
  fprintf(stderr, "rank %d: wrong result: %zu of %zu elements of iteration %zu, the first at %zu: %g, must be %g\n",
          driver->rank, wrong, count, iteration, first, (double)recv[first],
          (double)method_expected(first, iteration, driver->size));
  return kMethodWrongResult;
}

static inline int method_compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static inline void method_print(size_t bytes, double* seconds, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += seconds[i];
  qsort(seconds, count, sizeof *seconds, method_compare_doubles);
  const double median = count % 2 == 1 ? seconds[count / 2] : 0.5 * (seconds[count / 2 - 1] + seconds[count / 2]);
  printf("{\"bytes\": %zu, \"iterations\": %zu, \"median_us\": %.4f, \"mean_us\": %.4f, \"min_us\": %.4f, \"p90_us\": %.4f}\n",
         bytes, count, 1e6 * median, 1e6 * sum / (double)count, 1e6 * seconds[0], 1e6 * seconds[count * 9 / 10]);
  fflush(stdout);
}

typedef struct {
  float* send;
  float* recv;
  double* seconds; /* per iteration */
} MethodBuffers;

/* Iterations [first, first + count); seconds of each of them on this rank. */
static inline int method_iterate(const MethodDriver* driver, const MethodBuffers* buffers, size_t elements, size_t first,
                                 size_t count) {
  for (size_t i = 0; i < count; ++i) {
    int status;
    method_write(buffers->send, elements, first + i, driver->rank);
    if ((status = driver->barrier(driver->context)) != 0) return status;
    const double start = method_seconds();
    status = driver->all_reduce(driver->context, buffers->send, buffers->recv, elements);
    buffers->seconds[i] = method_seconds() - start;
    if (status != 0) return status;
    if ((status = method_check(buffers->recv, elements, first + i, driver)) != 0) return status;
  }
  return 0;
}

/* One size: a few iterations for warming up, which also say how many fit into the budget, then the measured ones. */
static inline int method_measure(const MethodDriver* driver, const MethodBuffers* buffers, size_t bytes,
                                 double budget_seconds) {
  const size_t elements = bytes / sizeof(float);
  const size_t planned = method_planned_iterations(bytes);
  const size_t warmups = planned / 40 + 2;
  int status;
  const double start = method_seconds();
  if ((status = method_iterate(driver, buffers, elements, 0, warmups)) != 0) return status;
  double each = (method_seconds() - start) / (double)warmups;
  if ((status = driver->max(driver->context, &each, 1)) != 0) return status;
  size_t iterations = planned;
  if (each * (double)iterations > budget_seconds) iterations = (size_t)(budget_seconds / each);
  if (iterations < kMethodMinimumIterations) iterations = kMethodMinimumIterations;
  if ((status = method_iterate(driver, buffers, elements, warmups, iterations)) != 0) return status;
  if ((status = driver->max(driver->context, buffers->seconds, iterations)) != 0) return status;
  if (driver->rank == 0) method_print(bytes, buffers->seconds, iterations);
  return 0;
}

/* Measures all sizes; 0, or the exit status that says what went wrong. */
static inline int method_run(const MethodDriver* driver, const MethodOptions* options) {
  MethodBuffers buffers;
  memset(&buffers, 0, sizeof buffers);
  size_t greatest = 0;
  int status = 0;
  for (size_t s = 0; s < options->size_count; ++s) greatest = options->sizes[s] > greatest ? options->sizes[s] : greatest;
  if ((status = driver->allocate(driver->context, greatest, &buffers.send)) != 0) return status;
  if ((status = driver->allocate(driver->context, greatest, &buffers.recv)) != 0) return status;
  buffers.seconds = (double*)calloc(kMethodMaximumIterations, sizeof *buffers.seconds);
  if (!buffers.seconds) return kMethodFailed;
  memset(buffers.recv, 0, greatest);
  for (size_t s = 0; s < options->size_count && status == 0; ++s) {
    status = method_measure(driver, &buffers, options->sizes[s], options->budget_seconds);
  }
  free(buffers.seconds);
  return status;
}

/* Ordinary memory on page boundaries; every driver's but that of registered memory. Lives until the process ends. */
static inline int method_allocate_pages(size_t bytes, float** buffer) {
  const size_t page = 4096;
  *buffer = (float*)aligned_alloc(page, (bytes + page - 1) / page * page);
  if (*buffer) return 0;
  fprintf(stderr, "%zu bytes of memory could not be allocated\n", bytes);
  return kMethodFailed;
}

static inline int method_usage(const char* what) {
  fprintf(stderr, "%s; arguments are: budget in ms, then sizes in bytes, multiples of 4\n", what);
  return kMethodUsage;
}

/* "1000 8 128 ...": what every driver takes first. Also makes the rank die with the launcher that started it. */
static inline int method_parse(int argc, char** argv, MethodOptions* options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  memset(options, 0, sizeof *options);
  if (argc < 3) return method_usage("too few arguments");
  char* end;
  options->budget_seconds = 1e-3 * strtod(argv[1], &end);
  if (*end != 0 || !(options->budget_seconds > 0)) return method_usage("the budget is not above 0");
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = (size_t)strtoull(argv[i], &end, 10);
    if (*end != 0 || bytes < sizeof(float) || bytes % sizeof(float) != 0) return method_usage("a size is not a multiple of 4");
    if (options->size_count == sizeof options->sizes / sizeof *options->sizes) return method_usage("more than 64 sizes");
    options->sizes[options->size_count++] = bytes;
  }
  return 0;
}
